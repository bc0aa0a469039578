"""Rows through verl's real agent-loop worker and TransferQueue: what the trainer will read."""

from __future__ import annotations

import asyncio
import importlib
import json
import re
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import ray
import torch
import transfer_queue as tq
from omegaconf import OmegaConf
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopMetrics, AgentLoopOutput, register
from verl.experimental.reward_loop.reward_manager.naive import NaiveRewardManager
from verl.utils.dataset.rl_dataset import RLHFDataset

from tests.rollout.scripted import ScriptedLLM
from tests.rollout.small_tokenizer import small_tokenizer
from verl_srpo.config.settings import SRPOSettings
from verl_srpo.rollout.agent_loop import rules_of
from verl_srpo.rollout.identifiers import set_identifier, state_identifier
from verl_srpo.rollout.manager import SRPOAgentLoopWorker
from verl_srpo.rollout.rows import TaggedOutput, Tags
from verl_srpo.rollout.statistics import total
from verl_srpo.rollout.transcript_log import TranscriptLog

TAGS = (
    "set_id", "state_id", "member_index", "set_size", "event_index", "agent_id", "num_events", "invalid", "truncated",
    "tagged", "event_reward", "outcome_reward", "event_return", "episode_return",
)  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def transfer_queue():
    ray.init(num_cpus=4, logging_level="ERROR", include_dashboard=False, address="local")
    tq.init()
    yield
    tq.close()
    ray.shutdown()


class BpeCodec:
    """What ScriptedLLM needs to speak the small tokenizer."""

    eos_token_ids = frozenset({small_tokenizer().eos_token_id})

    def encode(self, text):
        return small_tokenizer().encode(text, add_special_tokens=False)

    def decode(self, ids):
        return small_tokenizer().decode(ids)


class RewardWorker:
    """A reward worker handle that runs verl's own naive reward manager in this process."""

    def __init__(self, score):
        self.seen = []
        manager = NaiveRewardManager.__new__(NaiveRewardManager)
        manager.tokenizer, manager.is_async_reward_score, manager.reward_router_address = small_tokenizer(), False, None
        manager.compute_score = lambda **given: (self.seen.append(given), score(given))[1]
        self.manager = manager
        self.compute_score = SimpleNamespace(remote=self._score)

    async def _score(self, data):
        self.manager.loop = asyncio.get_running_loop()
        return await self.manager.run_single(data)


def exact(given):
    return float(given["solution_str"].strip() == given["ground_truth"])


class Worker(SRPOAgentLoopWorker):
    """The worker without what needs a model on disk."""

    def __init__(self, llm, *, score=exact, rollout=None, algorithm=None, **srpo):
        self.config = OmegaConf.create(
            {
                "actor_rollout_ref": {
                    "rollout": {
                        "n": 2, "temperature": 1.0, "top_p": 1.0, "top_k": -1, "prompt_length": 400,
                        "response_length": 64, "max_model_len": 512, "calculate_log_probs": True,
                        "full_determinism": False, "val_kwargs": {"n": 1, "temperature": 0, "top_p": 1.0, "top_k": -1},
                        "agent": {"default_agent_loop": "srpo_workflow"}, **(rollout or {}),
                    }
                },
                "data": {"max_prompt_length": 400},
                "algorithm": {"gamma": 1.0, **(algorithm or {})},
                "srpo": srpo,
            }
        )  # fmt: skip
        self.llm_client = llm
        llm.codec = BpeCodec()
        self.tokenizer, self.processor, self.tools = small_tokenizer(), None, []
        self.mm_processor_kwargs, self.hf_model_type, self.distillation_enabled = {}, None, False
        self.dataset_cls = RLHFDataset
        self.reward = RewardWorker(score) if score else None
        self.reward_loop_worker_handles = [self.reward] if score else None
        self.settings = SRPOSettings.from_config(self.config)
        self.rules = rules_of(self.settings, self.config)
        self.statistics = {"train": Counter(), "val": Counter()}
        self.transcripts = {"train": TranscriptLog(None, 0), "val": TranscriptLog(None, 0)}
        self._said = set()

    async def play(self, uid, *, validate=False, answer="5", **fields):
        """One prompt with its rollouts, exactly as verl runs it."""
        rollout = self.config.actor_rollout_ref.rollout
        val = rollout.val_kwargs if validate else rollout
        sampling = {"temperature": val.temperature, "top_p": val.top_p, "top_k": val.top_k, "logprobs": True}
        prompt = {
            "uid": uid,
            "raw_prompt": [{"role": "user", "content": "What is 2 plus 3?"}],
            "reward_model": {"ground_truth": answer, "style": "rule"},
            "data_source": "toy",
            "extra_info": {"index": 1},
            "index": 1,
            "global_steps": 3,
            "agent_name": "srpo_workflow",
            **fields,
        }
        trajectory = {"step": 3, "sample_index": 1, "rollout_n": 0, "validate": validate}
        await self._run_prompt(prompt, sampling, trajectory)


