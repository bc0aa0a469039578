"""Training runs as series of numbers, from whatever their folders hold."""

import json
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from verl_srpo.evaluation.reading import json_lines

from .event_files import DamagedRecord, read_scalars

_DEPTH = 3  # how far below a run's folder its files are looked for
_SEED_SUFFIX = re.compile(r"[-_.]?(?:seed|s)[-_=]?\d+$", re.IGNORECASE)


class UnusableRun(ValueError):
    """A path without any metrics; the message names it and says what was looked for."""


@dataclass(frozen=True)
class Series:
    """One metric: ascending steps (S,) int and finite values (S,) float."""

    steps: np.ndarray
    values: np.ndarray


@dataclass
class Run:
    """One training run.

    settings: flat ``a.b.c`` names. notes: what was skipped or assumed. modified: when the metrics were last written.
    """

    name: str
    path: Path
    series: dict[str, Series]
    settings: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    modified: float = 0.0

    @property
    def last_step(self) -> int:
        return max(int(series.steps[-1]) for series in self.series.values())

    def matching(self, pattern: str) -> dict[str, Series]:
        """Series whose whole name matches; named by the pattern's first group where it has one."""
        matches = ((re.fullmatch(pattern, name), series) for name, series in self.series.items())
        return {match[1] if match.re.groups else match[0]: series for match, series in matches if match}


def read_run(path: Path, name: str) -> Run:
    """Read a run's folder, a ``metrics.jsonl`` of verl's file logger, or a TensorBoard event file.

    Raises:
        UnusableRun: nothing there holds metrics.
    """
    if not path.exists():
        raise UnusableRun(f"{path}: no such file or folder")
    notes: list[str] = []
    logs = [path] if path.is_file() and not _is_event_file(path) else list(_metric_logs(path))
    events = [path] if _is_event_file(path) else list(_below(path, "*tfevents*"))
    values: dict[str, dict[int, float]] = {}
    for log in logs:
        _read_log(log, values, notes)
    if not values:
        for file in events:
            _read_events(file, values, notes)
    elif events:
        notes.append(f"{path}: TensorBoard files are there too; the JSON lines are used")
    if not values:
        said = f" ({'; '.join(note.split(': ', 1)[-1] for note in notes)})" if notes else ""
        raise UnusableRun(f"{path}: no metrics, neither JSON lines of trainer.logger=[file] nor event files{said}")
    series = {
        metric: Series(np.array(sorted(by_step)), np.array([by_step[step] for step in sorted(by_step)]))
        for metric, by_step in values.items()
    }
    folder = path if path.is_dir() else path.parent
    modified = max(file.stat().st_mtime for file in logs or events)
    return Run(name, path, series, read_settings(folder, notes), notes, modified)


def _is_event_file(path: Path) -> bool:
    return path.is_file() and "tfevents" in path.name


def _below(folder: Path, pattern: str) -> Iterator[Path]:
    """Files up to three folders down, sorted; hidden folders included, since Hydra's is one."""
    if folder.is_dir():
        for depth in range(_DEPTH + 1):
            yield from sorted(folder.glob("/".join([*["*"] * depth, pattern])))


def _metric_logs(folder: Path) -> Iterator[Path]:
    """``metrics.jsonl``, else every JSON-lines file whose first object has verl's ``step`` and ``data``."""
    if (folder / "metrics.jsonl").exists():
        yield folder / "metrics.jsonl"
        return
    for file in _below(folder, "*.jsonl"):
        first = next((line for _, line, _ in json_lines(file) if line is not None), {})
        if {"step", "data"} <= first.keys():
            yield file


