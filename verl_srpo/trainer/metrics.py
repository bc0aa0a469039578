"""Metrics of a training step, from the tags of its rows.

verl reduces a metric whose name contains "max" or "min" anywhere by max or min: no name here does.
"""

from __future__ import annotations

import numpy as np

from verl_srpo.trainer.rows import Rows


def batch_metrics(rows: Rows, complete: np.ndarray, padding_rows: int) -> dict[str, float]:
    """What the batch consists of.

    Args:
        rows: tags of the N real rows.
        complete: (N,) bool, False on rows of removed sets.
        padding_rows: rows that were added to fill mini-batches.
    """
    kept = _by_set(rows, complete)
    sizes = rows.set_size[kept]
    _, first_of_episode = np.unique(rows.episode, return_index=True)
    return {
        "srpo/rows": len(rows),
        "srpo/padding_rows": padding_rows,
        "srpo/tasks": len(np.unique(rows.task)),
        "srpo/episodes": len(first_of_episode),
        "srpo/sets": len(kept),
        "srpo/set_size/mean": _mean(sizes),
        "srpo/set_size/std": float(sizes.std()) if len(sizes) else 0.0,
        "srpo/events_per_episode": _mean(rows.num_events[first_of_episode]),
        "srpo/outcome_reward/mean": _mean(rows.outcome_reward[first_of_episode]),
        "srpo/outcome_reward/std": float(rows.outcome_reward[first_of_episode].std()),
        "srpo/event_reward/mean": _mean(rows.event_reward[kept]),
        "srpo/invalid_action_fraction": _mean(rows.invalid[complete]),
        "srpo/truncated_fraction": _mean(rows.truncated[complete]),
        "srpo/dropped/incomplete": len(np.unique(rows.set_id[~complete])),
    }


def signal_metrics(rows: Rows, advantages: np.ndarray, lonely: np.ndarray) -> dict[str, float]:
    """How much of the batch has a learning signal; `rows` with padding and removed rows at negative set_id."""
    kept = _by_set(rows, rows.set_id >= 0)
    return {
        "srpo/lonely_fraction": _mean(lonely[kept]),
        "srpo/zero_advantage_fraction": _mean(advantages[kept] == 0),
        "srpo/return/mean": _mean(rows.event_return[kept]),
    }


def agent_metrics(rows: Rows, roster: list[str], lengths: np.ndarray, entropy: np.ndarray | None) -> dict[str, float]:
    """Per agent: outputs, response length, malformed share, mean token entropy where it was computed.

    An agent that took no part in this step has `outputs` 0 and nothing else.

    Args:
        lengths: (N,) response tokens of each row.
        entropy: (N,) sum of the token entropies of each row, or None.
    """
    live = rows.set_id >= 0
    metrics: dict[str, float] = {}
    for agent_id, name in enumerate(roster):
        mine = live & (rows.agent_id == agent_id)
        prefix = f"srpo/agent/{name}"
        metrics[f"{prefix}/outputs"] = int(mine.sum())
        if not mine.any():
            continue
        metrics[f"{prefix}/response_length"] = _mean(lengths[mine])
        metrics[f"{prefix}/invalid_fraction"] = _mean(rows.invalid[mine])
        if entropy is not None:
            metrics[f"{prefix}/entropy"] = float(entropy[mine].sum() / max(1, lengths[mine].sum()))
    return metrics


def reduce_update_metrics(metrics: dict[str, list], epochs: int) -> dict[str, float]:
    """One number a step from the worker's `srpo/` metrics, which come as one value a mini-batch and epoch.

    Counts are per step, extremes the largest in size, everything else the mean weighted by the sets of that size.
    """
    reduced: dict[str, float] = {}
    for key, values in metrics.items():
        values = np.asarray(values, dtype=np.float64).reshape(-1)
        counts = metrics.get(f"{key.rsplit('/', 1)[0]}/count")
        if key.endswith("/count"):
            reduced[key] = float(values.sum() / epochs)
        elif key.endswith("_extreme"):
            reduced[key] = float(values[np.abs(values).argmax()])
        elif key.endswith("_seconds"):
            reduced[key] = float(values.sum())
        elif counts is not None:
            reduced[key] = float(np.average(values, weights=np.asarray(counts, dtype=np.float64).reshape(-1)))
        else:
            reduced[key] = float(values.mean())
    return reduced


def mixed_versions(set_id: np.ndarray, oldest: np.ndarray, newest: np.ndarray) -> int:
    """Number of sets whose members were sampled by different policy versions (asynchronous rollouts)."""
    live = set_id >= 0
    _, index = np.unique(set_id[live], return_inverse=True)
    low, high = np.full(len(index), np.iinfo(np.int64).max), np.full(len(index), -1)
    np.minimum.at(low, index, oldest[live])
    np.maximum.at(high, index, newest[live])
    return int((low[: index.max(initial=-1) + 1] != high[: index.max(initial=-1) + 1]).sum())


def _by_set(rows: Rows, kept: np.ndarray) -> np.ndarray:
    """Index of one row of each set among the rows where `kept`."""
    candidates = np.flatnonzero(kept)
    return candidates[np.unique(rows.set_id[candidates], return_index=True)[1]]


def _mean(values: np.ndarray) -> float:
    return float(np.mean(values)) if len(values) else 0.0