def read(uid, partition="train"):
    """Keys of a prompt's rows in order, and their columns."""
    stored = tq.kv_list(partition)[partition]
    keys = sorted(key for key in stored if key.startswith(f"{uid}_"))
    status = stored[uid]["status"]
    return keys, (tq.kv_batch_get(keys=keys, partition_id=partition) if keys else None), status


def debate_llm(judge="5"):
    return ScriptedLLM({"solver1": "it is five", "solver2": "6", "judge": judge})


def test_debate_rows_carry_every_tag_as_a_dense_column():
    worker = Worker(debate_llm(), workflow="math/debate")
    asyncio.run(worker.play("u0"))
    keys, data, status = read("u0")
    assert status == "finished"
    assert keys == ["u0_0_0", "u0_0_1", "u0_0_2", "u0_1_0", "u0_1_1", "u0_1_2"]
    for name in TAGS:
        column = data[name]
        assert isinstance(column, torch.Tensor) and not column.is_nested and column.shape == (6,), name
        assert column.dtype == (torch.float32 if name.endswith(("reward", "return")) else torch.int64), name
    sets = [set_identifier("u0", s, e) for s in (0, 1) for e in (0, 0, 1)]
    assert data["set_id"].tolist() == sets
    assert data["state_id"].tolist() == [state_identifier("u0", s, e) for s in (0, 1) for e in (0, 0, 1)]
    assert data["set_size"].tolist() == [2, 2, 1] * 2
    assert data["member_index"].tolist() == [0, 1, 0] * 2
    assert data["agent_id"].tolist() == [0, 1, 2] * 2
    assert data["num_events"].tolist() == [2] * 6
    assert data["tagged"].tolist() == [1] * 6
    assert data["outcome_reward"].tolist() == data["event_return"].tolist() == [1.0] * 6
    assert [float(row.sum()) for row in data["rm_scores"].unbind()] == [1.0] * 6
    assert [row.tolist()[-1] for row in data["responses"].unbind()] == [small_tokenizer().eos_token_id] * 6


def test_reward_function_sees_the_judges_text_and_the_teams_account():
    worker = Worker(debate_llm("5"), workflow="math/debate")
    original = {"index": 1}
    asyncio.run(worker.play("u1", extra_info=original))
    seen = worker.reward.seen[0]
    assert seen["solution_str"] == "5"
    assert seen["extra_info"]["team"]["calls"] == 3.0
    assert original == {"index": 1}, "the dataset row's own extra_info must not change"
    _, data, _ = read("u1")
    info = list(data["extra_fields"])[2]["reward_extra_info"]
    assert {"acc", "team_tokens", "calls", "tool_calls", "wall_clock_s", "events", "mean_set_size"} <= info.keys()


def test_validation_takes_the_same_path():
    """Field report 28: a workflow must not fail only at evaluation."""
    llm = debate_llm()
    worker = Worker(llm, workflow="math/debate", agents={"judge": {"validation": {"temperature": 0.6}}})
    asyncio.run(worker.play("v0", validate=True))
    keys, data, status = read("v0", "val")
    assert (status, keys) == ("finished", ["v0_0_0", "v0_0_1", "v0_0_2"])
    assert data["set_size"].tolist() == [2, 2, 1]
    assert [call.sampling["temperature"] for call in llm.calls] == [0, 0, 0.6]
    assert worker.statistics["val"]["episodes"] == 1 and not worker.statistics["train"]


def test_reward_of_the_workflow_needs_no_reward_worker():
    worker = Worker(ScriptedLLM(), score=None, workflow="demo/joint")
    asyncio.run(worker.play("u2"))
    _, data, status = read("u2")
    assert status == "finished"
    assert data["outcome_reward"].tolist() == [float(row[-1]) for row in data["rm_scores"].unbind()]


class FixedLoop(AgentLoopBase):
    """An agent loop of a user, which knows no sets."""

    outputs = 2

    async def run(self, sampling_params, **kwargs):
        rows = [
            AgentLoopOutput(
                prompt_ids=[5, 6], response_ids=[7] * (i + 1), response_mask=[1] * (i + 1), num_turns=2,
                response_logprobs=[-0.1] * (i + 1), metrics=AgentLoopMetrics(),
                extra_fields={"min_global_steps": 3, "max_global_steps": 3},
            )
            for i in range(self.outputs)
        ]  # fmt: skip
        return rows if self.outputs > 1 else rows[0]


