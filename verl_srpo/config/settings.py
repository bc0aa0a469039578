"""All settings of SRPO in one dataclass, read once from the `srpo` section of verl's configuration.

The same defaults stand in `config/srpo/default.yaml`; a test holds the two together. What verl already has an option
for (clip range, gamma, entropy and KL coefficients, mini-batch size, epochs) stays verl's option and has no twin here.
"""

from __future__ import annotations

import dataclasses
import difflib
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

CHOICES: dict[str, tuple[str, ...]] = {
    "active_set": ("event", "output"),
    "unit": ("set", "member", "token"),
    "member_norm": ("sum", "mean"),
    "cardinality_norm": ("sqrt", "none", "mean"),
    "scope": ("signature", "event", "signature_event", "task"),
    "count": ("episode", "set"),
    "scale": ("std", "none"),
    "lonely": ("task", "zero"),
    "event_reduction": ("event_mean", "token_mean", "episode_mean", "task_mean"),
    "failure": ("drop_set", "drop_episode", "refill"),
}


def _plain(value: Any) -> Any:
    """A DictConfig or mapping as plain Python containers, without importing omegaconf where it is not needed."""
    if isinstance(value, Mapping) and not isinstance(value, dict):
        from omegaconf import DictConfig, OmegaConf

        return OmegaConf.to_container(value, resolve=True) if isinstance(value, DictConfig) else dict(value)
    return value


def _reject_unknown(section: str, given: Mapping[str, Any], allowed: list[str]) -> None:
    for key in given:
        if key not in allowed:
            near = difflib.get_close_matches(key, allowed, n=1)
            hint = f"; did you mean {section}.{near[0]}?" if near else ""
            raise ValueError(f"unknown setting {section}.{key}{hint}; known: {', '.join(sorted(allowed))}")


def _section(name: str, given: Any) -> dict[str, Any]:
    """A section as a dictionary, empty where it is missing; ValueError for anything that is no mapping."""
    plain = {} if given is None else _plain(given)
    if not isinstance(plain, dict):
        raise ValueError(f"{name}={given!r} is not a section; set its entries, as in {name}.NAME=VALUE")
    return dict(plain)


_KINDS: dict[str, tuple[type, ...]] = {"str": (str,), "bool": (bool,), "int": (int,), "float": (int, float)}


def _check_kinds(section: str, settings: Any) -> None:
    """Raise ValueError for a value of another type than declared: `no`, say, is a string to Hydra, and a true one."""
    for one in dataclasses.fields(settings):
        kinds = str(one.type).split(" | ")
        known = [kind for kind in kinds if kind in _KINDS]
        value = getattr(settings, one.name)
        if not known or (value is None and "None" in kinds):
            continue
        fits = any(isinstance(value, _KINDS[kind]) and (kind == "bool") == isinstance(value, bool) for kind in known)
        if fits and isinstance(value, float) and not math.isfinite(value):
            raise ValueError(f"{section}.{one.name}={value} must be a finite number")
        if not fits:
            allowed = " or ".join(known + ["null"] * ("None" in kinds))
            hint = " (true or false)" if "bool" in known else ""
            raise ValueError(f"{section}.{one.name}={value!r} must be of type {allowed}{hint}")


@dataclass(frozen=True)
class WarningThresholds:
    """Early warnings of a collapsing run, checked at every step; None switches one off."""

    log_ratio_extreme: float | None = 5.0
    """largest |L_S| of any set: exp(5) is a ratio of 148"""
    clip_fraction: float | None = 0.5
    """share of sets of one size whose update is cut off by the clip"""
    entropy_drop: float | None = 0.7
    """fall of the mean token entropy below this share of the run's first value warns"""
    gradient_norm: float | None = 10.0
    """gradient norm above this multiple of its running median"""
    stop: bool = False
    """save a checkpoint and stop the run after `patience` consecutive steps with a warning"""
    patience: int = 5

    def __post_init__(self) -> None:
        _check_kinds("srpo.warn", self)
        for name in ("log_ratio_extreme", "clip_fraction", "entropy_drop", "gradient_norm"):
            value = getattr(self, name)
            if value is not None and value < 0:
                raise ValueError(f"srpo.warn.{name}={value} must be at least 0, or null to switch it off")
        if self.patience < 1:
            raise ValueError(f"srpo.warn.patience={self.patience} must be at least 1; srpo.warn.stop=false never stops")


