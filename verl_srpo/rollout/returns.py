"""Downstream team returns of an episode's events."""

from __future__ import annotations

from collections.abc import Sequence


def event_returns(rewards: Sequence[float], outcome: float, *, gamma: float = 1.0) -> list[float]:
    """R_S = sum_{k' >= k} gamma^(k'-k) r_k' for every event (SRPO, section 3 of arXiv 2609.08452).

    Args:
        rewards: the events' own rewards in order, those of removed events included: they happened.
        outcome: the team's outcome reward, which belongs to the last event.
    """
    returns = []
    downstream = outcome
    for last, reward in enumerate(reversed(rewards)):
        downstream = reward + (gamma * downstream if last else downstream)
        returns.append(downstream)
    return returns[::-1]
