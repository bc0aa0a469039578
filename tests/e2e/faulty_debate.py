"""`math/debate` on a client of which one call in ten fails; says in a file what it did, and what was trained on.

`srpo.workflow=tests/e2e/faulty_debate.py:FaultyDebate`, `srpo.advantage=recorded`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from verl_srpo.core import set_relative_advantages
from verl_srpo.rollout import Outcome, Task, Team
from verl_srpo.trainer.estimators import register_set_advantage
from verl_srpo.workflows.math_debate import Debate

KINDS = ("server_error", "timeout", "aborted", "log_prob_mismatch", "no answer", "no ids", "no numbers")
GARBAGE = {
    "no answer": None,
    "no ids": SimpleNamespace(token_ids=["?"], log_probs=[-0.1], stop_reason="completed", extra_fields={}),
    "no numbers": SimpleNamespace(token_ids=[5], log_probs=[float("nan")], stop_reason="completed", extra_fields={}),
}
OTHERS = {
    "aborted": SimpleNamespace(token_ids=[], log_probs=[], stop_reason="aborted", extra_fields={}),
    "log_prob_mismatch": SimpleNamespace(token_ids=[5, 6], log_probs=[-0.1], stop_reason="completed", extra_fields={}),
}
FAULTS, SETS = "faults.jsonl", "trained_sets.jsonl"


def note(path: Path, record: dict[str, Any]) -> None:
    """One line more, in one write: agent-loop worker and trainer are processes of their own."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        os.write(file, (json.dumps(record) + "\n").encode())
    finally:
        os.close(file)


@dataclass
class FaultyClient:
    """verl's LLM client, of which a share `rate` of the calls fails in one of `KINDS`."""

    client: Any
    rate: float
    random: random.Random
    path: Path
    about: dict[str, Any]

    async def generate(self, request_id: str, **request: Any) -> Any:
        kind = self.random.choice(KINDS) if self.random.random() < self.rate else ""
        fault = {**self.about, "agent": request_id.rsplit("-", 1)[1], "injected": bool(kind)}
        fault["kind"] = "garbage" if kind in GARBAGE else kind
        if not kind:
            try:
                return await self.client.generate(request_id=request_id, **request)
            except asyncio.CancelledError:  # a slow machine may run into the time limit without our help
                note(self.path, fault | {"kind": "timeout"})
                raise
        note(self.path, fault)
        if kind == "timeout":
            await asyncio.Event().wait()
        if kind == "server_error":
            raise ConnectionError("injected")
        return GARBAGE[kind] if kind in GARBAGE else OTHERS[kind]


class FaultyDebate(Debate):
    """Three solvers and a judge. Every call of the tasks `doomed` fails."""

    def __init__(self, folder: str, rate: float = 0.1, doomed: tuple[int, ...] = (), seed: int = 0):
        super().__init__(n=3)
        self.folder, self.rate, self.doomed, self.seed = Path(folder), rate, tuple(doomed), seed
        self.attempts: dict[tuple[str, int], int] = {}
        TrainedSets.folder = self.folder

    async def run(self, task: Task, team: Team) -> Outcome:
        episode = (task.uid, task.session_id)
        attempt = self.attempts[episode] = self.attempts.get(episode, 0) + 1
        index = int(task.data["extra_info"]["index"])
        about = {"uid": task.uid, "session": task.session_id, "attempt": attempt, "task": index}
        team._generator = replace(
            team._generator,
            llm=FaultyClient(
                team._generator.llm,
                rate=1.0 if index in self.doomed else self.rate,
                random=random.Random(f"{self.seed} {index} {task.session_id} {attempt} {task.validate}"),
                path=self.folder / FAULTS,
                about={**about, "validate": task.validate},
            ),
        )
        return await super().run(task, team)


class TrainedSets:
    """Where the trainer's process notes what it hands to the loss: FaultyDebate is built there too, and says it."""

    folder: Path


@register_set_advantage("recorded")
def recorded(returns, set_ids, episode_ids, task_ids, **columns):
    """The default estimator; the rows that it is given, of which negative set ids take no part, are noted."""
    rows = zip(set_ids.tolist(), columns["event_index"].tolist(), columns["agent_ids"].tolist(), strict=True)
    note(TrainedSets.folder / SETS, {"rows": [row for row in rows if row[0] >= 0]})
    return set_relative_advantages(returns, set_ids, episode_ids, task_ids, **columns)
