"""What a workflow author writes, and what it is given: Task in, Outcome out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from verl_srpo.rollout.agent import Agent

if TYPE_CHECKING:
    from verl_srpo.rollout.team import Team


@dataclass(frozen=True)
class Task:
    """One dataset row, as an episode sees it.

    Attributes:
        messages: the chat messages of the dataset's `prompt`.
        data: every other field of the row (`data_source`, `reward_model`, `extra_info`, ...).
        uid, session_id: name the episode; all rollouts of a task share `uid`.
        validate: whether this is a validation episode.
    """

    messages: tuple[Mapping[str, Any], ...]
    data: Mapping[str, Any] = field(default_factory=dict)
    uid: str = "task"
    session_id: int = 0
    validate: bool = False

    @property
    def question(self) -> str:
        """Text of the last user message."""
        for message in reversed(self.messages):
            if message.get("role") == "user":
                return str(message.get("content", ""))
        return str(self.messages[-1].get("content", "")) if self.messages else ""


@dataclass(frozen=True)
class Outcome:
    """How an episode ended.

    Attributes:
        answer: the team's answer, which verl's reward function scores as `solution_str`. `None` without a `reward`
            says that the episode could not be finished: it is dropped, not scored as zero.
        reward: the outcome reward where the workflow knows it; verl's reward function is then not called.
        info: reaches the reward function as `extra_info["team"]` and stands in validation dumps.
    """

    answer: str | None = None
    reward: float | None = None
    info: Mapping[str, Any] = field(default_factory=dict)


class Workflow(ABC):
    """Base class of a team's procedure.

    One instance serves all episodes of a worker, many at a time: keep what belongs to an episode in local variables
    of `run`. Settings (`srpo.workflow_kwargs`) are keyword arguments of `__init__`; a roster that depends on them is
    set there as `self.agents`.

    Attributes:
        agents: the roster.
        kind: "math", "search", ... for listings.
        sets: the possible active sets in words, for listings.
    """

    agents: tuple[Agent, ...] = ()
    kind: ClassVar[str] = "custom"
    sets: str = ""

    @abstractmethod
    async def run(self, task: Task, team: Team) -> Outcome:
        """Play one episode: ask agents through `team`, say which outputs an event consumes, return the outcome."""
