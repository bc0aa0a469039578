"""Writes a self-made world as files: `corpus.jsonl`, `train.parquet`, `test.parquet`, `world.json`."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from verl_srpo.retrieval.world import World


def write_world(world: World, out: Path) -> dict[str, Any]:
    """Write the files into `out` (made if need be) and return the manifest: settings, counts, and file hashes."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    out.mkdir(parents=True, exist_ok=True)
    (out / "corpus.jsonl").write_text("".join(line + "\n" for line in world.corpus_lines()), encoding="utf-8")
    for split in ("train", "test"):
        pq.write_table(pa.Table.from_pylist(world.rows(split)), out / f"{split}.parquet")
    files = ("corpus.jsonl", "train.parquet", "test.parquet")
    manifest = {
        "settings": asdict(world.settings),
        "passages": len(world.passages),
        "questions": {split: len(world.rows(split)) for split in ("train", "test")},
        "sha256": {name: hashlib.sha256((out / name).read_bytes()).hexdigest() for name in files},
    }
    (out / "world.json").write_text(json.dumps(manifest, indent=1) + "\n")
    return manifest
