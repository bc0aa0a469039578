"""Transcripts: what they hold, how they read, which episodes of a step are written."""

import asyncio
import json
import sys
from collections import Counter
from types import SimpleNamespace

import pyarrow
import pyarrow.parquet
import pytest
from omegaconf import OmegaConf

from tests.rollout.scripted import CharCodec, ScriptedLLM, run
from tests.workflows.teams import APPROVE, BOXED, FINAL, play, route
from verl_srpo.cli import main
from verl_srpo.config.settings import SRPOSettings
from verl_srpo.rollout import Agent, DefinitionError, Limits, Outcome, Workflow, build_workflow
from verl_srpo.rollout.local_vllm import LocalVLLM
from verl_srpo.rollout.playing import load_function, read_tasks, rollout
from verl_srpo.rollout.transcript import as_line, as_text, transcript
from verl_srpo.rollout.transcript_log import TranscriptLog, transcript_logs

TEAM = {"router": route(1, 2), "solver1": BOXED, "solver2": "six", "verifier": APPROVE, "aggregator": FINAL}


async def team_record():
    episode, _ = await play("math/team", TEAM, {"routing": "adaptive"})
    return transcript(episode, "math/team", 1.0)


async def test_a_record_holds_the_whole_episode():
    record = await team_record()
    assert json.loads(as_line(record)) == json.loads(json.dumps(record))
    assert [event["set_size"] for event in record["events"]] == [1, 2, 1, 1]
    drafts = record["events"][1]
    assert (drafts["reward"], drafts["return"], drafts["state"]) == (-0.1, 0.9, 1)
    assert [member["invalid"] for member in drafts["members"]] == ["", r"no \boxed{} answer"]
    assert drafts["members"][0]["messages"][0]["content"].startswith("What is 2 plus 3?")


async def test_a_record_reads_well():
    text = as_text(await team_record())
    for part in (
        "math/team  episode u/0", "  ? What is 2 plus 3?", "event 1: K = 2, state 1, reward -0.1, return 0.9",
        "  solver2#2 (4 tokens, invalid: no \\boxed{} answer)", "    | six", r"outcome: 1, answer 'FINAL: \\boxed{5}'",
        "costs: 5 calls",
    ):  # fmt: skip
        assert part in text
    assert "    < [user] What is" in as_text(await team_record(), prompts=True)


async def test_removed_unconsumed_and_dropped_are_shown():
    class Odd(Workflow):
        agents = (Agent("a"), Agent("b"))

        async def run(self, task, team):
            await team.ask("b", "?")
            await team.act({"a": "?"})
            return Outcome()

    text = as_text(transcript(await run(Odd(), ScriptedLLM({"a": OSError("gone")})), "odd", None))
    assert "state 0, reward 0, removed: server_error" in text
    assert "consumed by no event, not trained on:\n  b#0" in text
    assert "dropped, server_error: a#1: OSError: gone" in text and "outcome: not scored" in text


def test_the_first_tasks_of_a_step_are_chosen_one_episode_each(tmp_path):
    log = TranscriptLog(tmp_path / "new", share=2)
    begun = [(1, 0), (1, 1), (1, 0), (1, 0), (2, 1), (2, 0)]
    assert [log.choose(step, session_id) for step, session_id in begun] == [True, False, True, False, False, True]
    log.write(1, {"a": 1})
    log.write(1, {"a": "é"})
    assert (tmp_path / "new" / "1.jsonl").read_text() == '{"a": 1}\n{"a": "é"}\n'


def logs(trainer, **srpo):
    config = OmegaConf.create(
        {"trainer": trainer, "actor_rollout_ref": {"rollout": {"agent": {"num_workers": 4}}}, "srpo": srpo}
    )
    return transcript_logs(SRPOSettings.from_config(config), config)


def test_a_workers_share_and_folders():
    made = logs({"rollout_data_dir": "/d", "validation_data_dir": None}, transcripts=6)
    assert (str(made["train"].folder), made["train"].share, made["val"].folder) == ("/d/transcripts", 2, None)
    assert logs({"rollout_data_dir": "/d"})["train"].folder is None
    with pytest.raises(DefinitionError, match=r"srpo\.transcripts=6 has nowhere to write"):
        logs({"rollout_data_dir": None}, transcripts=6)


# ---- episodes without a trainer -----------------------------------------------------------------------------------

ROWS = [
    {
        "prompt": [{"role": "user", "content": f"What is 2 plus {i}?"}],
        "data_source": "toy",
        "reward_model": {"ground_truth": str(2 + i)},
    }
    for i in (3, 4)
]


