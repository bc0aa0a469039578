"""The whole evaluation: paths in, summaries and comparisons out."""

from collections.abc import Sequence

from .arguments import seeds_of_runs
from .comparison import compare, matched_budget
from .reading import UnusableFile, read_generations
from .rendering import Evaluation
from .summary import Run, summarise


def evaluate(
    runs: Sequence[str],
    *,
    one_run: bool = False,
    step: int | None = None,
    baseline: str | None = None,
    metric: str | None = None,
    threshold: float = 0.5,
    budgets: Sequence[int] | None = None,
) -> tuple[Evaluation, list[str]]:
    """Evaluate runs given as ``[NAME=]PATH[,PATH...]``; returns the evaluation and one message for each unusable path.

    Raises:
        UnusableFile: no path is usable, the baseline is not among the runs, or the metric is missing.
    """
    groups = seeds_of_runs(runs, one_run=one_run)
    evaluated, unusable = [], []
    for name, paths in groups.items():
        readings = []
        for path in paths:
            try:
                readings.append(read_generations(path, step=step))
            except UnusableFile as error:
                unusable.append(str(error))
        if readings:
            notes = [note for reading in readings for note in reading.notes]
            steps = [reading.step for reading in readings]
            if len(set(steps)) > 1:
                notes.append(f"{name}: its seeds are at different steps ({', '.join(map(str, steps))})")
            seeds = [reading.episodes for reading in readings]
            try:
                evaluated.append(Run.of(name, seeds, metric=metric, threshold=threshold, notes=notes, steps=steps))
            except ValueError as error:
                raise UnusableFile(f"{name}: {error}") from error
    if not evaluated:
        raise UnusableFile("\n".join([*unusable, "nothing to evaluate"]))
    names = [run.name for run in evaluated]
    if baseline is not None and baseline not in names:
        raise UnusableFile(f"--baseline {baseline}: no such run; there are {', '.join(names)}")
    reference = evaluated[names.index(baseline) if baseline is not None else 0]
    comparisons = [compare(reference, run) for run in evaluated if run is not reference]
    curves = matched_budget(evaluated, budgets) if len(evaluated) > 1 or budgets else None
    summaries = [summarise(run) for run in evaluated]
    notes = [note for run in evaluated for note in run.notes]
    notes += [note for comparison in comparisons for note in comparison.notes] + (curves.notes if curves else [])
    return Evaluation(summaries, comparisons, curves, notes), unusable
