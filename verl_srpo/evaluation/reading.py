"""Generation files to episodes, and plain words about what could not be read."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from .episodes import Episodes, join_records
from .records import UNKNOWN_SOURCE, BadLine, Record, parse_record

_FOREIGN = {
    b"PAR1": "a parquet file; evaluation reads the JSON lines that validation writes",
    b"\x1f\x8b": "gzip-compressed; unpack it first",
    b"PK\x03\x04": "a zip archive; unpack it first",
    b"[": 'one JSON array; one object a line is needed (for instance: jq -c ".[]" FILE)',
}


class UnusableFile(ValueError):
    """A path that holds no episode; the message names it and says what it is instead."""


@dataclass(frozen=True)
class Reading:
    """Episodes of one file or folder at one training step, and notes on everything that was skipped or assumed."""

    path: Path
    step: int | None
    episodes: Episodes
    notes: list[str]


def read_generations(path: str | Path, *, step: int | None = None) -> Reading:
    """Read a JSON-lines file, or a folder of ``<step>.jsonl`` files as ``trainer.validation_data_dir`` holds them.

    A run's folder with such files in its ``validation`` stands for that.

    step: the training step to read; None takes the last one there is.

    Raises:
        UnusableFile: the path does not exist, holds no episode, or lacks the step.
    """
    path = Path(path)
    file = _file_of_step(path, step) if path.is_dir() else path
    if not file.exists():
        raise UnusableFile(f"{file}: no such file")
    notes: list[str] = []
    records = _records(file, notes)
    steps = sorted({record.step for record in records if record.step is not None})
    wanted = step if step is not None else (steps[-1] if steps else None)
    if step is not None and steps and step not in steps:
        raise UnusableFile(f"{file}: no line of step {step}; it has steps {', '.join(map(str, steps))}")
    if len(steps) > 1:
        records = [record for record in records if record.step == wanted]
        notes.append(
            f"{file}: has steps {', '.join(map(str, steps))}; step {wanted} is evaluated (--step takes another)"
        )
    if all(record.source == UNKNOWN_SOURCE for record in records):
        notes.append(f"{file}: no line has 'data_source'; everything counts as one data set")
    return Reading(path, wanted, join_records(records), notes)


def steps_of(path: str | Path) -> list[int]:
    """The training steps that a folder of ``<step>.jsonl`` files holds, ascending."""
    return sorted(int(file.stem) for file in Path(path).glob("*.jsonl") if file.stem.isdigit())


def _file_of_step(folder: Path, step: int | None) -> Path:
    steps = steps_of(folder)
    if not steps and (steps := steps_of(folder / "validation")):
        folder = folder / "validation"
    if not steps:
        raise UnusableFile(
            f"{folder}: no <step>.jsonl file in this folder; set trainer.validation_data_dir to have verl write them"
        )
    if step is not None and step not in steps:
        raise UnusableFile(f"{folder}: no {step}.jsonl; it has steps {', '.join(map(str, steps))}")
    return folder / f"{steps[-1] if step is None else step}.jsonl"


def _records(file: Path, notes: list[str]) -> list[Record]:
    """All usable records of a file; what is not usable is counted by reason and noted."""
    records: list[Record] = []
    reasons: Counter[str] = Counter()
    where: dict[str, int] = {}
    keys: set[str] = set()
    for number, line, reason in json_lines(file):
        if reason is None and line is not None:
            keys.update(line)
            try:
                records.append(parse_record(line))
                continue
            except BadLine as error:
                reason = str(error)
        reasons[str(reason)] += 1
        where.setdefault(str(reason), number)
    if not records:
        raise UnusableFile(f"{file}: {_why_foreign(file, keys, reasons)}")
    for reason, count in reasons.most_common():
        notes.append(f"{file}: skipped {count} line{'s' * (count > 1)} ({reason}), the first is line {where[reason]}")
    return records


def json_lines(file: Path) -> Iterator[tuple[int, dict | None, str | None]]:
    """Yield ``(line number, object, None)``, or ``(line number, None, reason)`` for a line that is no JSON object.

    Blank lines are passed over. The reason for a last line without its newline says that it is cut off.
    """
    with file.open("rb") as lines:
        for number, raw in enumerate(lines, 1):
            if not raw.strip():
                continue
            try:
                line = json.loads(raw)
            except (ValueError, RecursionError):
                yield number, None, "not JSON" if raw.endswith(b"\n") else "cut off in the middle; still being written?"
                continue
            yield (number, line, None) if isinstance(line, dict) else (number, None, "not a JSON object")


def _why_foreign(file: Path, keys: set[str], reasons: Counter[str]) -> str:
    """One sentence on what an unusable file is, as far as its first bytes and keys tell."""
    with file.open("rb") as stream:
        head = stream.read(64)
    if not head.strip():
        return "the file is empty"
    for magic, description in _FOREIGN.items():
        if head.startswith(magic):
            return description
    if {"step", "data"} <= keys:
        return "a metrics log, not generations; `verl-srpo report` reads it"
    if keys:
        return (
            f"no line can be evaluated ({reasons.most_common(1)[0][0]}). Needed: 'score', and 'uid' or 'input'; "
            f"found: {', '.join(sorted(keys)[:12])}"
        )
    return f"no line is a JSON object (the first {min(len(head), 24)} bytes are {head[:24]!r})"
