"""Episodes of a workflow without a trainer: tasks from a file, a model, transcripts."""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

from verl_srpo.rollout.agent import Agent
from verl_srpo.rollout.episode import Episode, play
from verl_srpo.rollout.errors import DefinitionError
from verl_srpo.rollout.generation import Codec, Generator, Limits, LLMClient
from verl_srpo.rollout.team import Team
from verl_srpo.rollout.transcript import transcript
from verl_srpo.rollout.workflow import Task, Workflow


def read_tasks(path: Path, count: int) -> list[dict[str, Any]]:
    """The first rows of a file in verl's form (.parquet or .jsonl).

    Raises:
        DefinitionError: no such file, another ending, or a row without `prompt`.
    """
    if not path.is_file():
        raise DefinitionError(f"there is no data file {path}")
    if path.suffix == ".parquet":
        import pyarrow.parquet

        rows = pyarrow.parquet.ParquetFile(path).iter_batches(batch_size=count).__next__().to_pylist()
    elif path.suffix == ".jsonl":
        with path.open() as lines:
            rows = [json.loads(line) for line, _ in zip(lines, range(count), strict=False)]
    else:
        raise DefinitionError(f"{path}: a .parquet or .jsonl file in verl's form is expected")
    for index, row in enumerate(rows):
        if not row.get("prompt"):
            raise DefinitionError(f"{path}, row {index}: no `prompt` (a list of chat messages), it has {sorted(row)}")
    return rows


def load_function(spec: str) -> Callable[..., Any]:
    """The reward function that `module:name` names."""
    module, _, name = spec.partition(":")
    try:
        return getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise DefinitionError(f"reward {spec!r}: a function as module:name is expected ({error})") from error


async def rollout(
    workflow: Workflow,
    roster: Sequence[Agent],
    rows: Sequence[dict[str, Any]],
    *,
    name: str,
    llm: LLMClient,
    codec: Codec,
    limits: Limits,
    sampling: dict[str, Any],
    n: int,
    reward: Callable[..., Any],
    statistics: Counter[str],
) -> AsyncIterator[dict[str, Any]]:
    """Play `n` episodes of every row, all at a time; yields each transcript when its episode is done."""

    async def one(index: int, row: dict[str, Any], session_id: int) -> dict[str, Any]:
        data = {key: value for key, value in row.items() if key != "prompt"}
        task = Task(tuple(row["prompt"]), data, f"task{index}", session_id, validate=True)
        generator = Generator(llm, codec, limits, sampling, f"{task.uid}-{session_id}", validate=True)
        episode = await play(workflow, task, lambda: Team(roster, generator), name=name, statistics=statistics)
        return transcript(episode, name, await _score(episode, reward))

    tasks = [asyncio.ensure_future(one(i, row, s)) for i, row in enumerate(rows) for s in range(n)]
    try:
        for done in asyncio.as_completed(tasks):
            yield await done
    finally:
        for task in tasks:
            task.cancel()


async def _score(episode: Episode, reward: Callable[..., Any]) -> float | None:
    """The outcome reward; None where the episode was dropped, or no rule knows its data source."""
    if episode.dropped:
        return None
    if episode.outcome.reward is not None:
        return float(episode.outcome.reward)
    data = episode.task.data
    truth = (data.get("reward_model") or {}).get("ground_truth")
    try:
        score = await asyncio.to_thread(
            reward,
            data_source=data.get("data_source"),
            solution_str=episode.outcome.answer or "",
            ground_truth=truth,
            extra_info={**(data.get("extra_info") or {}), "team": {**episode.outcome.info, **episode.costs}},
        )
    except ValueError as error:
        print(f"not scored: {error}", file=sys.stderr)
        return None
    return float(score["score"] if isinstance(score, dict) else score)