def exact(data_source, solution_str, ground_truth, extra_info):
    assert extra_info["team"]["calls"] == 3
    if data_source != "toy":
        raise ValueError(f"unknown data source {data_source}")
    return {"score": float(solution_str == ground_truth)}


async def played(rows, llm):
    workflow, roster = build_workflow("math/debate")
    limits = Limits(context=2000, prompt=1500, response=200)
    settings = {"sampling": {"logprobs": True}, "n": 2, "reward": exact, "statistics": Counter()}
    records = rollout(workflow, roster, rows, name="math/debate", llm=llm, codec=CharCodec(), limits=limits, **settings)
    return [record async for record in records], settings["statistics"]


async def test_every_task_is_played_and_scored():
    records, statistics = await played(ROWS, ScriptedLLM({"judge": "5"}))
    assert sorted((r["uid"], r["session_id"], r["outcome_reward"]) for r in records) == [
        ("task0", 0, 1.0), ("task0", 1, 1.0), ("task1", 0, 0.0), ("task1", 1, 0.0),
    ]  # fmt: skip
    assert (statistics["episodes"], statistics["calls"]) == (4, 12)


async def test_what_no_rule_can_score_is_said_and_shown(capsys):
    records, _ = await played([{**ROWS[0], "data_source": "else"}], ScriptedLLM({"judge": "5"}))
    assert [record["outcome_reward"] for record in records] == [None, None]
    assert "not scored: unknown data source else" in capsys.readouterr().err


def test_tasks_from_a_file(tmp_path):
    lines = tmp_path / "tasks.jsonl"
    lines.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    assert read_tasks(lines, 1) == ROWS[:1]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(ROWS), tmp_path / "tasks.parquet")
    assert read_tasks(tmp_path / "tasks.parquet", 5) == ROWS
    lines.write_text('{"question": "?"}\n')
    for path, message in (
        (lines, r"row 0: no `prompt` .* it has \['question'\]"),
        (tmp_path / "none.parquet", "there is no data file"),
        (tmp_path, "there is no data file"),
    ):
        with pytest.raises(DefinitionError, match=message):
            read_tasks(path, 2)


def test_a_reward_function_by_name():
    assert load_function("verl_srpo.rollout.returns:event_returns")([1.0], 2.0) == [3.0]
    for spec in ("verl_srpo.rollout.returns:nothing", "no_such_module:f", "verl_srpo"):
        with pytest.raises(DefinitionError, match="as module:name is expected"):
            load_function(spec)


def test_the_transcript_command_prints_a_file(tmp_path, capsys):
    file = tmp_path / "1.jsonl"
    file.write_text(as_line(asyncio.run(team_record())) * 2)
    assert main(["transcript", str(file)]) == 0
    assert capsys.readouterr().out.count("math/team  episode u/0") == 2


def test_the_rollout_command_names_what_is_wrong(tmp_path, capsys):
    given = ["rollout", "math/debait", "--model", str(tmp_path), "--data", str(tmp_path / "x.parquet")]
    assert main(given) == 2
    assert "did you mean 'math/debate'" in capsys.readouterr().err
    assert main(["rollout", "math/debate", *given[2:]]) == 2
    assert "there is no data file" in capsys.readouterr().err
    assert main(["rollout", "math/debate", *given[2:], "--set", "n"]) == 2
    assert "--set n: NAME=VALUE is expected" in capsys.readouterr().err


def test_the_local_engine_returns_what_verls_server_returns(monkeypatch):
    asked = []

    async def stream(prompt, parameters, request_id):
        asked.append((prompt, parameters, request_id))
        first = SimpleNamespace(token_ids=[7], logprobs=[{7: SimpleNamespace(logprob=-0.5)}], finish_reason="stop")
        yield SimpleNamespace(outputs=[first], num_cached_tokens=3)

    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(SamplingParams=dict))
    monkeypatch.setitem(sys.modules, "vllm.inputs", SimpleNamespace(TokensPrompt=dict))
    client = LocalVLLM.__new__(LocalVLLM)
    client._engine, client._calls = SimpleNamespace(generate=stream), 0
    call = client.generate("u-a", prompt_ids=[1, 2], sampling_params={"max_tokens": 4, "logprobs": True})
    result = asyncio.run(call)
    assert (result.token_ids, result.log_probs, result.stop_reason) == ([7], [-0.5], "completed")
    assert result.extra_fields == {"num_cached_tokens": 3}
    assert asked == [({"prompt_token_ids": [1, 2]}, {"max_tokens": 4, "logprobs": 0}, "u-a-1")]
