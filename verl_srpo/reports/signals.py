"""Numbers that charts and tables are made of: spikes, variation, first and last values."""

from collections.abc import Sequence

import numpy as np

from .runs import Band, Group, Run, Series, band_of

_WINDOW, _FEWEST, _FACTOR = 20, 5, 3.0
REWARDS = ("srpo/outcome_reward/mean", "critic/score/mean", "critic/rewards/mean")
MACRO = "macro average"
_VALIDATIONS = (r"val-core/(.+)/(?:acc|reward)/mean@\d+", r"val-core/(.+)/mean@\d+")


def spikes(values: np.ndarray) -> np.ndarray:
    """Indices of values above three times the median of the (up to) twenty before them, of which there must be five."""
    return np.array(
        [
            place
            for place in range(_FEWEST, len(values))
            if values[place] > _FACTOR * np.median(values[max(0, place - _WINDOW) : place])
        ],
        dtype=np.int64,
    )


def variation(values: np.ndarray) -> float:
    """Coefficient of variation, without the first tenth of a run; NaN for fewer than three values or a mean of zero."""
    settled = values[round(0.1 * len(values)) :]
    mean = settled.mean() if len(settled) else 0.0
    return float(settled.std() / mean) if len(settled) >= 3 and mean > 0 else float("nan")


def final_mean(series: Series | Band) -> float:
    """Mean over the last tenth of the values, at least one."""
    values = series.values if isinstance(series, Series) else series.mean
    return float(values[-max(1, round(0.1 * len(values))) :].mean())


def validations(group: Group) -> dict[str, Band]:
    """Validation accuracy over the seeds: first the macro average of several data sets, then each of them."""
    by_name: dict[str, list[Series]] = {}
    for run in group.runs:
        for name, series in _validations_of(run).items():
            by_name.setdefault(name, []).append(series)
    bands = {name: band_of(series) for name, series in sorted(by_name.items(), key=lambda item: item[0] != MACRO)}
    return {name: band for name, band in bands.items() if band is not None}


def _validations_of(run: Run) -> dict[str, Series]:
    found = next((matches for pattern in _VALIDATIONS if (matches := run.matching(pattern))), {})
    if len(found) < 2:
        return found
    macro = run.series.get("val-srpo/macro/avg")
    if macro is None and (mean := band_of(list(found.values()))) is not None:
        macro = Series(mean.steps, mean.mean)
    return found if macro is None else {MACRO: macro, **found}


def totals(groups: Sequence[Group], pattern: str) -> dict[str, list[float]]:
    """Sums over steps of each matching counter, one for each group (the mean over its seeds), largest first.

    Counters that are zero everywhere are left out.
    """
    sums: dict[str, list[float]] = {}
    for place, group in enumerate(groups):
        for run in group.runs:
            for name, series in run.matching(pattern).items():
                of_groups = sums.setdefault(name, [0.0] * len(groups))
                of_groups[place] += float(series.values.sum()) / len(group.runs)
    return dict(sorted(((name, s) for name, s in sums.items() if any(s)), key=lambda item: -sum(item[1])))
