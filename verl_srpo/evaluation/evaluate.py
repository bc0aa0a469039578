"""The whole evaluation: paths in, summaries and comparisons out."""

import glob
from collections.abc import Sequence
from pathlib import Path

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


def seeds_of_runs(runs: Sequence[str], *, one_run: bool = False) -> dict[str, list[Path]]:
    """Sort ``[NAME=]PATH[,PATH...]`` arguments into runs: each run's name and the paths of its seeds.

    Paths under the same NAME are seeds of one run; without a NAME every argument is a run of its own, named by what
    tells its path from the others'. A pattern stands for the paths that it matches, sorted.
    """
    named: list[tuple[str | None, list[Path]]] = []
    for argument in runs:
        name, paths = None, argument
        if "=" in argument and not Path(argument).exists():
            name, _, paths = argument.partition("=")
        named.append((name, [path for part in _parts(paths) for path in _matches(part)]))
    if one_run:
        every = [path for _, paths in named for path in paths]
        return {named[0][0] or _short_names([every[0]])[0]: every}
    labels = iter(_short_names([paths[0] for name, paths in named if name is None]))
    groups: dict[str, list[Path]] = {}
    for name, paths in named:
        groups.setdefault(name if name is not None else next(labels), []).extend(paths)
    return groups


def _parts(text: str) -> list[str]:
    """Comma-separated paths, unless the whole text is a path that has a comma in its name."""
    return [text] if Path(text).exists() else [part for part in text.split(",") if part]


def _matches(text: str) -> list[Path]:
    if Path(text).exists() or not glob.has_magic(text):
        return [Path(text)]
    found = sorted(glob.glob(text))
    return [Path(path) for path in found] or [Path(text)]


def _short_names(paths: Sequence[Path]) -> list[str]:
    """Names for paths: the shortest ends that are all different."""
    parts = [path.resolve().parts for path in paths]
    for length in range(1, max((len(p) for p in parts), default=0) + 1):
        names = ["/".join(p[-length:]) for p in parts]
        if len(set(names)) == len(names):
            return names
    return [f"{path} ({number})" for number, path in enumerate(paths, 1)]
