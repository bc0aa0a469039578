"""The agent loop that verl runs: one episode of the configured workflow."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register

from verl_srpo.config.settings import SRPOSettings
from verl_srpo.rollout.agent import Agent
from verl_srpo.rollout.codec import TokenizerCodec
from verl_srpo.rollout.episode import Episode, play
from verl_srpo.rollout.errors import DefinitionError
from verl_srpo.rollout.generation import Generator, Limits
from verl_srpo.rollout.registry import build_workflow
from verl_srpo.rollout.rows import episode_rows
from verl_srpo.rollout.team import Rules, Team
from verl_srpo.rollout.workflow import Task, Workflow

LOOP_NAME = "srpo_workflow"


@dataclass
class Session:
    """What the worker tells the loop that verl's own arguments do not."""

    validate: bool = False
    statistics: Counter[str] = field(default_factory=Counter)
    temperature: float = 1.0
    episode: Episode | None = None  # filled in by the loop
    outcome_reward: float | None = None  # filled in when the episode is scored


_session: ContextVar[Session | None] = ContextVar("srpo_session", default=None)


def current_session() -> Session:
    """That of the running task; a default one where verl's own worker runs the loop."""
    return _session.get() or Session()


@contextmanager
def session(current: Session) -> Iterator[None]:
    """Everything that runs inside, tasks started there included, belongs to `current`."""
    token = _session.set(current)
    try:
        yield
    finally:
        _session.reset(token)


@lru_cache(maxsize=8)
def _cached_workflow(spec: str, settings: str, agents: str) -> tuple[Workflow, tuple[Agent, ...]]:
    return build_workflow(spec, json.loads(settings), json.loads(agents))


def configured_workflow(settings: SRPOSettings) -> tuple[Workflow, tuple[Agent, ...]]:
    """The workflow and roster of `srpo.*`, one instance a process.

    Raises:
        DefinitionError: no workflow is configured, or what is configured does not exist.
    """
    if settings.workflow is None:
        raise DefinitionError(f"the agent loop {LOOP_NAME!r} needs srpo.workflow, a name or path/to/file.py:Class")
    return _cached_workflow(settings.workflow, json.dumps(settings.workflow_kwargs), json.dumps(settings.agents))


def rules_of(settings: SRPOSettings, config: Any) -> Rules:
    """How episodes treat failures, from `srpo.*` and verl's `algorithm.gamma`."""
    return Rules(
        failure=settings.failure,
        refill_attempts=settings.refill_attempts,
        invalid_penalty=settings.invalid_penalty,
        gamma=float(config.algorithm.get("gamma", 1.0)) if "algorithm" in config else 1.0,
    )


def limits_of(settings: SRPOSettings, config: Any) -> Limits:
    """Token limits, from verl's `rollout` and `data` sections."""
    rollout = config.actor_rollout_ref.rollout
    return Limits(
        context=int(rollout.get("max_model_len") or rollout.prompt_length + rollout.response_length),
        prompt=int(config.data.get("max_prompt_length") or rollout.prompt_length),
        response=int(rollout.response_length),
        truncate_prompts=settings.truncate_prompts,
        timeout=settings.call_timeout,
    )


@register(LOOP_NAME)
class WorkflowAgentLoop(AgentLoopBase):
    """Plays one episode of `srpo.workflow` and returns its rows."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.settings = SRPOSettings.from_config(self.config)
        self.workflow, self.roster = configured_workflow(self.settings)
        # not ct_build_initial_tokens: that one cuts the head of a long prompt and hardly says so
        self.codec = TokenizerCodec(self.tokenizer, self.continuous_token_builder.build_initial_tokens)

    # verl's base declares one output; its worker takes a list as well
    async def run(self, sampling_params: dict[str, Any], **kwargs: Any) -> list[AgentLoopOutput]:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Play one episode.

        Args:
            sampling_params: verl's, of training or of validation.
            kwargs: the dataset row (`raw_prompt`, `reward_model`, ...) with `uid` and `session_id`.

        Returns:
            The episode's rows, [] if it was dropped.
        """
        current = current_session()
        episode = current.episode = await self.play(sampling_params, kwargs, current)
        rows = episode_rows(
            episode,
            eos_token_id=self.codec.eos_token_id,
            fill_log_probs=bool(sampling_params.get("logprobs")),
        )
        return list(rows)

    async def play(self, sampling_params: dict[str, Any], row: dict[str, Any], current: Session) -> Episode:
        """The episode itself, before it is turned into rows."""
        task = Task(
            messages=tuple(row["raw_prompt"]),
            data={key: value for key, value in row.items() if key not in ("raw_prompt", "uid", "session_id")},
            uid=str(row.get("uid", row.get("index", "task"))),
            session_id=int(row.get("session_id", 0)),
            validate=current.validate,
        )
        generator = Generator(
            llm=self.server_manager,
            codec=self.codec,
            limits=limits_of(self.settings, self.config),
            sampling=sampling_params,
            episode=f"{task.uid}-{task.session_id}",
            validate=task.validate,
            unique_requests=bool(self.rollout_config.get("full_determinism", False)),
        )
        rules = rules_of(self.settings, self.config)
        return await play(
            self.workflow,
            task,
            lambda: Team(self.roster, generator, rules),
            name=str(self.settings.workflow),
            statistics=current.statistics,
        )
