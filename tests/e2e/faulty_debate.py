"""`math/debate` of which one call in ten fails; says in a file what it did, and what was trained on.

`srpo.workflow=tests/e2e/faulty_debate.py:FaultyDebate`, `srpo.advantage=recorded`.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from verl_srpo.core import set_relative_advantages
from verl_srpo.rollout import Agent, Generator, Outcome, Output, Task, Team
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
class FailingClient:
    """What verl's client may do wrong, in place of it."""

    kind: str

    async def generate(self, request_id: str, **request: Any) -> Any:
        if self.kind == "timeout":
            await asyncio.Event().wait()
        if self.kind == "server_error":
            raise ConnectionError("injected")
        return GARBAGE[self.kind] if self.kind in GARBAGE else OTHERS[self.kind]


@dataclass
class FaultyGenerator(Generator):
    """A share `rate` of its calls goes to a client that fails in one of `KINDS`."""

    rate: float = 0.0
    random: random.Random = field(default_factory=random.Random)
    path: Path = Path(FAULTS)
    about: dict[str, Any] = field(default_factory=dict)

    async def _request(self, agent: Agent, output: Output, parameters: dict[str, Any]) -> Any:
        if self.random.random() >= self.rate:
            return await super()._request(agent, output, parameters)
        kind = self.random.choice(KINDS)
        note(self.path, {**self.about, "agent": agent.name, "kind": "garbage" if kind in GARBAGE else kind})
        # only a call that never answers has little time: the others may be slow on a busy machine
        limits = replace(self.limits, timeout=0.5 if kind == "timeout" else self.limits.timeout)
        return await Generator(FailingClient(kind), self.codec, limits)._request(agent, output, parameters)


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
        team._generator = FaultyGenerator(
            **vars(team._generator),
            rate=1.0 if index in self.doomed else self.rate,
            random=random.Random(f"{self.seed} {index} {task.session_id} {attempt} {task.validate}"),
            path=self.folder / FAULTS,
            about={**about, "validate": task.validate},
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
