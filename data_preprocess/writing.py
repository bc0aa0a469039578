"""verl's parquet files, written in batches and put in place when complete."""

import hashlib
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

_BATCH = 4096

_MESSAGE = pa.struct([("role", pa.string()), ("content", pa.string())])
_EXTRA_INFO = pa.struct(
    [
        ("split", pa.string()),
        ("index", pa.int64()),
        ("source", pa.string()),
        ("row", pa.int64()),
        ("id", pa.string()),
        ("question", pa.string()),
        ("answer", pa.string()),
    ]
)


def schema(ground_truth: pa.DataType) -> pa.Schema:
    """What verl's RLHFDataset reads, with the given type of truth."""
    return pa.schema(
        [
            ("data_source", pa.string()),
            ("prompt", pa.list_(_MESSAGE)),
            ("ability", pa.string()),
            ("reward_model", pa.struct([("style", pa.string()), ("ground_truth", ground_truth)])),
            ("extra_info", _EXTRA_INFO),
        ]
    )


MATH_SCHEMA = schema(pa.string())
SEARCH_SCHEMA = schema(pa.struct([("target", pa.list_(pa.string()))]))


class ParquetOut:
    """A parquet file that appears under its name only when all rows are in it. A context manager."""

    def __init__(self, path: Path, schema: pa.Schema):
        self.path, self.rows = path, 0
        self._schema, self._pending = schema, []
        self._partial = path.with_name(f".{path.name}.partial")
        self._writer = pq.ParquetWriter(self._partial, schema)

    def write(self, rows: Iterable[dict[str, Any]]) -> None:
        """Appends rows."""
        for row in rows:
            self._pending.append(row)
            self.rows += 1
            if len(self._pending) >= _BATCH:
                self._flush()

    def _flush(self) -> None:
        if self._pending:
            self._writer.write_table(pa.Table.from_pylist(self._pending, self._schema))
            self._pending = []

    def __enter__(self) -> "ParquetOut":
        return self

    def __exit__(self, kind, error, trace) -> None:
        if kind is None:
            self._flush()
        self._writer.close()
        if kind is None:
            os.replace(self._partial, self.path)
        else:
            self._partial.unlink()


def write_json(path: Path, value: Any) -> None:
    """Writes indented JSON in one step."""
    partial = path.with_name(f".{path.name}.partial")
    partial.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(partial, path)


def sha256(path: Path) -> str:
    """The file's SHA-256 in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()
