"""What users of neighbouring systems reported: each must not be possible here."""

from __future__ import annotations

import asyncio
import random
from collections import Counter

import pytest

from tests.rollout.scripted import ScriptedLLM, audit, make_team, question, run, tokens
from tests.rollout.small_tokenizer import small_tokenizer
from verl_srpo.rollout import Agent, Limits, Outcome, Rules, Sampling, Workflow, play
from verl_srpo.rollout.codec import TokenizerCodec
from verl_srpo.rollout.rows import episode_rows, finish_rows


class Three(Workflow):
    """Two side by side, then a third."""

    agents = (Agent("a"), Agent("b"), Agent("c"))

    async def run(self, task, team):
        a, b = await team.act({"a": "?", "b": "?"}, reward=-0.2)
        c = await team.act({"c": f"{a.text} {b.text}"})
        return Outcome(answer=c.text or None)


def rows_of(episode, outcome=1.0, session_id=0):
    rows = episode_rows(episode, eos_token_id=0, fill_log_probs=True)
    if rows:
        finish_rows(rows, outcome, uid="u", session_id=session_id, gamma=1.0, temperature=1.0)
    return rows


async def test_field_report_13_sampled_ids_are_trained_on_even_where_the_tokenizer_would_write_them_otherwise():
    """verl#3720, #3960, trl#5224, rLLM#816: decode and encode again, and other ids come out."""
    tokenizer = small_tokenizer()
    canonical = tokenizer.encode("What is the answer", add_special_tokens=False)
    sampled = [tokenizer.encode(character, add_special_tokens=False)[0] for character in "What is the answer"]
    sampled.append(tokenizer.eos_token_id)
    assert tokenizer.encode(tokenizer.decode(sampled[:-1]), add_special_tokens=False) == canonical != sampled[:-1]
    log_probs = [-0.01 * (i + 1) for i in range(len(sampled))]

    llm = ScriptedLLM(default=tokens(sampled, log_probs))
    llm.codec = TokenizerCodec(tokenizer)
    episode = await run(Three(), llm)
    assert episode.outputs[0].text == "What is the answer"
    for row in rows_of(episode):
        assert row.response_ids == sampled and row.response_mask == [1] * len(sampled)
        assert row.as_dict()["rollout_log_probs"].tolist() == pytest.approx(log_probs)


async def test_field_report_13_ids_and_log_probs_of_different_lengths_are_an_error_and_never_padded():
    episode = await run(Three(), ScriptedLLM({"a": tokens([20, 21, 22], [-0.1, -0.2])}))
    assert episode.outputs[0].failure == "log_prob_mismatch"
    assert [row.tags.agent_id for row in rows_of(episode)] == [2], "the set of a and b is gone, whole"


async def test_field_report_21_an_agent_without_data_is_fine():
    """PettingLLMs#11: only the last agent has data, the others crash on empty batches."""

    class Lazy(Three):
        async def run(self, task, team):
            return Outcome(answer=(await team.act({"c": "?"})).text)

    rows = rows_of(await run(Lazy(), ScriptedLLM()))
    assert [(row.tags.agent_id, row.tags.event_index) for row in rows] == [(2, 0)]


async def test_field_report_22_every_agent_has_sampling_settings_of_its_own():
    """PettingLLMs#18."""
    llm = ScriptedLLM()
    agents = [
        Agent("a", sampling=Sampling(temperature=0.2, stop=("END",)), validation=Sampling(temperature=0.0)),
        Agent("b", sampling=Sampling(max_tokens=5, top_k=3)),
    ]
    for validate in (False, True):
        team = make_team(llm, *agents, validate=validate, sampling={"temperature": 1.0, "top_k": -1})
        await team.act({"a": "?", "b": "?"})
    assert [call.sampling for call in llm.calls] == [
        {"temperature": 0.2, "top_k": -1, "max_tokens": 200, "stop": ["END"]},
        {"temperature": 1.0, "top_k": 3, "max_tokens": 5},
        {"temperature": 0.0, "top_k": -1, "max_tokens": 200, "stop": ["END"]},
        {"temperature": 1.0, "top_k": -1, "max_tokens": 5},
    ]


@pytest.mark.parametrize(
    ("failure", "trained", "dropped"), [("drop_set", [0, 1], ""), ("drop_episode", [], "server_error")]
)
async def test_field_report_23_a_partial_prefix_is_trained_on_only_where_the_policy_says_so(failure, trained, dropped):
    """agent-lightning#448: the third sub-agent raises."""

    class GoesOn(Three):
        async def run(self, task, team):
            await team.act({"a": "?", "b": "?"})
            await team.act({"c": "?"})
            return Outcome(reward=0.5)

    episode = await run(GoesOn(), ScriptedLLM({"c": OSError("boom")}), rules=Rules(failure=failure))
    assert episode.dropped == dropped
    assert [row.tags.agent_id for row in rows_of(episode, 0.5)] == trained