@register("one_output")
class OneOutput(FixedLoop):
    outputs = 1


@register("two_outputs")
class TwoOutputs(FixedLoop):
    pass


@register("own_tags")
class OwnTags(FixedLoop):
    async def run(self, sampling_params, **kwargs):
        first, second = await super().run(sampling_params, **kwargs)
        return [
            TaggedOutput.of(first, Tags(event_index=0, member_index=0, set_size=2, agent_id=0, event_reward=-0.25)),
            TaggedOutput.of(second, Tags(event_index=0, member_index=1, set_size=2, agent_id=1, event_reward=-0.25)),
        ]


@pytest.mark.parametrize(("loop", "rows"), [("one_output", 1), ("two_outputs", 2)])
def test_untagged_loops_get_a_set_for_each_row(loop, rows):
    worker = Worker(ScriptedLLM(), workflow=None, score=lambda given: 0.5)
    asyncio.run(worker.play(f"x{rows}", agent_name=loop))
    keys, data, status = read(f"x{rows}")
    assert status == "finished" and len(keys) == 2 * rows
    assert data["tagged"].tolist() == [0] * (2 * rows)
    assert len(set(data["set_id"].tolist())) == 2 * rows
    assert data["set_size"].tolist() == [1] * (2 * rows)
    assert data["event_index"].tolist() == list(range(rows)) * 2
    assert data["event_return"].tolist() == [0.5] * (2 * rows)


def test_an_agent_loop_of_ones_own_may_state_its_sets():
    worker = Worker(ScriptedLLM(), workflow=None, score=lambda given: 0.5)
    asyncio.run(worker.play("own", agent_name="own_tags"))
    _, data, _ = read("own")
    assert data["set_size"].tolist() == [2] * 4
    assert data["set_id"][0] == data["set_id"][1] != data["set_id"][2]
    assert data["event_return"].tolist() == [0.25] * 4
    assert data["tagged"].tolist() == [1] * 4


def test_the_guides_tool_agents_state_their_sets(tmp_path, monkeypatch):
    """docs/workflows.md: two of verl's tool agents side by side, and a third who reads what they found."""
    guide = (Path(__file__).parents[2] / "docs" / "workflows.md").read_text()
    (tmp_path / "guides_loop.py").write_text(re.findall(r"```python\n(.*?)```", guide, re.DOTALL)[-1])
    monkeypatch.syspath_prepend(tmp_path)
    importlib.import_module("guides_loop")
    multi_turn = {
        "max_user_turns": None, "max_assistant_turns": None, "max_parallel_calls": 1, "max_tool_response_length": 64,
        "tool_response_truncate_side": "left", "format": "hermes",
    }  # fmt: skip
    llm = ScriptedLLM(default=lambda call: "six" if "five" in call.prompt else "it is five")
    worker = Worker(llm, workflow=None, rollout={"multi_turn": multi_turn})
    asyncio.run(worker.play("guide", agent_name="two_and_a_reader", __rollout_n__=1))
    _, data, status = read("guide")
    assert status == "finished"
    assert data["set_size"].tolist() == [2, 2, 1] and data["agent_id"].tolist() == [0, 1, 2]
    assert data["set_id"][0] == data["set_id"][1] != data["set_id"][2]
    assert data["event_reward"].tolist() == pytest.approx([0.0, 0.0, -0.1])
    assert small_tokenizer().decode(data["responses"].unbind()[2], skip_special_tokens=True) == "six"


def test_a_failing_reward_function_drops_the_episode_and_is_counted(caplog):
    def broken(given):
        raise KeyError("no such field")

    worker = Worker(debate_llm(), workflow="math/debate", score=broken)
    asyncio.run(worker.play("r0"))
    keys, _, status = read("r0")
    assert (keys, status) == ([], "finished")
    assert worker.statistics["train"]["dropped_episodes/reward_error"] == 2
    assert "no such field" in caplog.text


def test_statistics_are_drained_once():
    worker = Worker(debate_llm(), workflow="math/debate")
    asyncio.run(worker.play("s0"))
    first = total([asyncio.run(worker.drain_statistics("train"))])
    assert (first["episodes"], first["calls"], first["events_kept"]) == (2, 6, 4)
    assert total([asyncio.run(worker.drain_statistics("train"))])["episodes"] == 0
    assert not any("max" in name or "min" in name for name in first)