@dataclass(frozen=True)
class SRPOSettings:
    """Settings of one run; defaults are the paper's (arXiv 2609.08452) where the paper has them."""

    preset: str = "srpo"
    """label of the preset that these values came from (`+srpo=NAME`); shown in logs and reports, selects nothing"""

    # who acts
    workflow: str | None = "math/debate"
    """registered name or `path/to/file.py:Class`; None keeps verl's own agent loops, each row then a set of its own"""
    workflow_kwargs: dict[str, Any] = field(default_factory=dict)
    agents: dict[str, dict[str, Any]] = field(default_factory=dict)
    """per-agent overrides: system, temperature, top_p, top_k, max_tokens, stop, and `validation: {...}`"""

    active_set: str = "event"
    """`event`: the outputs that one event consumes; `output`: every output a set of its own (agent-wise baselines)"""

    # ratio (eq. 3 and 4)
    unit: str = "set"
    member_norm: str = "sum"
    cardinality_norm: str = "sqrt"

    # advantage (eq. 6)
    advantage: str = "set_relative"
    """`set_relative`, or a name given to `verl_srpo.trainer.register_set_advantage`"""
    scope: str = "signature"
    count: str = "episode"
    scale: str = "std"
    lonely: str = "task"

    # objective (eq. 7)
    event_reduction: str = "event_mean"
    set_importance_threshold: float | None = None
    """truncation of the set's importance weight between rollout and training policy; None: no such weight"""

    # rollout
    invalid_penalty: float = 0.1
    """event reward of a malformed output is minus this"""
    failure: str = "drop_set"
    refill_attempts: int = 2
    call_timeout: float | None = None
    """seconds that one agent's call may take before it counts as failed; None: no limit"""
    truncate_prompts: bool = False
    """cut the head of a prompt that is too long instead of failing the call"""
    transcripts: int = 0
    """episodes a step whose transcript is written below `trainer.rollout_data_dir`"""

    poll_interval: float | None = None
    """seconds between two looks of verl's replay buffer for finished episodes; None: verl's 2.0"""
    warn: WarningThresholds = field(default_factory=WarningThresholds)

    def __post_init__(self) -> None:
        for name, allowed in CHOICES.items():
            if getattr(self, name) not in allowed:
                raise ValueError(f"srpo.{name}={getattr(self, name)!r} is not one of {', '.join(allowed)}")
        _check_kinds("srpo", self)
        self._refuse_idle_options()
        for name, low in (("invalid_penalty", 0.0), ("refill_attempts", 0), ("transcripts", 0)):
            if getattr(self, name) < low:
                raise ValueError(f"srpo.{name}={getattr(self, name)} must be at least {low}")
        for name in ("call_timeout", "poll_interval", "set_importance_threshold"):
            value = getattr(self, name)
            if value is not None and value <= 0:
                raise ValueError(f"srpo.{name}={value} must be positive, or null to switch it off")

    def _refuse_idle_options(self) -> None:
        """An option that would silently do nothing is refused, so that a comparison compares what it says."""
        if self.unit != "set" and self.cardinality_norm != "sqrt":
            raise ValueError(
                f"srpo.cardinality_norm={self.cardinality_norm} has no effect with srpo.unit={self.unit}, which has no "
                "set ratio; leave it at sqrt or use srpo.unit=set"
            )
        if self.active_set == "output" and self.cardinality_norm != "sqrt":
            raise ValueError(
                f"srpo.cardinality_norm={self.cardinality_norm} has no effect with srpo.active_set=output, whose sets "
                "all have one member; leave it at sqrt or use srpo.active_set=event"
            )
        if self.unit == "token" and self.member_norm != "sum":
            raise ValueError(
                f"srpo.member_norm={self.member_norm} has no effect with srpo.unit=token, which has no member ratio; "
                "leave it at sum or use srpo.unit=set or member"
            )
        if self.unit != "set" and self.set_importance_threshold is not None:
            raise ValueError(
                f"srpo.set_importance_threshold={self.set_importance_threshold} weighs whole sets, and "
                f"srpo.unit={self.unit} has no set ratio; leave it at null or use srpo.unit=set"
            )

    @classmethod
    def from_mapping(cls, given: Mapping[str, Any] | None) -> SRPOSettings:
        """Settings from a plain mapping or DictConfig; ValueError names an unknown key and the nearest known one."""
        values = _section("srpo", given)
        _reject_unknown("srpo", values, [f.name for f in dataclasses.fields(cls)])
        thresholds = _section("srpo.warn", values.pop("warn", None))
        _reject_unknown("srpo.warn", thresholds, [f.name for f in dataclasses.fields(WarningThresholds)])
        for name in ("workflow_kwargs", "agents"):
            values[name] = _section(f"srpo.{name}", values.get(name))
        return cls(**values, warn=WarningThresholds(**thresholds))

    @classmethod
    def from_config(cls, config: Any) -> SRPOSettings:
        """Settings from verl's whole configuration; a missing `srpo` section means all defaults."""
        return cls.from_mapping(config.get("srpo"))

    def ratio_options(self) -> dict[str, str]:
        """Keyword arguments of `core.srpo_loss`."""
        return {"unit": self.unit, "member_norm": self.member_norm, "cardinality_norm": self.cardinality_norm}

    def advantage_options(self) -> dict[str, str]:
        """Keyword arguments of `core.set_relative_advantages`."""
        return {"scope": self.scope, "count": self.count, "scale": self.scale, "lonely": self.lonely}