async def test_field_report_24_the_outcome_does_not_overwrite_an_event_reward():
    """AReaL PR#1674: an intermediate -0.2 is overwritten by the final +1.0."""
    rows = rows_of(await run(Three(), ScriptedLLM()), outcome=1.0)
    assert [row.tags.event_reward for row in rows] == [-0.2, -0.2, 0.0]
    assert [row.tags.outcome_reward for row in rows] == [1.0] * 3
    assert [row.tags.event_return for row in rows] == [0.8, 0.8, 1.0]
    assert [row.tags.episode_return for row in rows] == [0.8] * 3


async def test_field_report_26_limits_are_for_each_call_and_each_row():
    """rLLM PR#575: a merged response is cut to the cap of one turn."""
    llm = ScriptedLLM(default="x" * 50)
    episode = await run(Three(), llm, limits=Limits(context=400, prompt=300, response=20))
    rows = rows_of(episode)
    assert [len(row.response_ids) for row in rows] == [20, 20, 20]
    assert episode.costs["team_tokens"] == 60 and all(row.tags.truncated for row in rows)
    assert [call.sampling["max_tokens"] for call in llm.calls] == [20] * 3


async def test_field_report_29_episodes_go_on_while_one_waits_for_its_grade():
    """verifiers PR#831: a burst of grading blocks the event loop. A workflow's own grader runs in a thread."""
    import threading

    others_done = threading.Event()

    def grade(text):
        assert threading.current_thread() is not threading.main_thread()
        return 1.0 if others_done.wait(timeout=10) else 0.0

    class Graded(Three):
        async def run(self, task, team):
            c = await team.act({"c": "?"})
            if task.session_id == 0:
                return Outcome(reward=await asyncio.to_thread(grade, c.text))
            return Outcome(reward=0.0)

    slow = asyncio.ensure_future(run(Graded(), ScriptedLLM(), task=question(session_id=0)))
    await asyncio.gather(*(run(Graded(), ScriptedLLM(), task=question(session_id=i)) for i in range(1, 9)))
    others_done.set()
    assert (await slow).outcome.reward == 1.0


# ---- faults, many of them -----------------------------------------------------------------------------------------


class Faulty(ScriptedLLM):
    """One call in ten raises, never answers, or returns nonsense; counts what it did."""

    def __init__(self, seed):
        super().__init__()
        self.random, self.injected, self.never = random.Random(seed), Counter(), asyncio.Event()

    async def generate(self, request_id, *, prompt_ids, sampling_params, **kwargs):
        if self.random.random() >= 0.1:
            return await super().generate(request_id, prompt_ids=prompt_ids, sampling_params=sampling_params)
        kind = self.random.choice(["server_error", "timeout", "garbage", "log_prob_mismatch", "aborted"])
        self.injected[kind] += 1
        if kind == "server_error":
            raise ConnectionError("injected")
        if kind == "timeout":
            await self.never.wait()
        ids = {"garbage": ["?"], "log_prob_mismatch": [20, 21], "aborted": []}[kind]
        return tokens(ids, [-0.1], stop_reason="aborted" if kind == "aborted" else "completed")


@pytest.mark.parametrize("failure", ["drop_set", "drop_episode", "refill"])
async def test_no_part_of_a_set_survives_and_the_counters_add_up(failure):
    llm, statistics, workflow = Faulty(seed=5), Counter(), Three()
    limits = Limits(context=2000, prompt=1500, response=200, timeout=0.05)
    rules = Rules(failure=failure)

    async def one(session_id):
        return await play(
            workflow,
            question(session_id=session_id),
            lambda: make_team(llm, *workflow.agents, rules=rules, limits=limits, episode=f"u-{session_id}"),
            statistics=statistics,
        )

    episodes = await asyncio.gather(*(one(i) for i in range(200)))
    rows = [row for i, episode in enumerate(episodes) for row in rows_of(episode, session_id=i)]
    sizes = Counter(row.tags.set_id for row in rows)
    assert all(sizes[row.tags.set_id] == row.tags.set_size for row in rows), "a set is whole or not there"
    assert len(sizes) == statistics["events_kept"]

    failed = {name.split("/")[1]: n for name, n in statistics.items() if name.startswith("failed_calls/")}
    assert failed == llm.injected and sum(failed.values()) > 30
    removed = sum(n for name, n in statistics.items() if name.startswith("dropped/"))
    assert statistics["events"] == statistics["events_kept"] + removed
    dropped = sum(n for name, n in statistics.items() if name.startswith("dropped_episodes/"))
    assert statistics["episodes"] == 200 == statistics["episodes_kept"] + dropped
    assert dropped == sum(bool(episode.dropped) for episode in episodes)
    if failure != "drop_set":
        assert all(len(audit(episode)) == 2 for episode in episodes if not episode.dropped)
    if failure == "refill":
        assert dropped < 20 < statistics["refilled_episodes"]
