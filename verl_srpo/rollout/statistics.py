"""Counters of what happened to calls, events and episodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

ALWAYS = (
    "episodes", "episodes_kept", "events", "events_kept", "calls", "tool_calls", "generated_tokens", "prompt_tokens",
    "cached_prompt_tokens",
    "unconsumed_outputs", "refilled_episodes", "invalid_outputs", "truncated_outputs", "empty_outputs",
)  # fmt: skip
"""Counters that every report carries, zero or not; those with a reason (`dropped/<reason>`, ...) come as needed."""


def total(parts: Iterable[Mapping[str, float]]) -> dict[str, float]:
    """Sum of several workers' counters, with every counter of `ALWAYS` present."""
    counters: Counter[str] = Counter()
    for part in parts:
        counters.update(part)
    names = [*ALWAYS, *sorted(counters.keys() - set(ALWAYS))]
    return {name: float(counters[name]) for name in names}
