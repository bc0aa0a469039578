"""Acting and consuming: what an event's active set is, and which sets are refused."""

import asyncio

import pytest

from tests.rollout.scripted import ScriptedLLM, make_team
from verl_srpo.rollout import Agent, DefinitionError, SetRuleError

LONG = "the quick brown fox jumps over the lazy dog"


async def test_one_view_gives_an_output_several_give_a_tuple_in_the_order_given():
    team = make_team(ScriptedLLM({"a": "one", "b": "two"}), "a", "b")
    both = await team.act({"b": "?", "a": "?"})
    assert [output.text for output in both] == ["two", "one"]
    alone = await team.act({"a": "?"})
    assert alone.text == "one" and (alone.state, alone.event.index) == (1, 1)


async def test_act_set_is_a_tuple_even_of_one():
    team = make_team(ScriptedLLM(), "a")
    (output,) = await team.act_set({"a": "?"})
    assert output.event.size == 1


async def test_an_agent_may_stand_twice_in_a_set():
    team = make_team(ScriptedLLM({"a": ["x", "y"]}), "a")
    first, second = await team.act_set([("a", "?"), ("a", "?")])
    assert (first.text, second.text, first.event) == ("x", "y", second.event)


async def test_members_of_a_set_are_generated_side_by_side():
    """Each agent's answer waits for the other's request: one after the other would never end."""
    arrived = {"a": asyncio.Event(), "b": asyncio.Event()}

    async def after_the_other(call):
        arrived[call.agent].set()
        await asyncio.wait_for(arrived["b" if call.agent == "a" else "a"].wait(), 5)
        return "done"

    team = make_team(ScriptedLLM(default=after_the_other), "a", "b")
    assert [output.text for output in await team.act({"a": "?", "b": "?"})] == ["done", "done"]


async def test_asking_and_consuming_apart():
    team = make_team(ScriptedLLM({"a": "draft", "b": "review"}), "a", "b")
    draft, review = await asyncio.gather(team.ask("a", "?"), team.ask("b", "?"))
    assert draft.event is None and not team.events
    event = team.consume([draft, review], reward=0.5)
    assert (event.members, event.size, event.state, event.reward) == ((draft, review), 2, 0, 0.5)
    assert draft.event is review.event is event


async def test_outputs_of_one_round_may_be_consumed_in_a_later_one():
    team = make_team(ScriptedLLM(), "a", "b", "c")
    early = [await team.ask("a", "?"), await team.ask("b", "?")]
    await team.act({"c": "?"})
    event = team.consume(early)
    assert (event.index, event.state) == (1, 0)


async def test_private_drafts_leave_the_aggregator_alone_in_its_set():
    team = make_team(ScriptedLLM(), "a", "b", "sum")
    drafts = await asyncio.gather(team.ask("a", "?"), team.ask("b", "?"))
    await team.act({"sum": " ".join(draft.text for draft in drafts)})
    assert [event.size for event in team.events] == [1]
    assert team.counters()["unconsumed_outputs"] == 2


async def test_views_are_texts_or_messages_and_the_system_prompt_goes_first():
    llm = ScriptedLLM()
    team = make_team(llm, Agent("a", system="Be brief."))
    await team.act({"a": "hi"})
    await team.act({"a": [{"role": "user", "content": "1"}, {"role": "assistant", "content": "2"}]})
    await team.act({"a": [{"role": "system", "content": "Own."}, {"role": "user", "content": "1"}]})
    assert [call.prompt for call in llm.calls] == [
        "<system>Be brief.<user>hi<assistant>",
        "<system>Be brief.<user>1<assistant>2<assistant>",
        "<system>Own.<user>1<assistant>",
    ]


@pytest.mark.parametrize("view", [[], [{"role": "user"}], [{}]])
async def test_a_view_that_is_none_is_refused_before_anything_is_asked(view):
    llm = ScriptedLLM()
    with pytest.raises(DefinitionError, match="a: a view is a text or a non-empty list of messages"):
        await make_team(llm, "b", "a").act({"b": "fine", "a": view})
    assert llm.calls == []


# ---- sets that are refused ----


async def test_an_agent_that_the_roster_lacks():
    llm = ScriptedLLM()
    with pytest.raises(DefinitionError, match="no agent 'jugde'; did you mean 'judge'"):
        await make_team(llm, "solver", "judge").act({"solver": "?", "jugde": "?"})
    assert llm.calls == [], "nobody is asked before all names are right"


async def test_consuming_twice_names_the_output_and_its_event():
    team = make_team(ScriptedLLM(), "a", "b")
    a = await team.act({"a": "?"})
    b = await team.ask("b", "?")
    with pytest.raises(SetRuleError, match="a#0 was already consumed by event 0"):
        team.consume([b, a])
    assert len(team.events) == 1 and b.event is None, "a refused event leaves nothing behind"


