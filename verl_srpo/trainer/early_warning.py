"""Signs of a collapsing run, step by step: log-ratio tails, clip fraction, entropy, gradient norm."""

from __future__ import annotations

import math
import re
from collections import deque
from collections.abc import Iterable
from statistics import median

from verl_srpo.config import WarningThresholds

WINDOW = 50  # steps that the running median of the gradient norm looks back
NEEDED = 5  # steps before it means anything

_OF_SIZE = re.compile(r"srpo/k(\d+)/(log_ratio_extreme|clip_low|clip_high)$")


class EarlyWarning:
    """Looks at each step's metrics; `stop` is True once warnings have come `patience` steps in a row."""

    def __init__(self, thresholds: WarningThresholds):
        self.thresholds = thresholds
        self.first_entropy: float | None = None
        self.norms: deque[float] = deque(maxlen=WINDOW)
        self.streak = 0

    def look(self, metrics: dict[str, float]) -> list[str]:
        """Warnings of this step, each naming the metric, its value, the threshold and the set size it is about."""
        found = [*self._by_set_size(metrics), *self._entropy(metrics), *self._gradient_norm(metrics)]
        self.streak = self.streak + 1 if found else 0
        return found

    def take_up(self, steps: Iterable[dict[str, float]]) -> None:
        """Goes on from the metrics of a resumed run's earlier steps: its first entropy and its latest gradient norms.

        The count of consecutive warnings starts anew, so that a run that was stopped can be taken further.
        """
        for metrics in steps:
            self._entropy(metrics)
            self._gradient_norm(metrics)

    @property
    def stop(self) -> bool:
        """Whether to save a checkpoint and end the run."""
        return self.thresholds.stop and self.streak >= self.thresholds.patience

    def _by_set_size(self, metrics: dict[str, float]) -> list[str]:
        limits, found = self.thresholds, []
        clipped: dict[str, float] = {}
        for name, value in metrics.items():
            if not (match := _OF_SIZE.match(name)):
                continue
            size, kind = match.groups()
            if kind == "log_ratio_extreme":
                if limits.log_ratio_extreme is not None and not abs(value) <= limits.log_ratio_extreme:  # NaN too
                    found.append(
                        f"sets of {size}: a set log-ratio of {value:.2f} is beyond "
                        f"srpo.warn.log_ratio_extreme={limits.log_ratio_extreme}"
                    )
            else:
                clipped[size] = clipped.get(size, 0.0) + value
        shares = {f"sets of {size}": share for size, share in clipped.items()}
        if "actor/pg_clipfrac" in metrics:  # srpo.unit=token
            shares["tokens"] = metrics["actor/pg_clipfrac"]
        for what, share in shares.items():
            if limits.clip_fraction is not None and share > limits.clip_fraction:
                found.append(
                    f"{what}: the clip cuts off {share:.0%} of the updates, more than "
                    f"srpo.warn.clip_fraction={limits.clip_fraction}"
                )
        return found

    def _entropy(self, metrics: dict[str, float]) -> list[str]:
        entropy, limit = metrics.get("actor/entropy"), self.thresholds.entropy_drop
        if entropy is None:
            return []
        if self.first_entropy is None:
            self.first_entropy = entropy
        if limit is None or entropy >= limit * self.first_entropy:
            return []
        return [f"entropy {entropy:.3f} is below srpo.warn.entropy_drop={limit} of its first {self.first_entropy:.3f}"]

    def _gradient_norm(self, metrics: dict[str, float]) -> list[str]:
        norm, limit = metrics.get("actor/grad_norm"), self.thresholds.gradient_norm
        if norm is None:
            return []
        usual = median(self.norms) if len(self.norms) >= NEEDED else None
        if not math.isfinite(norm):
            return [] if limit is None else [f"gradient norm {norm}: verl leaves out an update that is not finite"]
        self.norms.append(norm)
        if limit is None or usual is None or norm <= limit * usual:
            return []
        return [f"gradient norm {norm:.3g} is above srpo.warn.gradient_norm={limit} times its median {usual:.3g}"]
