"""An index on disk: a folder with a manifest, made whole or not at all."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FORMAT = 1
MANIFEST, LOCK = "manifest.json", ".lock"


class IndexFolderError(RuntimeError):
    """A folder that is no index, is not whole, or cannot be written; the message names it and the way out."""


@dataclass(frozen=True)
class Manifest:
    """What an index was made of. `files` holds every file's size, so that a partial copy is noticed."""

    kind: str
    passages: int
    corpus: dict[str, Any]
    settings: dict[str, Any]
    versions: dict[str, str]
    files: dict[str, int] = field(default_factory=dict)
    format: int = FORMAT

    def write(self, directory: Path) -> None:
        files = {
            str(path.relative_to(directory)): path.stat().st_size
            for path in sorted(directory.rglob("*"))
            if path.is_file() and path.name not in (LOCK, MANIFEST) and path.suffix != ".lock"
        }
        with open(directory / MANIFEST, "w") as out:
            json.dump({**asdict(self), "files": files}, out, indent=1)
            out.flush()
            os.fsync(out.fileno())


def read_manifest(directory: Path) -> Manifest:
    """The manifest of an index that is whole; raises IndexFolderError for anything else."""
    if not (directory / MANIFEST).is_file():
        raise IndexFolderError(f"{directory} holds no index ({MANIFEST} is missing): make one with `verl-srpo index`")
    try:
        record = json.loads((directory / MANIFEST).read_text())
    except ValueError as error:
        raise IndexFolderError(f"{directory / MANIFEST} cannot be read ({error}): index again") from error
    if record.get("format") != FORMAT:
        raise IndexFolderError(
            f"{directory} has format {record.get('format')}, this version reads {FORMAT}: index again"
        )
    for name, size in record["files"].items():
        path = directory / name
        found = path.stat().st_size if path.is_file() else None
        if found != size:
            state = "is missing" if found is None else f"has {found} bytes instead of {size}"
            raise IndexFolderError(f"{directory} is not whole, {name} {state}: copy it again or index again")
    return Manifest(**record)


@contextmanager
def new_index_folder(directory: Path, *, replace: bool = False) -> Iterator[Path]:
    """A folder to build in that becomes `directory` when the block ends well, and is removed when it does not.

    It stands beside its goal as `<name>.partial`. What a killed build left there is removed by the next one; a build
    that still runs holds a lock, and a second one is refused.
    """
    if directory.exists() and not replace:
        raise IndexFolderError(f"{directory} exists already: choose another --out, or replace it with --force")
    if directory.exists() and any(directory.iterdir()) and not (directory / MANIFEST).exists():
        raise IndexFolderError(
            f"{directory} is no index and is not empty: it will not be replaced, choose another --out"
        )
    partial = directory.with_name(directory.name + ".partial")
    partial.mkdir(parents=True, exist_ok=True)
    with open(partial / LOCK, "w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise IndexFolderError(f"another process is building {directory} (it holds {partial / LOCK})") from None
        _empty(partial)
        try:
            yield partial
        except BaseException:
            shutil.rmtree(partial)
            raise
        _move_into_place(partial, directory)
        (directory / LOCK).unlink()


def _empty(partial: Path) -> None:
    for path in partial.iterdir():
        if path.name != LOCK:
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def _move_into_place(partial: Path, directory: Path) -> None:
    replaced = directory.with_name(directory.name + ".replaced")
    if replaced.exists():
        shutil.rmtree(replaced)
    if directory.exists():
        directory.rename(replaced)
    partial.rename(directory)
    if replaced.exists():
        shutil.rmtree(replaced)
