"""Command-line arguments that name runs and their seeds."""

import glob
from collections.abc import Callable, Sequence
from pathlib import Path


def seeds_of_runs(
    runs: Sequence[str], *, one_run: bool = False, common_name: Callable[[str], str] = str
) -> dict[str, list[Path]]:
    """Sort ``[NAME=]PATH[,PATH...]`` arguments into runs: each run's name and the paths of its seeds.

    Paths under the same NAME are seeds of one run; without a NAME every argument is a run of its own, named by what
    tells its path from the others'. A pattern stands for the paths that it matches, sorted.

    common_name: what an unnamed argument's own name is turned into; arguments that get the same name are seeds of one
    run.
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
        groups.setdefault(name if name is not None else common_name(next(labels)), []).extend(paths)
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