def test_an_empty_response_gets_one_masked_token_and_stays_in_its_set():
    llm = ScriptedLLM({"solver1": lambda call: SimpleNamespace(
        token_ids=[], log_probs=[], stop_reason="completed", routed_experts=None,
        extra_fields={"min_global_steps": 1, "max_global_steps": 1}), "judge": "5"})  # fmt: skip
    worker = Worker(llm, workflow="math/debate")
    asyncio.run(worker.play("e0"))
    _, data, status = read("e0")
    assert status == "finished"
    rows = data["response_mask"].unbind()
    assert rows[0].tolist() == [0] and data["set_size"].tolist()[0] == 2
    assert data["rollout_log_probs"].unbind()[0].tolist() == [0.0]
    assert np.isclose(float(data["rm_scores"].unbind()[0].sum()), 1.0)


def test_event_rewards_and_outcome_stay_apart_in_the_columns():
    """Field report 24, through verl's postprocessing, which copies the last row's score to the others."""
    llm = ScriptedLLM({"solver": r"\boxed{5}", "verifier": ["no verdict", "<verify>approve</verify>"]})
    worker = Worker(llm, workflow="math/solver_verifier", score=lambda given: 1.0, invalid_penalty=0.2)
    asyncio.run(worker.play("w0", __rollout_n__=1))
    _, data, _ = read("w0")
    assert data["event_reward"].tolist() == pytest.approx([0.0, -0.2, 0.0, 0.0])
    assert data["event_return"].tolist() == pytest.approx([0.8, 0.8, 1.0, 1.0])
    assert data["outcome_reward"].tolist() == [1.0] * 4
    assert data["invalid"].tolist() == [0, 1, 0, 0]


def test_grading_does_not_hold_up_other_episodes():
    """Field report 29: the first episode's grade comes only after the second one has been played."""
    llm = debate_llm()
    worker = Worker(llm, workflow="math/debate")
    second_played = asyncio.Event()
    grade = worker.reward._score

    async def first_waits(data):
        if len(llm.calls) == 6:
            second_played.set()
        await asyncio.wait_for(second_played.wait(), 10)
        return await grade(data)

    worker.reward.compute_score.remote = first_waits
    asyncio.run(worker.play("g0"))
    keys, _, status = read("g0")
    assert (len(keys), status) == (6, "finished")


@register("half_tagged")
class HalfTagged(OwnTags):
    async def run(self, sampling_params, **kwargs):
        tagged, _ = await super().run(sampling_params, **kwargs)
        _, untagged = await FixedLoop.run(self, sampling_params, **kwargs)
        return [tagged, untagged]


def test_a_session_with_tags_on_some_outputs_only_is_refused(caplog):
    worker = Worker(ScriptedLLM(), workflow=None)
    asyncio.run(worker.play("h0", agent_name="half_tagged"))
    assert read("h0")[2] == "failure"
    assert "outputs [1] of 2 have no set tags" in caplog.text


def test_tags_without_our_worker_are_refused():
    row = TaggedOutput.of(
        AgentLoopOutput(prompt_ids=[1], response_ids=[2], response_mask=[1], metrics=AgentLoopMetrics()),
        Tags(event_index=0),
    )
    with pytest.raises(ValueError, match="SRPOAgentLoopManager"):
        row.as_dict()


def test_an_over_long_prompt_drops_the_episode_with_a_reason(caplog):
    worker = Worker(debate_llm(), workflow="math/debate", failure="drop_episode")
    worker.config.data.max_prompt_length = 10
    asyncio.run(worker.play("p0"))
    assert read("p0")[0] == [] and worker.statistics["train"]["dropped_episodes/prompt_too_long"] == 2
    assert "data.max_prompt_length=10" in caplog.text


def test_agents_temperatures_stand_in_a_column():
    worker = Worker(debate_llm(), workflow="math/debate", agents={"judge": {"temperature": 0.5}})
    asyncio.run(worker.play("t0", __rollout_n__=1))
    assert read("t0")[1]["sampling_temperature"].tolist() == [1.0, 1.0, 0.5]


def test_transcripts_of_a_step_are_written(tmp_path):
    worker = Worker(debate_llm(), workflow="math/debate")
    worker.transcripts = {"train": TranscriptLog(tmp_path, share=1), "val": TranscriptLog(None, 0)}
    asyncio.run(worker.play("tr0"))
    (record,) = map(json.loads, (tmp_path / "3.jsonl").read_text().splitlines())
    assert (record["uid"], record["session_id"], record["outcome_reward"]) == ("tr0", 0, 1.0)
