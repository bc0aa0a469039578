"""A team of agents in an episode: events, active sets, rows. Only `rows`, `agent_loop` and `manager` import verl."""

from verl_srpo.rollout.agent import Agent, Sampling
from verl_srpo.rollout.episode import Episode, play
from verl_srpo.rollout.errors import (
    DefinitionError,
    EpisodeFailure,
    GenerationFailed,
    RolloutError,
    SetRuleError,
    ToolFailed,
)
from verl_srpo.rollout.generation import Generator, Limits
from verl_srpo.rollout.output import Event, Output
from verl_srpo.rollout.registry import build_workflow, list_workflows, load_workflow, register_workflow
from verl_srpo.rollout.team import Rules, Team
from verl_srpo.rollout.workflow import Outcome, Task, Workflow

__all__ = [
    "Agent",
    "DefinitionError",
    "Episode",
    "EpisodeFailure",
    "Event",
    "GenerationFailed",
    "Generator",
    "Limits",
    "Outcome",
    "Output",
    "RolloutError",
    "Rules",
    "Sampling",
    "SetRuleError",
    "Task",
    "Team",
    "ToolFailed",
    "Workflow",
    "build_workflow",
    "list_workflows",
    "load_workflow",
    "play",
    "register_workflow",
]