def _read_log(file: Path, values: dict[str, dict[int, float]], notes: list[str]) -> None:
    """Add one log's numbers; a step that is there twice (a resumed run) counts as it was logged last."""
    bad: dict[str, list[int]] = {}
    seen: set[int] = set()
    highest, rewound = -1, 0
    for number, line, reason in json_lines(file):
        if line is not None and not (isinstance(line.get("step"), int) and isinstance(line.get("data"), dict)):
            reason = "no 'step' and 'data'"
        if reason is not None or line is None:
            bad.setdefault(str(reason), []).append(number)
            continue
        step = line["step"]
        rewound += step < highest
        highest = max(highest, step)
        seen.add(step)
        for metric, value in line["data"].items():
            if isinstance(value, (int, float)) and math.isfinite(value):
                values.setdefault(metric, {})[step] = float(value)
    if rewound:
        notes.append(f"{file}: steps were logged again after a resume; the later values are shown")
    for reason, lines in bad.items():
        notes.append(
            f"{file}: skipped {len(lines)} line{'s' * (len(lines) > 1)} ({reason}), the first is line {lines[0]}"
        )
    if not seen and not bad:
        notes.append(f"{file}: the file is empty")


def _read_events(file: Path, values: dict[str, dict[int, float]], notes: list[str]) -> None:
    try:
        for step, tag, value in read_scalars(file):
            if math.isfinite(value):
                values.setdefault(tag, {})[step] = value
    except DamagedRecord as error:
        notes.append(f"{file}: {error}; what came before is used")


def read_settings(folder: Path, notes: list[str]) -> dict[str, str]:
    """The run's configuration as flat names, from Hydra's ``.hydra/config.yaml`` or a ``config.yaml`` of its own."""
    import yaml

    files = [file for file in _below(folder, "config.yaml") if file.parent.name == ".hydra"]
    files = files or [folder / "config.yaml"]
    if not files[0].exists():
        notes.append(f"{folder}: no .hydra/config.yaml, so its settings are unknown")
        return {}
    try:
        loaded = yaml.safe_load(files[-1].read_text())
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        notes.append(f"{files[-1]}: not readable as YAML ({str(error).splitlines()[0]})")
        return {}
    return dict(_flatten(loaded))


def _flatten(value, prefix: str = "") -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _flatten(item, f"{prefix}.{key}" if prefix else str(key))
    elif prefix:
        yield prefix, value if isinstance(value, str) else json.dumps(value, default=str)


@dataclass(frozen=True)
class Band:
    """A metric over a group's seeds: the steps that all have, mean, and sample deviation (zero for one seed)."""

    steps: np.ndarray
    mean: np.ndarray
    deviation: np.ndarray


@dataclass
class Group:
    """Seeds of one run, shown as one line with a band."""

    name: str
    runs: list[Run]

    def band(self, metric: str) -> Band | None:
        """The metric over the seeds that have it; None where none has, or they share no step."""
        return band_of([run.series[metric] for run in self.runs if metric in run.series])

    def matching(self, pattern: str) -> dict[str, Band]:
        """Bands of all metrics that match, by the pattern's first group; see ``Run.matching``."""
        found: dict[str, list[Series]] = {}
        for run in self.runs:
            for key, series in run.matching(pattern).items():
                found.setdefault(key, []).append(series)
        bands = ((key, band_of(series)) for key, series in sorted(found.items(), key=lambda item: _natural(item[0])))
        return {key: band for key, band in bands if band is not None}

    def first_of(self, *metrics: str) -> tuple[str, Band] | None:
        """The first of several names that the group has, with its band."""
        for metric in metrics:
            if (band := self.band(metric)) is not None:
                return metric, band
        return None


def _natural(text: str) -> list:
    return [(0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.split(r"(\d+)", text) if part]


def band_of(series: Sequence[Series]) -> Band | None:
    """Mean and sample deviation of several series at the steps that all of them have."""
    if not series:
        return None
    steps = series[0].steps
    for one in series[1:]:
        steps = np.intersect1d(steps, one.steps)
    if not len(steps):
        return None
    values = np.stack([one.values[np.searchsorted(one.steps, steps)] for one in series])
    deviation = values.std(0, ddof=1) if len(series) > 1 else np.zeros(len(steps))
    return Band(steps, values.mean(0), deviation)


def without_seed(name: str) -> str:
    """A run's name without a final ``-seed3`` or ``_s3``: what the seeds of one run share."""
    return _SEED_SUFFIX.sub("", name) or name
