"""What episodes cost: tokens, calls, tools, time, and how much of it bought a correct answer."""

import numpy as np

from .episodes import Episodes


def cost_summary(episodes: Episodes, correct: np.ndarray) -> dict[str, float]:
    """Costs of a batch of episodes; only what the columns allow to compute is in the result.

    team_tokens, calls, tool_calls, events: means over episodes. set_size: mean over *events*. output_length: tokens a
    call. tokens_per_event: set size times output length. correct_per_million_tokens: correct episodes for each million
    generated team tokens. latency_p50, latency_p95: seconds of wall clock. duplicate_query_rate: share of an episode's
    search queries that it had asked before, over all queries. evidence_coverage: share of episodes whose evidence held
    a gold answer.

    correct: (E,) 0/1. A mean is over the episodes that carry the number.
    """
    numbers = {name: column for name, column in episodes.numbers.items() if not np.isnan(column).all()}
    costs: dict[str, float] = {}
    for name in ("team_tokens", "calls", "tool_calls", "events"):
        if name in numbers:
            costs[name] = float(np.nanmean(numbers[name]))
    if "mean_set_size" in numbers:
        events = numbers.get("events", np.ones(len(episodes)))
        costs["set_size"] = _ratio(numbers["mean_set_size"] * events, events)
    elif "calls" in numbers and "events" in numbers:
        costs["set_size"] = _ratio(numbers["calls"], numbers["events"])
    if "team_tokens" in numbers:
        if "calls" in numbers:
            costs["output_length"] = _ratio(numbers["team_tokens"], numbers["calls"])
        costs["correct_per_million_tokens"] = 1e6 * _ratio(correct, numbers["team_tokens"])
    if "set_size" in costs and "output_length" in costs:
        costs["tokens_per_event"] = costs["set_size"] * costs["output_length"]
    if "wall_clock_s" in numbers:
        costs["latency_p50"], costs["latency_p95"] = np.nanquantile(numbers["wall_clock_s"], [0.5, 0.95]).tolist()
    if "queries" in numbers and "duplicate_queries" in numbers:
        costs["duplicate_query_rate"] = _ratio(numbers["duplicate_queries"], numbers["queries"])
    if "evidence_has_gold" in numbers:
        costs["evidence_coverage"] = float(np.nanmean(numbers["evidence_has_gold"]))
    return {name: value for name, value in costs.items() if not np.isnan(value)}


def _ratio(numerator: np.ndarray, denominator: np.ndarray) -> float:
    """Sum over sum, over the episodes where both are known; NaN when the denominator's sum is zero."""
    known = ~(np.isnan(numerator) | np.isnan(denominator))
    total = float(denominator[known].sum())
    return float(numerator[known].sum()) / total if total > 0 else float("nan")