async def test_an_output_named_twice_in_one_event():
    team = make_team(ScriptedLLM(), "a")
    a = await team.ask("a", "?")
    with pytest.raises(SetRuleError, match="a#0 is named twice"):
        team.consume([a, a])


async def test_consuming_nothing():
    team = make_team(ScriptedLLM(), "a")
    with pytest.raises(SetRuleError, match="at least one output"):
        team.consume([])
    with pytest.raises(SetRuleError, match="at least one view"):
        await team.act({})


async def test_outputs_asked_for_in_different_states():
    team = make_team(ScriptedLLM(), "a", "b", "c")
    a = await team.ask("a", "?")
    await team.act({"c": "?"})
    b = await team.ask("b", "?")
    with pytest.raises(SetRuleError, match=r"a#0 was asked for in state 0 and b#2 in state 1"):
        team.consume([a, b])


async def test_an_output_of_another_episode_and_something_else():
    stranger = await make_team(ScriptedLLM(), "a").ask("a", "?")
    team = make_team(ScriptedLLM(), "a")
    await team.ask("a", "?")
    with pytest.raises(SetRuleError, match="a#0 belongs to another episode"):
        team.consume(stranger)
    with pytest.raises(SetRuleError, match="takes outputs, got 'text'"):
        team.consume(["text"])


async def test_an_output_that_is_still_being_generated():
    gate = asyncio.Event()
    team = make_team(ScriptedLLM(gates={"a": gate}), "a")
    task = asyncio.ensure_future(team.ask("a", "?"))
    await asyncio.sleep(0)
    with pytest.raises(SetRuleError, match="a#0 is still being generated"):
        team.consume(team.outputs[0])
    gate.set()
    team.consume(await task)


async def test_an_output_shown_to_another_before_it_acted():
    team = make_team(ScriptedLLM({"a": LONG}), "a", "b")
    a = await team.ask("a", "?")
    b = await team.ask("b", f"Review this: {a.text}")
    with pytest.raises(SetRuleError, match=r"a#0 stands in the prompt of b#1 \(20 tokens or more"):
        team.consume([b, a])
    team.consume(a)
    with pytest.raises(SetRuleError, match="already consumed"):
        team.consume([a, b])


async def test_a_part_of_twenty_tokens_counts_and_nineteen_do_not():
    for length, refused in ((20, True), (19, False)):
        team = make_team(ScriptedLLM({"a": LONG}), "a", "b")
        a = await team.ask("a", "?")
        b = await team.ask("b", f"[{a.text[4 : 4 + length]}]")
        if refused:
            with pytest.raises(SetRuleError, match="stands in the prompt"):
                team.consume([a, b])
        else:
            team.consume([a, b])


async def test_what_an_output_could_have_copied_itself_is_no_evidence():
    """Both agents see the question, and the first repeats it: that shows nothing to the second."""
    team = make_team(ScriptedLLM({"a": f"You ask: {LONG}"}), "a", "b")
    a = await team.ask("a", f"Q: {LONG}")
    b = await team.ask("b", f"Q: {LONG}")
    assert team.consume([a, b]).size == 2


async def test_what_an_earlier_event_made_public_is_no_evidence():
    team = make_team(ScriptedLLM({"a": [LONG, LONG]}), "a", "b")
    first = await team.act({"a": "?"})
    again = await team.ask("a", "say it again")
    reply = await team.ask("b", f"a said: {first.text}")
    assert team.consume([again, reply]).size == 2


async def test_members_of_one_act_cannot_have_seen_each_other():
    """The words stand in b's prompt by chance: both were asked before either had answered."""
    team = make_team(ScriptedLLM({"a": LONG}), "a", "b")
    a, _ = await team.act({"a": "?", "b": LONG})
    assert a.event.size == 2


# ---- rewards, tools, the end ----


async def test_rewards_add_up_on_the_event_that_consumed():
    team = make_team(ScriptedLLM(), "a", "b")
    a, b = await team.act({"a": "?", "b": "?"}, reward=0.5)
    team.reward(a, 1.0)
    team.reward(b.event, -0.25)
    assert a.event.reward == 1.25
    draft = await team.ask("a", "?")
    with pytest.raises(SetRuleError, match="a#2 was consumed by no event"):
        team.reward(draft, 1.0)


async def test_a_tool_is_counted_and_its_result_returned():
    async def search():
        return ["passage"]

    team = make_team(ScriptedLLM(), "a")
    assert await team.tool(search(), calls=2) == ["passage"]
    assert team.tool_calls == 2 and not team.outputs


async def test_no_asking_and_consuming_after_the_end():
    team = make_team(ScriptedLLM(), "a")
    draft = await team.ask("a", "?")
    await team.close()
    with pytest.raises(DefinitionError, match="after the episode has ended"):
        await team.ask("a", "?")
    with pytest.raises(DefinitionError, match="after the episode has ended"):
        team.consume(draft)
