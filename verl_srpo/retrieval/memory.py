"""How much memory an index needs, what the machine has, and a refusal with the way out."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from pathlib import Path

from verl_srpo.retrieval.index_directory import Manifest
from verl_srpo.retrieval.optional import import_extra

PROCESS_BYTES = 300 * 2**20  # Python, the web server and the search library themselves


class NotEnoughMemory(RuntimeError):
    """An index that does not fit; the message says what it needs, what there is, and what to do."""


@dataclass(frozen=True)
class MemoryNeed:
    """`resident`: bytes that must fit in memory; `mapped`: bytes of files that are read through the page cache."""

    resident: int
    mapped: int
    passages: int
    dimension: int | None = None

    def __str__(self) -> str:
        return f"about {size_text(self.resident)} of memory, and maps {size_text(self.mapped)} of files"

    def way_out(self) -> str:
        if self.dimension is None:
            return "use a smaller corpus or a machine with more memory"
        lists = max(1, min(65536, int(4 * sqrt(self.passages))))
        code = max(1, self.dimension // 8)
        smaller = self.passages * (code + 8) + lists * self.dimension * 4
        return (
            f'index again with --index-factory "IVF{lists},PQ{code}" (about {size_text(smaller)} for {self.passages} '
            "passages), or with --kind bm25, which keeps its index on disk"
        )


def size_text(size: int) -> str:
    """Bytes for a person: MiB below one GiB."""
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.1f} MiB"


def index_memory(manifest: Manifest) -> MemoryNeed:
    """What serving this index needs: faiss indexes and encoders are loaded whole, the rest is mapped."""
    loaded = sum(size for name, size in manifest.files.items() if name.endswith(".faiss"))
    encoder = int(manifest.settings.get("encoder_bytes", 0))
    return MemoryNeed(
        resident=PROCESS_BYTES + loaded + encoder,
        mapped=sum(manifest.files.values()) - loaded,
        passages=manifest.passages,
        dimension=manifest.settings.get("dimension"),
    )


def available_memory() -> int:
    """Bytes that can still be allocated: the machine's, or what the control group of a container leaves."""
    available = import_extra("psutil").virtual_memory().available
    left = _left_in_control_group()
    return available if left is None else min(available, left)


def _left_in_control_group(root: Path = Path("/sys/fs/cgroup")) -> int | None:
    """Limit minus use of this container's control group; page cache that can be dropped is not counted as used."""
    try:
        limit = (root / "memory.max").read_text().strip()
        used = int((root / "memory.current").read_text())
        statistics = dict(line.split() for line in (root / "memory.stat").read_text().splitlines())
    except OSError:  # no control group of version 2 here
        return None
    return None if limit == "max" else max(0, int(limit) - used + int(statistics.get("inactive_file", 0)))


def require_memory(need: MemoryNeed, what: str, available: int | None = None) -> None:
    """Raise NotEnoughMemory unless `need.resident` fits in `available` (default: the machine's)."""
    available = available_memory() if available is None else available
    if need.resident > available:
        raise NotEnoughMemory(
            f"{what} needs {need}, but only {size_text(available)} of memory are available: {need.way_out()}"
        )
