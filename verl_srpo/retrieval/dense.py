"""Dense retrieval by faiss: inner product of normalised vectors, over any index that an index-factory string names."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from verl_srpo.retrieval.corpus import Progress, silent
from verl_srpo.retrieval.encoder import TextEncoder
from verl_srpo.retrieval.memory import PROCESS_BYTES, MemoryNeed, require_memory
from verl_srpo.retrieval.optional import import_extra
from verl_srpo.retrieval.passage import Hit
from verl_srpo.retrieval.store import PassageStore

FILE = "vectors.faiss"
CHUNK = 2048
MAX_TRAINING_PASSAGES = 200_000
SAMPLE_FOR_SIZE = 256


def make_faiss_index(dimension: int, factory: str) -> Any:
    """An empty faiss index of inner products; ValueError for a string that faiss does not know."""
    faiss = import_extra("faiss")
    try:
        return faiss.index_factory(dimension, factory, faiss.METRIC_INNER_PRODUCT)
    except RuntimeError as error:
        reason = str(error).rsplit(": ", 1)[-1]
        raise ValueError(
            f"index factory {factory!r} cannot be made for vectors of {dimension} numbers: {reason}; "
            'examples: "Flat", "SQ8", "IVF4096,PQ64", "HNSW32"'
        ) from None


def set_search_parameters(index: Any, parameters: str) -> None:
    """faiss's own parameter string, such as "nprobe=64"."""
    if parameters:
        try:
            import_extra("faiss").ParameterSpace().set_index_parameters(index, parameters)
        except RuntimeError as error:
            reason = str(error).rsplit(": ", 1)[-1]
            raise ValueError(f"search parameters {parameters!r} do not suit this index: {reason}") from None


def limit_threads(threads: int) -> None:
    """Threads of torch and faiss in this process."""
    import torch

    torch.set_num_threads(threads)
    import_extra("faiss").omp_set_num_threads(threads)


def build_dense(
    store: PassageStore,
    encoder: TextEncoder,
    directory: Path,
    *,
    factory: str = "Flat",
    search_parameters: str = "",
    seed: int = 0,
    progress: Progress = silent,
) -> None:
    """Encode the store's passages chunk by chunk into a faiss index; only the index itself grows in memory.

    An index that must be trained (IVF, PQ) learns from a random sample of at most 200,000 passages. Raises
    NotEnoughMemory before the encoding when the finished index would not fit.
    """
    faiss = import_extra("faiss")
    index = make_faiss_index(encoder.dimension, factory)
    if not index.is_trained:
        _train(index, store, encoder, factory, seed, progress)
    set_search_parameters(index, search_parameters)
    need = MemoryNeed(
        resident=PROCESS_BYTES + encoder.num_bytes + int(len(store) * bytes_per_vector(index)),
        mapped=0,
        passages=len(store),
        dimension=encoder.dimension,
    )
    require_memory(need, f"a dense index of {len(store)} passages with index factory {factory!r}")
    done = 0
    for texts in _chunks(store, range(len(store))):
        index.add(encoder.encode_passages(texts))
        done += len(texts)
        progress("encoding passages", done, len(store))
    faiss.write_index(index, str(directory / FILE))


def bytes_per_vector(index: Any) -> float:
    """How much a trained index grows with each vector, measured on a copy."""
    faiss = import_extra("faiss")
    copy = faiss.deserialize_index(faiss.serialize_index(index))
    before = faiss.serialize_index(copy).nbytes
    copy.add(np.eye(SAMPLE_FOR_SIZE, copy.d, dtype=np.float32))
    return (faiss.serialize_index(copy).nbytes - before) / SAMPLE_FOR_SIZE


def _train(index: Any, store: PassageStore, encoder: TextEncoder, factory: str, seed: int, progress: Progress) -> None:
    size = min(len(store), MAX_TRAINING_PASSAGES)
    rows = np.sort(np.random.default_rng(seed).choice(len(store), size=size, replace=False))
    sample = np.empty((size, encoder.dimension), dtype=np.float32)
    done = 0
    for texts in _chunks(store, rows):
        sample[done : done + len(texts)] = encoder.encode_passages(texts)
        done += len(texts)
        progress("training the index", done, size)
    try:
        index.train(sample)
    except RuntimeError as error:
        reason = str(error).rsplit(": ", 1)[-1]
        raise ValueError(
            f"index factory {factory!r} cannot be trained on {size} passages: {reason}; "
            'a smaller number of lists or codes, or "Flat", fits a small corpus'
        ) from None


def _chunks(store: PassageStore, rows: Sequence[int] | np.ndarray) -> Iterator[list[str]]:
    for start in range(0, len(rows), CHUNK):
        yield [json.loads(store[int(row)])["contents"] for row in rows[start : start + CHUNK]]


class DenseIndex:
    """Searches a faiss index by encoded queries; scores are cosines (approximate where the index compresses)."""

    kind = "dense"
    max_batch = 64
    workers = 1  # the encoder and faiss use all cores for one batch

    def __init__(self, store: PassageStore, index: Any, encoder: TextEncoder):
        if index.ntotal != len(store) or index.d != encoder.dimension:
            raise ValueError(
                f"the faiss index has {index.ntotal} vectors of {index.d} numbers, "
                f"the store {len(store)} passages and the encoder {encoder.dimension} numbers: index again"
            )
        self._store, self._index, self._encoder = store, index, encoder

    @classmethod
    def open(cls, directory: Path, encoder: TextEncoder, *, search_parameters: str = "") -> DenseIndex:
        index = import_extra("faiss").read_index(str(directory / FILE))
        set_search_parameters(index, search_parameters)
        return cls(PassageStore.open(directory), index, encoder)

    def __len__(self) -> int:
        return len(self._store)

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        if not queries:
            return []
        scores, rows = self._index.search(self._encoder.encode_queries(queries), min(topk, len(self)))
        return [
            # faiss fills up with row -1 where an inverted-list search finds too few
            [Hit(self._store[row], float(score)) for row, score in zip(r, s, strict=True) if row >= 0]
            for r, s in zip(rows, scores, strict=True)
        ]
