"""The math teams: sets on every path, malformed actions, failures."""

import pytest

from tests.rollout.scripted import ScriptedLLM
from tests.workflows.teams import APPROVE, BOXED, FINAL, REJECT, STOP, consumed, marked, play, route
from verl_srpo.rollout import DefinitionError, Rules, build_workflow

BOOM = ConnectionError("boom")


async def test_debate_shows_every_draft_to_the_judge():
    episode, llm = await play("math/debate", {"solver1": "one", "solver3": "three", "judge": "5"}, {"n": 3})
    assert consumed(episode) == [["solver1", "solver2", "solver3"], ["judge"]]
    assert episode.outcome.answer == "5"
    view = llm.calls[-1].prompt
    assert all(part in view for part in ("What is 2 plus 3?", "solver1: one", "solver2: ok", "solver3: three"))


async def test_debate_goes_on_with_the_drafts_that_are_there():
    episode, llm = await play("math/debate", {"solver1": BOOM, "solver2": "two", "judge": "5"})
    assert [member.agent for member in episode.trained] == ["judge"]
    assert "solver2: two" in llm.calls[-1].prompt and "solver1" not in llm.calls[-1].prompt
    nobody, llm = await play("math/debate", {"solver1": BOOM, "solver2": BOOM})
    assert nobody.dropped == "server_error" and "judge" not in {call.agent for call in llm.calls}
    silent, _ = await play("math/debate", {"judge": BOOM})
    assert silent.dropped == "server_error"


async def test_solver_verifier_ends_with_an_approval():
    episode, _ = await play("math/solver_verifier", {"solver": BOXED, "verifier": APPROVE})
    assert consumed(episode) == [["solver"], ["verifier"]]
    assert (episode.outcome.answer, dict(episode.outcome.info)) == (BOXED, {"revisions": 0, "approved": 1})


async def test_solver_verifier_revises_up_to_its_limit_and_sees_the_review():
    replies = {"solver": [BOXED, r"\boxed{6}", r"\boxed{7}"], "verifier": [f"wrong sign {REJECT}", "hm"]}
    episode, llm = await play("math/solver_verifier", replies, {"rounds": 2})
    assert consumed(episode) == [["solver"], ["verifier"]] * 3
    assert episode.outcome.answer == r"\boxed{7}"
    assert "wrong sign" in llm.calls[2].prompt and BOXED in llm.calls[2].prompt
    assert marked(episode) == ["verifier#3", "verifier#5"], "no verdict is no approval, and is malformed"


@pytest.mark.parametrize("verdict", ["", "approve", "<verify>approve</verify><verify>reject</verify>"])
async def test_a_missing_verdict_never_means_approval(verdict):
    episode, _ = await play("math/solver_verifier", {"solver": BOXED, "verifier": verdict}, {"rounds": 1})
    assert consumed(episode) == [["solver"], ["verifier"]] * 2
    assert episode.outcome.info["approved"] == 0
    assert episode.event_reward(episode.events[1]) == -0.1


async def test_team_with_fixed_routing():
    replies = {f"solver{i}": BOXED for i in (1, 2, 3)} | {"verifier": APPROVE, "aggregator": FINAL}
    episode, _ = await play("math/team", replies)
    assert consumed(episode) == [["solver1", "solver2", "solver3"], ["verifier"], ["aggregator"]]
    assert episode.outcome.answer == FINAL and not marked(episode)
    assert episode.answer_output is episode.outputs[-1]


@pytest.mark.parametrize("chosen", [(1,), (2, 3), (1, 2, 3)])
async def test_an_adaptive_route_makes_sets_from_one_to_all(chosen):
    replies = {"router": route(*chosen), "verifier": APPROVE, "aggregator": FINAL}
    replies |= {f"solver{i}": BOXED for i in (1, 2, 3)}
    episode, _ = await play("math/team", replies, {"routing": "adaptive"})
    assert consumed(episode)[:2] == [["router"], [f"solver{i}" for i in chosen]]
    assert episode.events[1].size == len(chosen)


@pytest.mark.parametrize(
    ("said", "name"), [("", "empty"), ("all of them", "text"), (STOP, "stop"), (route(9), "range")]
)
async def test_a_route_that_chooses_nobody(said, name):
    episode, llm = await play("math/team", {"router": said, "aggregator": FINAL}, {"routing": "adaptive"})
    assert consumed(episode) == [["router"], ["aggregator"]], "neither everyone nor the end of the episode"
    assert marked(episode) == ["router#0"] and episode.event_reward(episode.events[0]) == -0.1
    assert "(no drafts)" in llm.calls[-1].prompt


