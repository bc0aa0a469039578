"""Validation figures for the training log: macro averages and costs, without intervals."""

from collections.abc import Iterable
from typing import Any

import numpy as np

from .costs import cost_summary
from .episodes import join_records
from .records import BadLine, parse_record
from .tables import METRICS, mean_of_known, question_tables

PREFIX = "val-srpo"


def validation_metrics(rows: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Macro and micro averages and mean costs of one validation, as metric names and floats.

    rows: one dict an episode (``data_source``, ``uid`` of its question, ``score``, and whatever of acc, em, f1, pred
    and the costs the reward added), or verl's dump rows, which are joined to episodes. Values of None are unknown.

    The names hold neither "max" nor "min", which verl would reduce differently, and no data set's name ("minerva"):
    verl logs each data set itself. Rows that can not be graded are counted under ``val-srpo/unusable_rows``.
    """
    records, unusable = [], 0
    for row in rows:
        try:
            records.append(parse_record(row))
        except BadLine:
            unusable += 1
    metrics: dict[str, float] = {f"{PREFIX}/unusable_rows": float(unusable)}
    if not records:
        return metrics
    episodes = join_records(records)
    correct = episodes.correct()
    tables = question_tables(episodes, correct)
    macro = mean_of_known(np.stack([mean_of_known(table.values) for table in tables.values()]))
    micro = mean_of_known(np.concatenate([table.values for table in tables.values()]))
    for average, values in (("macro", macro), ("micro", micro)):
        for name, value in zip(METRICS, values.tolist(), strict=True):
            if not np.isnan(value):
                metrics[f"{PREFIX}/{average}/{name}"] = value
    for name, value in cost_summary(episodes, correct).items():
        metrics[f"{PREFIX}/cost/{name}"] = value
    metrics[f"{PREFIX}/episodes"] = float(len(episodes))
    metrics[f"{PREFIX}/questions"] = float(sum(len(table.keys) for table in tables.values()))
    return metrics
