"""Playing an episode: outcome, costs, and what each failure policy keeps."""

import asyncio
from collections import Counter

import pytest

from tests.rollout.scripted import ScriptedLLM, audit, run
from verl_srpo.rollout import Agent, DefinitionError, Limits, Outcome, Rules, Workflow


class Chain(Workflow):
    """Two side by side, then one, then one: events of 2, 1, 1."""

    agents = tuple(Agent(name) for name in ("a", "b", "c", "d"))

    async def run(self, task, team):
        a, b = await team.act({"a": "?", "b": "?"}, reward=0.5)
        await team.act({"c": f"{a.text} {b.text}"}, reward=-0.25)
        d = await team.act({"d": "?"})
        return Outcome(answer=d.text)


class Play(Workflow):
    """A workflow from a function."""

    def __init__(self, play, *names):
        self.play = play
        self.agents = tuple(Agent(name) for name in (names or ("a", "b")))

    async def run(self, task, team):
        return await self.play(task, team)


BOOM = ConnectionError("boom")


def rules(failure, **settings):
    return Rules(failure=failure, **settings)


async def test_a_whole_episode():
    statistics = Counter()
    episode = await run(Chain(), ScriptedLLM({"d": "answer"}), statistics=statistics)
    assert audit(episode) == [(("a", "b"), 0, 2), (("c",), 1, 1), (("d",), 2, 1)]
    assert not episode.dropped and len(episode.trained) == 4
    assert episode.returns(1.0) == [0.5 - 0.25 + 1.0, -0.25 + 1.0, 1.0]
    assert episode.answer_output is episode.outputs[-1]
    costs = dict(episode.costs)
    assert costs.pop("wall_clock_s") > 0
    assert costs == {
        "team_tokens": 3 * 3 + 7, "calls": 4, "tool_calls": 0, "events": 3, "mean_set_size": 4 / 3,
        "invalid_outputs": 0, "failed_calls": 0,
    }  # fmt: skip
    assert statistics == {
        "episodes": 1, "episodes_kept": 1, "calls": 4, "tool_calls": 0, "events": 3, "events_kept": 3,
        "generated_tokens": 16, "prompt_tokens": 76, "cached_prompt_tokens": 0,
        "unconsumed_outputs": 0, "invalid_outputs": 0, "truncated_outputs": 0,
        "empty_outputs": 0,
    }  # fmt: skip


async def test_drop_set_removes_the_event_and_keeps_its_reward_in_the_returns():
    statistics = Counter()
    llm = ScriptedLLM({"b": BOOM, "d": "answer"})
    episode = await run(Chain(), llm, rules=rules("drop_set"), statistics=statistics)
    assert not episode.dropped
    assert [(m.agent, m.event.size) for m in episode.trained] == [("c", 1), ("d", 1)]
    assert [event.failure for event in episode.events] == ["server_error", "", ""]
    assert episode.returns(1.0)[0] == 1.25
    assert statistics["dropped/server_error"] == statistics["failed_calls/server_error"] == 1
    assert statistics["events_kept"] == 2


async def test_drop_episode_stops_at_the_first_failure():
    statistics = Counter()
    llm = ScriptedLLM({"b": BOOM})
    episode = await run(Chain(), llm, rules=rules("drop_episode"), statistics=statistics)
    assert episode.dropped == "server_error" and episode.trained == []
    assert {call.agent for call in llm.calls} == {"a", "b"}
    assert statistics["dropped_episodes/server_error"] == 1


async def test_siblings_are_awaited_before_a_failure_goes_on():
    """A bare gather would leave the other request running while the engine goes to sleep."""
    gate, failed, alive = asyncio.Event(), asyncio.Event(), []

    def fail(call):
        failed.set()
        return BOOM

    llm = ScriptedLLM({"b": fail}, gates={"a": gate})
    task = asyncio.ensure_future(run(Chain(), llm, rules=rules("drop_episode")))
    await failed.wait()
    for _ in range(20):
        await asyncio.sleep(0)
    alive.append((llm.in_flight, task.done()))
    gate.set()
    assert (await task).dropped == "server_error"
    assert alive == [(1, False)] and llm.in_flight == 0


async def test_refill_plays_again_until_the_episode_is_whole():
    statistics = Counter()
    llm = ScriptedLLM({"b": [BOOM, BOOM, "fine"], "d": "answer"})
    episode = await run(Chain(), llm, rules=rules("refill"), statistics=statistics)
    assert not episode.dropped and len(episode.trained) == 4
    assert (statistics["refilled_episodes"], statistics["episodes"], statistics["episodes_kept"]) == (2, 1, 1)
    assert statistics["failed_calls/server_error"] == 2


async def test_refill_gives_up_after_its_attempts():
    statistics = Counter()
    episode = await run(
        Chain(), ScriptedLLM({"b": BOOM}), rules=rules("refill", refill_attempts=1), statistics=statistics
    )
    assert episode.dropped == "server_error"
    assert (statistics["refilled_episodes"], statistics["dropped_episodes/server_error"]) == (1, 1)
    assert statistics["calls"] == 4


async def test_a_failure_that_the_workflow_swallows_still_drops_the_episode():
    async def play(task, team):
        try:
            await team.act({"a": "?"})
        except Exception:
            return Outcome(answer="never mind")

    episode = await run(Play(play), ScriptedLLM({"a": BOOM}), rules=rules("drop_episode"))
    assert episode.dropped == "server_error"


