"""The report's tables: a summary of every run, and the settings in which runs differ."""

import datetime
import math
from collections.abc import Sequence

import numpy as np

from .runs import Group, Run
from .signals import REWARDS, final_mean, spikes, validations, variation

Table = tuple[list[str], list[list[str]]]


def summary(groups: Sequence[Group], now: float) -> Table:
    """One row a group: how far it is, what it reached, what it took."""
    header = ["run", "seeds", "last step", "written", "reward, first", "reward, last", "validation, first"]
    header += ["validation, last", "best", "s a step", "CV of gradient norm", "spikes"]
    return header, [_summary_row(group, now) for group in groups]


def _summary_row(group: Group, now: float) -> list[str]:
    reward = group.first_of(*REWARDS)
    validated = next(iter(validations(group).values()), None)
    norms = [run.series["actor/grad_norm"].values for run in group.runs if "actor/grad_norm" in run.series]
    varied = [variation(values) for values in norms if not math.isnan(variation(values))]
    seconds = group.band("timing_s/step")
    steps = sorted({run.last_step for run in group.runs})
    planned = {run.settings.get("trainer.total_training_steps", "null") for run in group.runs} - {"null"}
    progress = "-".join(map(str, (steps[0], steps[-1]))) if len(steps) > 1 else str(steps[0])
    return [
        group.name,
        str(len(group.runs)),
        progress + (f" of {planned.pop()}" if len(planned) == 1 else ""),
        _ago(now - max(run.modified for run in group.runs)),
        f"{reward[1].mean[0]:.3f}" if reward else "",
        _over_seeds([final_mean(run.series[reward[0]]) for run in group.runs if reward[0] in run.series])
        if reward
        else "",
        f"{validated.mean[0]:.3f}" if validated else "",
        _with_deviation(validated.mean[-1], validated.deviation[-1]) if validated else "",
        f"{validated.mean.max():.3f} at {validated.steps[validated.mean.argmax()]}" if validated else "",
        f"{np.median(seconds.mean):.1f}" if seconds else "",
        f"{np.mean(varied):.3f}" if varied else "",
        str(sum(len(spikes(values)) for values in norms)) if norms else "",
    ]


def _over_seeds(values: list[float]) -> str:
    return _with_deviation(float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else 0.0)


def _with_deviation(mean: float, deviation: float) -> str:
    return f"{mean:.3f} ± {deviation:.3f}" if deviation else f"{mean:.3f}"


def _ago(seconds: float) -> str:
    """How long ago a file was written, which tells a run that goes on from one that stopped."""
    return (
        f"{datetime.timedelta(seconds=max(0, round(seconds)))} ago"
        if seconds < 86400
        else f"{seconds / 86400:.0f} days ago"
    )


def differing_settings(groups: Sequence[Group]) -> Table:
    """Settings that are not the same in all runs, one row each and one column a group; seeds' values are listed.

    Runs without known settings are left out. An empty list of rows: nothing differs, or nothing can be compared.
    """
    known = [run for group in groups for run in group.runs if run.settings]
    names = sorted({name for run in known for name in run.settings})
    differing = [name for name in names if len({run.settings.get(name) for run in known}) > 1]
    rows = [[name, *(_values(group.runs, name) for group in groups)] for name in differing]
    return ["setting", *(group.name for group in groups)], rows


def _values(runs: Sequence[Run], name: str) -> str:
    values = [run.settings.get(name, "not set") for run in runs if run.settings]
    return ", ".join(dict.fromkeys(values)) if values else "unknown"