async def test_team_revises_and_the_memory_grows():
    replies = {f"solver{i}": BOXED for i in (1, 2)} | {
        "verifier": [f"check the carry {REJECT}", APPROVE], "reviser": r"\boxed{6}", "aggregator": FINAL,
    }  # fmt: skip
    episode, llm = await play("math/team", replies, {"solvers": 2, "rounds": 2})
    assert consumed(episode) == [["solver1", "solver2"], ["verifier"], ["reviser"], ["verifier"], ["aggregator"]]
    assert dict(episode.outcome.info) == {"solvers_asked": 2, "revisions": 1, "approved": 1}
    final_view = llm.calls[-1].prompt
    assert (
        final_view.index("[solver2]") < final_view.index("check the carry") < final_view.index(r"[reviser] \boxed{6}")
    )
    reviser_view = llm.calls[3].prompt
    assert final_view.startswith(reviser_view[: reviser_view.index("\nYou are")]), "a prefix that the cache can keep"


async def test_team_stops_revising_at_its_limit():
    replies = {"solver1": BOXED, "verifier": REJECT, "reviser": BOXED, "aggregator": FINAL}
    episode, _ = await play("math/team", replies, {"solvers": 1, "rounds": 1})
    assert consumed(episode) == [["solver1"], ["verifier"], ["reviser"], ["verifier"], ["aggregator"]]
    assert episode.outcome.info["approved"] == 0
    episode, _ = await play("math/team", replies, {"solvers": 1, "rounds": 0})
    assert consumed(episode) == [["solver1"], ["verifier"], ["aggregator"]]


async def test_a_malformed_final_answer_is_not_repaired():
    replies = {"solver1": BOXED, "verifier": APPROVE, "aggregator": r"\boxed{5}"}
    episode, _ = await play("math/team", replies, {"solvers": 1})
    assert (episode.outcome.answer, marked(episode)) == ("", ["aggregator#2"])
    assert not episode.dropped and episode.returns(0.0) == [-0.1, -0.1, -0.1]


async def test_a_draft_without_a_box_is_malformed_and_still_read():
    replies = {"solver1": "five", "verifier": APPROVE, "aggregator": FINAL}
    episode, llm = await play("math/team", replies, {"solvers": 1})
    assert marked(episode) == ["solver1#0"] and "[solver1] five" in llm.calls[-1].prompt


async def test_a_failed_member_removes_its_set_and_the_others_work_is_used():
    replies = {"solver1": BOXED, "solver2": BOOM, "verifier": APPROVE, "aggregator": FINAL}
    episode, llm = await play("math/team", replies, {"solvers": 2})
    assert [event.failure for event in episode.events] == ["server_error", "", ""]
    assert "[solver1]" in llm.calls[-1].prompt and "[solver2]" not in llm.calls[-1].prompt
    episode, _ = await play("math/team", replies, {"solvers": 2}, rules=Rules(failure="drop_episode"))
    assert episode.dropped == "server_error" and not episode.trained


async def test_failed_calls_are_not_malformed_actions():
    replies = {"router": route(1), "solver1": BOXED, "verifier": BOOM, "reviser": BOOM, "aggregator": FINAL}
    episode, _ = await play("math/team", replies, {"solvers": 1, "routing": "adaptive"})
    assert not marked(episode) and not episode.dropped


async def test_field_report_25_joint_pays_for_the_pair_alone():
    """verl#3338, #3085, agent-lightning#110: two agents act, the reward depends on both outputs together."""
    pairs = {}
    for alice in "0123":
        for bob in "0123":
            episode, _ = await play("demo/joint", {"alice": alice, "bob": bob})
            assert consumed(episode) == [["alice", "bob"]] and len(episode.trained) == 2
            pairs[alice, bob] = episode.outcome.reward
    for one in "0123":  # a partner that plays all classes alike gives every choice the same mean
        assert sum(pairs[one, other] for other in "0123") == sum(pairs[other, one] for other in "0123") == 1.0
    assert sorted(pairs.values()) == [0.0] * 12 + [1.0] * 4


async def test_joint_is_given_up_when_one_is_missing():
    episode, _ = await play("demo/joint", {"alice": BOOM})
    assert episode.dropped == "server_error"


@pytest.mark.parametrize(
    ("name", "settings", "message"),
    [
        ("math/team", {"routing": "random"}, "routing='random': one of fixed, adaptive"),
        ("math/team", {"solvers": 0}, "solvers=0 must be 1 or more"),
        ("math/solver_verifier", {"rounds": -1}, "rounds=-1"),
        ("demo/joint", {"classes": 1}, "classes=1 2 or more"),
    ],
)
def test_settings_out_of_range(name, settings, message):
    with pytest.raises(DefinitionError, match=message):
        build_workflow(name, settings)


async def test_field_report_21_agents_that_are_never_routed_to_are_fine():
    """PettingLLMs#11: only the last agent has data."""
    replies = {"router": route(2), "solver2": BOXED, "verifier": APPROVE, "aggregator": FINAL}
    episode, llm = await play("math/team", replies, {"routing": "adaptive"})
    assert {call.agent for call in llm.calls} == {"router", "solver2", "verifier", "aggregator"}
    assert not episode.dropped and isinstance(llm, ScriptedLLM)
