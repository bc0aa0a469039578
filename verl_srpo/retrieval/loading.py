"""From a place (URL, index folder, corpus file) to a retriever or a loaded index."""

from __future__ import annotations

from pathlib import Path

from verl_srpo.retrieval.client import HTTPRetriever
from verl_srpo.retrieval.corpus import CorpusReader
from verl_srpo.retrieval.index_directory import read_manifest
from verl_srpo.retrieval.local import LocalRetriever
from verl_srpo.retrieval.memory import PROCESS_BYTES, MemoryNeed, index_memory, require_memory
from verl_srpo.retrieval.passage import DEFAULT_TOPK, Retriever, SearchIndex
from verl_srpo.retrieval.store import PassageStore

CORPUS_ENDINGS = (".jsonl", ".jsonl.gz")
BYTES_IN_MEMORY = 3  # a corpus indexed in memory takes about three times its file


def memory_need(path: Path) -> MemoryNeed:
    """What `load_index` will need for an index folder or a corpus file."""
    if path.is_dir():
        return index_memory(read_manifest(path))
    size = path.stat().st_size * BYTES_IN_MEMORY * (4 if path.suffix == ".gz" else 1)
    return MemoryNeed(resident=PROCESS_BYTES + size, mapped=0, passages=0)


def load_index(
    path: Path,
    *,
    threads: int | None = None,
    encoder: str | None = None,
    device: str | None = None,
    search_parameters: str | None = None,
) -> SearchIndex:
    """Load an index folder, or index a small corpus file by BM25 in memory.

    `threads`: of the search; None means up to 8 for BM25, and for dense what torch and faiss choose (a number is a
    setting of the whole process there). `encoder` (where the same model lies now), `device` and `search_parameters`
    replace what a dense index was made with.
    Raises NotEnoughMemory before anything is loaded, IndexFolderError for a folder that is no whole index, CorpusError
    for bad lines.
    """
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; an index folder or a corpus (.jsonl) is expected")
    if path.is_file() and not path.name.endswith(CORPUS_ENDINGS):
        raise ValueError(f"{path} is neither an index folder nor a corpus ({', '.join(CORPUS_ENDINGS)})")
    require_memory(memory_need(path), str(path))
    if path.is_file():
        from verl_srpo.retrieval.bm25 import BM25Index

        return BM25Index.in_memory(PassageStore.in_memory(CorpusReader(path)), threads=threads)
    settings = read_manifest(path).settings
    if read_manifest(path).kind == "bm25":
        from verl_srpo.retrieval.bm25 import BM25Index

        return BM25Index.open(path, analyzer=settings["analyzer"], threads=threads)
    from verl_srpo.retrieval.dense import DenseIndex, limit_threads
    from verl_srpo.retrieval.encoder import EncoderSettings, TextEncoder

    if threads is not None:
        limit_threads(threads)
    recorded = settings["encoder"]
    here = {"model": encoder or recorded["model"], "device": device or recorded["device"]}
    text_encoder = TextEncoder(EncoderSettings(**{**recorded, **here}))
    parameters = settings["search_parameters"] if search_parameters is None else search_parameters
    return DenseIndex.open(path, text_encoder, search_parameters=parameters)


def open_retriever(spec: str, *, topk: int = DEFAULT_TOPK) -> Retriever:
    """The retriever that `spec` names: `http://host:port` (a server), an index folder, or a corpus file (.jsonl).

    `topk`: how many passages a search gets that does not say.
    """
    if spec.startswith(("http://", "https://")):
        return HTTPRetriever(spec, topk=topk)
    return LocalRetriever(load_index(Path(spec).expanduser()), topk=topk)