async def test_an_exception_in_workflow_code_names_workflow_event_and_agent(caplog):
    async def play(task, team):
        await team.act({"a": "?"})
        await team.act({"b": "?"})
        return {}["missing"]

    episode = await run(Play(play), ScriptedLLM())
    assert (episode.dropped, episode.trained) == ("workflow_error", [])
    for part in ("workflow Play", "episode u/0", "event 2", "last asked: b#1", "KeyError: 'missing'"):
        assert part in caplog.text


async def test_a_set_rule_drops_the_episode_under_its_name():
    async def play(task, team):
        a = await team.act({"a": "?"})
        team.consume(a)

    assert (await run(Play(play), ScriptedLLM())).dropped == "set_rule"


async def test_a_wrong_workflow_is_an_error_and_no_drop():
    async def unknown(task, team):
        await team.act({"z": "?"})

    async def nothing(task, team):
        await team.act({"a": "?"})

    with pytest.raises(DefinitionError, match="no agent 'z'"):
        await run(Play(unknown), ScriptedLLM())
    with pytest.raises(DefinitionError, match="must return an Outcome, got None"):
        await run(Play(nothing), ScriptedLLM())


@pytest.mark.parametrize(
    ("outcome", "replies", "reason"),
    [
        (Outcome(), {}, "no_answer"),
        (Outcome(), {"a": BOOM}, "server_error"),
        (Outcome(answer=""), {"a": BOOM}, "server_error"),  # never scored as a wrong answer
        (Outcome(answer="x"), {"a": BOOM}, "no_rows"),
        (Outcome(reward=1.0), {"a": BOOM}, "no_rows"),
        (Outcome(answer=""), {}, ""),  # the team said nothing: that is an answer, and a wrong one
        (Outcome(reward=0.0), {}, ""),
        (Outcome(reward=float("nan")), {}, "workflow_error"),
    ],
)
async def test_when_an_outcome_drops_the_episode(outcome, replies, reason):
    async def play(task, team):
        await team.act({"a": "?"})
        return outcome

    assert (await run(Play(play), ScriptedLLM(replies))).dropped == reason


async def test_an_episode_without_events_is_dropped():
    async def play(task, team):
        await team.ask("a", "?")
        return Outcome(answer="x")

    assert (await run(Play(play), ScriptedLLM())).dropped == "no_events"


async def test_a_request_that_nobody_waits_for_ends_with_the_episode_and_is_not_trained_on():
    gate = asyncio.Event()

    async def play(task, team):
        slow = asyncio.ensure_future(team.ask("b", "?"))
        fast = await team.act({"a": "?"})
        slow.cancel()  # early stop: the answer is there, the sibling is still at it
        gate.set()
        return Outcome(answer=fast.text)

    statistics = Counter()
    llm = ScriptedLLM(gates={"b": gate})
    episode = await run(Play(play), llm, statistics=statistics)
    assert [member.agent for member in episode.trained] == ["a"]
    assert llm.in_flight == 0 and statistics["unconsumed_outputs"] == 1


async def test_a_cancelled_episode_leaves_no_request_behind():
    llm = ScriptedLLM(gates={"a": asyncio.Event()})
    task = asyncio.ensure_future(run(Chain(), llm))
    while llm.in_flight < 1:
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert llm.in_flight == 0


async def test_a_failing_tool_drops_the_episode_under_every_policy():
    async def search():
        raise ConnectionError("retriever is down")

    async def play(task, team):
        await team.act({"a": "?"})
        await team.tool(search(), name="retriever")

    for failure in ("drop_set", "drop_episode"):
        episode = await run(Play(play), ScriptedLLM(), rules=rules(failure))
        assert (episode.dropped, episode.trained) == ("tool_error", [])
        assert "retriever: ConnectionError: retriever is down" in episode.message


async def test_an_over_long_prompt_is_a_failed_call():
    limits = Limits(context=100, prompt=30, response=20)
    episode = await run(Chain(), ScriptedLLM({"a": "x" * 15, "d": "answer"}), limits=limits)
    assert [event.failure for event in episode.events] == ["", "prompt_too_long", ""]


async def test_invalid_outputs_cost_their_event_the_penalty():
    async def play(task, team):
        a, b = await team.act({"a": "?", "b": "?"}, reward=1.0)
        team.invalid(a, "no tag")
        team.invalid(b, "no tag either")
        team.invalid(b, "said once is enough")
        return Outcome(answer="x")

    episode = await run(Play(play), ScriptedLLM(), rules=rules("drop_set", invalid_penalty=0.1))
    assert episode.event_reward(episode.events[0]) == pytest.approx(0.8)
    assert [member.invalid for member in episode.trained] == ["no tag", "no tag either"]
    assert episode.costs["invalid_outputs"] == 2


async def test_episodes_run_side_by_side():
    """Sixteen episodes whose first calls all wait for each other."""
    everyone, waiting = asyncio.Event(), []

    async def meet(call):
        waiting.append(call)
        if len(waiting) == 16:
            everyone.set()
        await asyncio.wait_for(everyone.wait(), 5)
        return "here"

    llm = ScriptedLLM({"a": meet})

    async def play(task, team):
        return Outcome(answer=(await team.act({"a": "?"})).text)

    episodes = await asyncio.gather(*(run(Play(play), llm) for _ in range(16)))
    assert [episode.outcome.answer for episode in episodes] == ["here"] * 16
