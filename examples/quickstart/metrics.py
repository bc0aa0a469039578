"""Reads the metrics that verl's file logger writes: one JSON object a line, with `step` and `data`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

REWARD = "srpo/outcome_reward/mean"
_VALIDATION = re.compile(r"val-core/.+/(acc|reward|score)/mean@\d+")
_SET_SIZE = re.compile(r"srpo/k(\d+)/count")

Curve = list[tuple[int, float]]
"""(step, value) pairs."""


@dataclass
class Metrics:
    """All metrics of a run so far, by step; step 0 is the validation before training."""

    by_step: dict[int, dict[str, float]] = field(default_factory=dict)

    @classmethod
    def read(cls, path: Path) -> Metrics:
        """What is in the file, without a last line that is still being written. Resumed runs repeat steps: the last
        one counts. A file that is not there yet is an empty one."""
        metrics = cls()
        lines = path.read_text().splitlines(keepends=True) if path.is_file() else []
        for line in lines:
            if line.endswith("\n"):
                entry = json.loads(line)
                metrics.by_step.setdefault(entry["step"], {}).update(entry["data"])
        return metrics

    def curve(self, name: str) -> Curve:
        return [(step, values[name]) for step, values in sorted(self.by_step.items()) if name in values]

    def reward(self) -> Curve:
        """Mean outcome reward of the episodes of each step."""
        return self.curve(REWARD) or self.curve("critic/score/mean")

    def validation(self) -> Curve:
        """Accuracy on the test set."""
        names = {name for values in self.by_step.values() for name in values if _VALIDATION.fullmatch(name)}
        # accuracy where the reward function reports it, else its score
        return self.curve(min(names, key=lambda name: "/acc/" not in name)) if names else []

    def set_sizes(self) -> list[int]:
        names = {name for values in self.by_step.values() for name in values}
        return sorted(int(found[1]) for name in names if (found := _SET_SIZE.fullmatch(name)))

    def clip_fraction(self, size: int) -> Curve:
        """Share of the sets of this size whose update the clip cut off, on either side."""
        low, high = (dict(self.curve(f"srpo/k{size}/clip_{side}")) for side in ("low", "high"))
        return [(step, low[step] + high[step]) for step in low if step in high]


def ends(curve: Curve, width: int = 1) -> tuple[float, float] | None:
    """Mean of the first and of the last `width` values, fewer where the curve is short; None for an empty one."""
    values = [value for _, value in curve]
    width = max(1, min(width, len(values) // 2))
    return (sum(values[:width]) / width, sum(values[-width:]) / width) if values else None
