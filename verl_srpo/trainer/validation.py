"""Macro averages and costs of a validation, from what verl hands to its own validation metrics."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from verl_srpo.evaluation import validation_metrics

_QUALITY = ("acc", "em", "f1")


def macro_metrics(
    data_sources: Sequence[str],
    sample_uids: Sequence[str],
    reward_extra_infos: Mapping[str, Sequence[Any]],
    expected: Mapping[tuple[str, str], int] | None = None,
) -> dict[str, float]:
    """``val-srpo/*``: averages over the data sets and mean costs of the validation's episodes.

    Args:
        data_sources, sample_uids: of each episode; episodes with the same uid are samples of one question.
        reward_extra_infos: by name one value an episode, None where the reward gave none; "reward" is the score.
        expected: how many samples each (data source, uid) was to get. As in verl's own ``acc``, a sample whose
            episode was dropped counts as wrong; the costs are those of the episodes that there are.
    """
    rows = []
    for number, (source, uid) in enumerate(zip(data_sources, sample_uids, strict=True)):
        known = {name: values[number] for name, values in reward_extra_infos.items() if values[number] is not None}
        rows.append({"score": known.get("reward"), **known, "data_source": str(source), "uid": str(uid)})
    missing = _missing(rows, expected or {})
    metrics = validation_metrics(rows + missing)
    metrics["val-srpo/dropped_episodes"] = float(len(missing))
    return metrics


def _missing(rows: Sequence[Mapping[str, Any]], expected: Mapping[tuple[str, str], int]) -> list[dict[str, Any]]:
    """A row with nothing right for each expected sample that is not there."""
    present = Counter((row["data_source"], row["uid"]) for row in rows)
    judged: dict[str, set[str]] = {}  # which quality columns each data source has: a wrong sample has them all at zero
    for row in rows:
        judged.setdefault(row["data_source"], set()).update(name for name in _QUALITY if name in row)
    return [
        {"data_source": source, "uid": uid, "score": 0.0, **dict.fromkeys(judged.get(source, ()), 0.0)}
        for (source, uid), count in expected.items()
        for _ in range(count - present[source, uid])
    ]
