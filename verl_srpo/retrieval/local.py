"""Retrieval inside the process: the embedded default for small corpora, with the interface of the client."""

from __future__ import annotations

import json
from functools import lru_cache

from verl_srpo.retrieval.batching import QueryBatcher
from verl_srpo.retrieval.passage import DEFAULT_TOPK, Hit, Passage, RetrievalError, SearchIndex


class LocalRetriever:
    """Searches a loaded index in threads of its own; concurrent searches are answered in batches."""

    def __init__(self, index: SearchIndex, *, topk: int = DEFAULT_TOPK):
        self._topk = topk
        self._batcher = QueryBatcher(index.search, max_batch=index.max_batch, workers=index.workers)

    async def search(self, queries: list[str], topk: int | None = None) -> list[list[Passage]]:
        """The best passages of each query; RetrievalError when the index raises."""
        topk = topk or self._topk
        if topk < 0:
            raise ValueError(f"topk is {topk}; a positive number is expected")
        try:
            answers = await self._batcher.search(queries, topk)
        except Exception as error:
            raise RetrievalError(f"the search of {len(queries)} queries failed: {error}") from error
        return [[_passage(hit) for hit in hits] for hits in answers]

    async def aclose(self) -> None:
        self._batcher.close()


@lru_cache(maxsize=4096)
def _passage(hit: Hit) -> Passage:
    return Passage.from_document(json.loads(hit.document), hit.score)
