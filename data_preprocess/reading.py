"""Rows of a data set, from the hub or from a local file or folder in the source's own format."""

import bz2
import contextlib
import gzip
import io
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from data_preprocess.converters import Refused
from data_preprocess.sources import Source

FORMATS = (".parquet", ".jsonl", ".json")
_OPENERS = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
    ".zst": lambda path: io.BufferedReader(pa.input_stream(str(path))),
}
_SPLIT_WORDS = ("train", "test", "validation", "valid", "val", "dev")
_NO_DATA = re.compile(r"^(?:dataset_infos?|dataset_dict|state|manifest|config|metadata)\.json$", re.IGNORECASE)
_BATCH = 2048

Row = Mapping[str, Any] | Refused


class SourceError(RuntimeError):
    """The data set as a whole cannot be read."""


class Rows:
    """The rows of one data set in a fixed order: iterate once. `total` is None where only reading tells."""

    def __init__(self, origin: str, rows: Iterator[Row], total: int | None):
        self.origin, self.total, self._rows = origin, total, rows

    def __iter__(self) -> Iterator[Row]:
        return self._rows


def read_rows(source: Source, split: str, path: Path | None) -> Rows:
    """The rows of `source` for our split ("train" or "test").

    Args:
        path: a file or folder in the source's own format (parquet, json, jsonl, each also compressed; a folder written
            by `datasets`' save_to_disk); None for the hub's copy.

    Raises:
        SourceError: no such part, file or format, or the hub cannot be reached.
    """
    if split not in source.splits:
        raise SourceError(f"{source.name} has no {split} part; it serves as {' and '.join(source.splits)}")
    if path is None:
        return _from_hub(source, split)
    if not path.exists():
        raise SourceError(f"{source.name}: {path} does not exist")
    if path.is_dir() and any((path / name).exists() for name in ("dataset_dict.json", "state.json")):
        return _from_saved(source, split, path)
    files = _files(source, split, path)
    names = ", ".join(file.name for file in files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
    return Rows(f"local: {names}", _rows_of_files(files, source), _count(files))


def _count(files: list[Path]) -> int | None:
    """The number of rows, where the files say it."""
    if any(file.suffix != ".parquet" for file in files):
        return None
    return sum(_readable(file, lambda file: pq.read_metadata(file).num_rows) for file in files)


def _rows_of_files(files: list[Path], source: Source) -> Iterator[Row]:
    for file in files:
        rows = _file_rows(file, source.columns)
        while (row := _readable(file, lambda _, rows=rows: next(rows, None))) is not None:
            yield row


def _readable(file: Path, read: Callable[[Path], Any]) -> Any:
    try:
        return read(file)
    except (pa.ArrowException, OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        raise SourceError(f"{file} cannot be read: {type(error).__name__}: {error}") from error


def _from_hub(source: Source, split: str) -> Rows:
    import datasets

    where = f"{source.hub}{f' ({source.subset})' if source.subset else ''}, split {source.splits[split]}"
    try:
        data = datasets.load_dataset(source.hub, source.subset, split=source.splits[split])
    except Exception as error:
        raise SourceError(
            f"the hub's copy of {source.name} ({where}) cannot be read: {type(error).__name__}: {error}\n"
            f"A local copy (file or folder, parquet, json or jsonl) is given as {source.name}=PATH"
        ) from error
    return Rows(f"hub: {where}", _dataset_rows(data, source.columns), len(data))


def _from_saved(source: Source, split: str, path: Path) -> Rows:
    import datasets

    data = datasets.load_from_disk(str(path))
    if isinstance(data, datasets.DatasetDict):
        if source.splits[split] not in data:
            raise SourceError(f"{source.name}: {path} has no split {source.splits[split]!r}, only {', '.join(data)}")
        data = data[source.splits[split]]
    return Rows(f"local: {path.name}", _dataset_rows(data, source.columns), len(data))


def _dataset_rows(data: Any, columns: tuple[str, ...]) -> Iterator[Row]:
    data = data.select_columns([column for column in columns if column in data.column_names]).with_format("arrow")
    for batch in data.iter(batch_size=_BATCH):
        yield from batch.to_pylist()


def _files(source: Source, split: str, path: Path) -> list[Path]:
    """The data files of one split, in the order of their names."""
    if path.is_file():
        if _format(path) is None:
            raise SourceError(f"{source.name}: {path.name} is none of {', '.join(FORMATS)} (or one of them compressed)")
        return [path]
    files = sorted(
        file
        for file in path.rglob("*")
        if file.is_file() and _format(file) and not _NO_DATA.match(file.name) and not _hidden(file.relative_to(path))
    )
    if not files:
        raise SourceError(f"{source.name}: no {', '.join(FORMATS)} file in {path}")
    in_subset = [file for file in files if source.subset in file.relative_to(path).parts[:-1]]
    files = in_subset or files
    word = source.splits[split]
    named = {file: _split_words(file.relative_to(path)) for file in files}
    chosen = [file for file in files if word in named[file]]
    if not chosen and any(named.values()):
        raise SourceError(
            f"{source.name}: no file in {path} has {word!r} in its name, others name another split: "
            f"{', '.join(str(file.relative_to(path)) for file in files[:10])}. Give the file itself"
        )
    return chosen or files


def _hidden(path: Path) -> bool:
    return any(part.startswith(".") for part in path.parts)


def _split_words(path: Path) -> set[str]:
    return set(re.split(r"[^a-z]+", str(path).lower())) & set(_SPLIT_WORDS)


def _format(path: Path) -> str | None:
    suffixes = path.suffixes[-2:] if path.suffix in _OPENERS else path.suffixes[-1:]
    name = suffixes[0] if suffixes else ""
    return name if name in FORMATS and not (name == ".parquet" and len(suffixes) == 2) else None


def _file_rows(path: Path, columns: tuple[str, ...]) -> Iterator[Row]:
    kind = _format(path)
    if kind == ".parquet":
        with pq.ParquetFile(path) as file:
            present = [column for column in columns if column in file.schema_arrow.names]
            for batch in file.iter_batches(batch_size=_BATCH, columns=present):
                yield from batch.to_pylist()
        return
    with contextlib.closing(_OPENERS[path.suffix](path) if path.suffix in _OPENERS else path.open("rb")) as file:
        yield from _json_lines(file) if kind == ".jsonl" else _json_rows(file)


def _json_lines(lines: IO[bytes]) -> Iterator[Row]:
    for line in lines:
        if line.strip():
            yield _row(line)


def _json_rows(file: IO[bytes]) -> Iterator[Row]:
    """A list of rows, one row, or (which is common under this name) one row a line."""
    content = file.read()
    try:
        value = json.loads(content)
    except ValueError:
        yield from _json_lines(content.splitlines())  # type: ignore[arg-type]
        return
    for row in value if isinstance(value, list) else [value]:
        yield row if isinstance(row, dict) else Refused("not a JSON object")


def _row(line: bytes) -> Row:
    try:
        row = json.loads(line)
    except ValueError:
        return Refused("not valid JSON")
    return row if isinstance(row, dict) else Refused("not a JSON object")
