"""`verl-srpo index`: a corpus file becomes an index folder, whole or not at all."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from verl_srpo.retrieval.corpus import CorpusReader, Progress, silent
from verl_srpo.retrieval.encoder import EncoderSettings
from verl_srpo.retrieval.index_directory import Manifest, new_index_folder, read_manifest
from verl_srpo.retrieval.optional import import_extra
from verl_srpo.retrieval.store import PassageStore

KINDS = ("bm25", "dense")


def build_index(
    corpus: Path,
    out: Path,
    *,
    kind: str = "bm25",
    analyzer: str = "english",
    encoder: EncoderSettings | None = None,
    index_factory: str = "Flat",
    search_parameters: str = "",
    threads: int | None = None,
    skip_bad_lines: bool = False,
    replace: bool = False,
    progress: Progress = silent,
) -> Manifest:
    """Index `corpus` into the folder `out` and return its manifest.

    Raises CorpusError (bad lines), IndexFolderError (the folder), NotEnoughMemory, ValueError (a setting); in every
    case `out` is as it was before.
    """
    if kind not in KINDS:
        raise ValueError(f"kind is {kind!r}; one of {', '.join(KINDS)} is expected")
    if kind == "dense" and encoder is None:
        raise ValueError("a dense index needs an encoder: --encoder with a Hugging Face name or folder")
    with new_index_folder(out, replace=replace) as folder:
        reader = CorpusReader(corpus, skip_bad_lines=skip_bad_lines, progress=progress)
        store = PassageStore.write(reader, folder)
        if kind == "bm25":
            settings, versions = _bm25(store, folder, analyzer, threads, progress)
        else:
            assert encoder is not None
            settings, versions = _dense(store, folder, encoder, index_factory, search_parameters, threads, progress)
        Manifest(
            kind=kind,
            passages=reader.passages,
            corpus={"name": corpus.name, "sha256": reader.sha256, "skipped_lines": reader.skipped},
            settings=settings,
            versions=versions,
        ).write(folder)
    return read_manifest(out)


def _bm25(
    store: PassageStore, folder: Path, analyzer: str, threads: int | None, progress: Progress
) -> tuple[dict[str, Any], dict[str, str]]:
    from verl_srpo.retrieval.bm25 import build_bm25

    build_bm25(store, folder, analyzer=analyzer, threads=threads, progress=progress)
    return {"analyzer": analyzer}, {"tantivy": import_extra("tantivy").__version__}


def _dense(
    store: PassageStore,
    folder: Path,
    settings: EncoderSettings,
    index_factory: str,
    search_parameters: str,
    threads: int | None,
    progress: Progress,
) -> tuple[dict[str, Any], dict[str, str]]:
    from verl_srpo.retrieval.dense import build_dense, limit_threads
    from verl_srpo.retrieval.encoder import TextEncoder

    if threads is not None:
        limit_threads(threads)
    encoder = TextEncoder(settings)
    build_dense(store, encoder, folder, factory=index_factory, search_parameters=search_parameters, progress=progress)
    recorded = {
        # an index may be served from another working directory
        "encoder": {**asdict(settings), "model": _absolute_if_folder(settings.model)},
        "index_factory": index_factory,
        "search_parameters": search_parameters,
        "dimension": encoder.dimension,
        "encoder_bytes": encoder.num_bytes,
    }
    return recorded, {"faiss": import_extra("faiss").__version__}


def _absolute_if_folder(model: str) -> str:
    return str(Path(model).resolve()) if Path(model).is_dir() else model
