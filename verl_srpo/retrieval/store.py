"""The passages of an index: their JSON in one file that is mapped, not loaded, and found by row number."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

PASSAGES, OFFSETS = "passages.jsonl", "offsets.bin"


class PassageStore:
    """Row number -> the document's JSON. Thread-safe: it only reads."""

    def __init__(self, data: np.ndarray, offsets: np.ndarray):
        """`data`: bytes of all documents, each with a newline; `offsets`: (rows + 1,) uint64, where each begins."""
        self._data, self._offsets = data, offsets

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def __getitem__(self, row: int) -> bytes:
        return self._data[int(self._offsets[row]) : int(self._offsets[row + 1]) - 1].tobytes()

    def __iter__(self) -> Iterator[bytes]:
        return (self[row] for row in range(len(self)))

    @classmethod
    def in_memory(cls, documents: Iterable[bytes]) -> PassageStore:
        lines = [document + b"\n" for document in documents]
        offsets = np.concatenate([[0], np.cumsum([len(line) for line in lines])]).astype(np.uint64)
        return cls(np.frombuffer(b"".join(lines), dtype=np.uint8), offsets)

    @classmethod
    def write(cls, documents: Iterable[bytes], directory: Path) -> PassageStore:
        """Write the documents as they come (8 bytes of memory each) and open the result."""
        offsets, position = array("Q", [0]), 0
        with open(directory / PASSAGES, "wb") as out:
            for document in documents:
                out.write(document)
                out.write(b"\n")
                position += len(document) + 1
                offsets.append(position)
        with open(directory / OFFSETS, "wb") as out:
            offsets.tofile(out)
        return cls.open(directory)

    @classmethod
    def open(cls, directory: Path) -> PassageStore:
        return cls(
            np.memmap(directory / PASSAGES, dtype=np.uint8, mode="r"),
            np.memmap(directory / OFFSETS, dtype=np.uint64, mode="r"),
        )
