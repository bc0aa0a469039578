"""Reading a corpus: JSON lines `{"id": "0", "contents": "\\"Title\\"\\nbody"}`, checked line by line."""

from __future__ import annotations

import gzip
import hashlib
import json
from array import array
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

SHOWN_BAD_LINES = 10
Progress = Callable[[str, int, int], None]  # (stage, done, total)


def silent(stage: str, done: int, total: int) -> None:
    """A progress callback that shows nothing."""


class CorpusError(ValueError):
    """A corpus that cannot be indexed; the message lists the lines and the reasons."""


def normalise_line(line: bytes) -> tuple[str, bytes]:
    """The id and the canonical JSON of one corpus line; ValueError carries the reason for a bad one."""
    try:
        record = json.loads(line.decode("utf-8"), parse_constant=_refuse_constant)
    except UnicodeDecodeError as error:
        raise ValueError(f"not UTF-8 ({error.reason} at byte {error.start})") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON ({error.msg} at character {error.pos})") from None
    if not isinstance(record, dict):
        raise ValueError(f"a JSON object is expected, this is a {type(record).__name__}")
    for name in ("id", "contents"):
        if name not in record:
            raise ValueError(f'"{name}" is missing; the line has {sorted(record)}')
    identifier, contents = record["id"], record["contents"]
    if isinstance(identifier, bool) or not isinstance(identifier, (str, int)) or identifier == "":
        raise ValueError(f'"id" is {identifier!r}; a non-empty string is expected')
    if not isinstance(contents, str) or not contents.strip():
        raise ValueError(f'"contents" is {str(contents)[:40]!r}; a non-empty string is expected')
    record["id"] = str(identifier)
    try:
        return record["id"], json.dumps(record, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate that UTF-8 cannot carry") from None


def _refuse_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


@dataclass
class CorpusReader:
    """Iterates over the canonical JSON of a corpus file (`.jsonl`, or `.jsonl.gz`); memory: 16 bytes a passage.

    After the loop `passages`, `sha256` (of the file's bytes, unpacked) and `skipped` are set. Bad lines and repeated
    ids raise CorpusError at the end, all of them counted and the first ten listed; with `skip_bad_lines` they are left
    out and counted (about 100 bytes a passage then). Blank lines are passed over.
    """

    path: Path
    skip_bad_lines: bool = False
    progress: Progress = silent
    passages: int = 0
    skipped: int = 0
    sha256: str = ""
    _bad: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[bytes]:
        digest, hashes, numbers = hashlib.sha256(), array("Q"), array("Q")
        seen: set[int] | None = set() if self.skip_bad_lines else None
        total = self.path.stat().st_size
        for number, line in enumerate(self._lines(total), start=1):
            digest.update(line)
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if not line.strip():
                continue
            try:
                identifier, document = normalise_line(line)
                key = _key(identifier)
                if seen is not None:
                    if key in seen:
                        raise ValueError(f'"id" {identifier!r} stands on an earlier line too')
                    seen.add(key)
            except ValueError as error:
                self._refuse(number, str(error))
                continue
            hashes.append(key)
            numbers.append(number)
            self.passages += 1
            yield document
        self.progress("reading the corpus", total, total)
        self.sha256 = digest.hexdigest()
        if not self.skip_bad_lines:
            self._refuse_repeated_ids(hashes, numbers)
            self._raise_if_bad()
        if not self.passages:
            raise CorpusError(f"{self.path} holds no passages{self._listing()}")

    def _lines(self, total: int) -> Iterator[bytes]:
        with ExitStack() as files:
            raw = lines = files.enter_context(open(self.path, "rb"))
            if self.path.suffix == ".gz":
                lines = files.enter_context(gzip.GzipFile(fileobj=raw))
            try:
                for number, line in enumerate(lines):
                    if number % 1000 == 0:
                        self.progress("reading the corpus", raw.tell(), total)
                    yield line
            except (EOFError, gzip.BadGzipFile) as error:
                raise CorpusError(f"{self.path} is no whole gzip file: {error}") from error

    def _refuse(self, number: int, reason: str) -> None:
        self.skipped += 1
        if len(self._bad) < SHOWN_BAD_LINES:
            self._bad.append(f"line {number}: {reason}")

    def _refuse_repeated_ids(self, hashes: array, numbers: array) -> None:
        keys = np.frombuffer(hashes, dtype=np.uint64) if hashes else np.zeros(0, np.uint64)
        order = np.argsort(keys, kind="stable")
        repeated = np.flatnonzero(keys[order][1:] == keys[order][:-1])
        for position in np.sort(repeated):
            first, second = numbers[order[position]], numbers[order[position + 1]]
            self._refuse(second, f'"id" is the same as on line {first}')

    def _raise_if_bad(self) -> None:
        if self.skipped:
            raise CorpusError(
                f"{self.path}: {self.skipped} bad lines, nothing was indexed{self._listing()}\n"
                "mend them, or leave them out with --skip-bad-lines"
            )

    def _listing(self) -> str:
        more = self.skipped - len(self._bad)
        return "".join(f"\n  {reason}" for reason in self._bad) + (f"\n  and {more} more" if more > 0 else "")


def _key(identifier: str) -> int:
    """64 bits stand for an id: among 21 million ids the chance of one false match is about one in 100,000."""
    return int.from_bytes(hashlib.blake2b(identifier.encode(), digest_size=8).digest(), "little")
