"""Who is in the team, and how each member samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from difflib import get_close_matches
from typing import Any

from verl_srpo.rollout.errors import DefinitionError


@dataclass(frozen=True)
class Sampling:
    """Sampling settings of one agent; `None` (or no stop string) keeps what the rollout section of the config says.

    Attributes:
        temperature, top_p, top_k: as verl's `rollout` (training) and `rollout.val_kwargs` (validation).
        max_tokens: tokens that one call may generate; default `rollout.response_length`.
        stop: strings that end a generation. They stay in the sampled tokens and in the text.
    """

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "stop", (self.stop,) if isinstance(self.stop, str) else tuple(self.stop))
        if self.temperature is not None and self.temperature < 0:
            raise DefinitionError(f"temperature={self.temperature}: must be 0 or more")
        if self.top_p is not None and not 0 < self.top_p <= 1:
            raise DefinitionError(f"top_p={self.top_p}: must be in (0, 1]")
        if self.max_tokens is not None and self.max_tokens < 1:
            raise DefinitionError(f"max_tokens={self.max_tokens}: must be 1 or more")

    def parameters(self) -> dict[str, Any]:
        """Only what is set, under the names that the LLM server knows."""
        given = {name: value for name, value in asdict(self).items() if value is not None and name != "stop"}
        return {**given, "stop": list(self.stop)} if self.stop else given


@dataclass(frozen=True)
class Agent:
    """A member of the roster.

    Attributes:
        name: unique in the roster; `agent_id` of a row is its index there.
        system: system prompt, put before every view that does not bring its own.
        sampling: settings in training. Its `max_tokens` and `stop` hold in validation too.
        validation: settings in validation, on top of verl's `rollout.val_kwargs`.
        max_prompt_tokens: longest prompt; default `data.max_prompt_length`.
    """

    name: str
    system: str = ""
    sampling: Sampling = field(default_factory=Sampling)
    validation: Sampling = field(default_factory=Sampling)
    max_prompt_tokens: int | None = None

    def sampling_parameters(self, base: Mapping[str, Any], *, validate: bool, max_tokens: int) -> dict[str, Any]:
        """verl's parameters with this agent's on top; `max_tokens` is always in the result.

        Args:
            base: verl's own parameters, already those of validation when `validate`.
            max_tokens: what holds where the agent says nothing.
        """
        own = self.sampling.parameters()
        if validate:
            shape = {name: own[name] for name in ("max_tokens", "stop") if name in own}
            own = {**shape, **self.validation.parameters()}
        return {**base, "max_tokens": max_tokens, **own}


_SAMPLING_KEYS = tuple(f.name for f in fields(Sampling))
_OVERRIDE_KEYS = ("system", "max_prompt_tokens", "validation", *_SAMPLING_KEYS)


def override(agents: Iterable[Agent], overrides: Mapping[str, Mapping[str, Any]] | None) -> tuple[Agent, ...]:
    """The roster with the settings `srpo.agents.<name>.*` applied.

    Raises:
        DefinitionError: two agents of one name, an agent that the roster lacks, or an unknown setting.
    """
    agents = tuple(agents)
    roster = {agent.name: agent for agent in agents}
    if not agents:
        raise DefinitionError("the workflow has no agents: set its `agents`")
    if len(roster) < len(agents):
        raise DefinitionError(f"agent names must be unique, got {[agent.name for agent in agents]}")
    for name, settings in (overrides or {}).items():
        if name not in roster:
            raise DefinitionError(f"srpo.agents.{name}: {no_such(name, roster, 'agent')}")
        settings = dict(settings or {})
        for key in settings:
            if key not in _OVERRIDE_KEYS:
                raise DefinitionError(f"srpo.agents.{name}.{key}: {no_such(key, _OVERRIDE_KEYS, 'setting')}")
        agent = roster[name]
        validation = dict(settings.pop("validation", None) or {})
        for key in validation:
            if key not in _SAMPLING_KEYS:
                raise DefinitionError(f"srpo.agents.{name}.validation.{key}: {no_such(key, _SAMPLING_KEYS, 'setting')}")
        sampling = {key: settings.pop(key) for key in _SAMPLING_KEYS if key in settings}
        roster[name] = replace(
            agent,
            sampling=replace(agent.sampling, **sampling),
            validation=replace(agent.validation, **validation),
            **settings,
        )
    return tuple(roster.values())


def no_such(name: str, known: Iterable[str], what: str) -> str:
    """A sentence that says what is there, nearest names first."""
    known = list(known)
    near = get_close_matches(name, known, n=3)
    hint = f"did you mean {' or '.join(map(repr, near))}? " if near else ""
    return f"there is no {what} {name!r}; {hint}known: {', '.join(known) or 'none'}"
