"""BM25 by tantivy: k1 = 1.2, b = 0.75, idf = ln(1 + (n - df + 0.5) / (df + 0.5)), one query term per token."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from verl_srpo.retrieval.corpus import Progress, silent
from verl_srpo.retrieval.optional import import_extra
from verl_srpo.retrieval.passage import Hit
from verl_srpo.retrieval.store import PassageStore

FOLDER = "tantivy"
ANALYZERS = ("english", "plain")
K1, B = 1.2, 0.75  # tantivy's, not adjustable
WRITER_BYTES = 256 * 2**20
TIE_MARGIN, TIE_EXPANSIONS, SAME_SCORE = 16, 4, 1e-5


def make_analyzer(name: str) -> Any:
    """Text -> terms. `plain`: words of letters and digits, lower case, accents folded; `english`: also without stop
    words, and stemmed."""
    tantivy = import_extra("tantivy")
    if name not in ANALYZERS:
        raise ValueError(f"analyzer is {name!r}; one of {', '.join(ANALYZERS)} is expected")
    filters = tantivy.Filter
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(filters.remove_long(64)).filter(filters.lowercase()).filter(filters.ascii_fold())
    if name == "english":
        builder = builder.filter(filters.stopword("english")).filter(filters.stemmer("english"))
    return builder.build()


def build_bm25(
    store: PassageStore,
    directory: Path | None,
    *,
    analyzer: str = "english",
    threads: int | None = None,
    progress: Progress = silent,
) -> Any:
    """Index every document of the store's `contents`, in `directory` or (None) in memory; gives tantivy's index."""
    tantivy = import_extra("tantivy")
    if directory is not None:
        (directory / FOLDER).mkdir()
    index = tantivy.Index(_schema(), path=None if directory is None else str(directory / FOLDER))
    index.register_tokenizer(analyzer_name(), make_analyzer(analyzer))
    threads = threads or default_threads()
    writer = index.writer(heap_size=max(WRITER_BYTES, 16_000_000 * threads), num_threads=threads)
    for row, document in enumerate(store):
        entry = tantivy.Document()
        entry.add_text("contents", json.loads(document)["contents"])
        entry.add_unsigned("row", row)
        writer.add_document(entry)
        if row % 1000 == 0:
            progress("indexing by BM25", row, len(store))
    writer.commit()
    writer.wait_merging_threads()
    index.reload()
    progress("indexing by BM25", len(store), len(store))
    return index


def analyzer_name() -> str:
    """The name under which the schema knows its analyzer; which one that is, the manifest says."""
    return "corpus"


def default_threads() -> int:
    return min(8, os.cpu_count() or 1)


def _schema() -> Any:
    tantivy = import_extra("tantivy")
    builder = tantivy.SchemaBuilder()
    builder.add_text_field("contents", stored=False, tokenizer_name=analyzer_name(), index_option="freq")
    builder.add_unsigned_field("row", stored=False, indexed=False, fast=True)
    return builder.build()


class BM25Index:
    """Searches a tantivy index. Queries are plain text: no character has a meaning of its own.

    Equal scores are ordered by row, so that a ranking does not depend on how tantivy laid its segments out.
    """

    kind = "bm25"
    max_batch = 1  # a query costs the same in a batch as alone: several workers do more than a batch

    def __init__(self, store: PassageStore, index: Any, *, analyzer: str = "english", threads: int | None = None):
        tantivy = import_extra("tantivy")
        self._store, self._index = store, index
        index.register_tokenizer(analyzer_name(), make_analyzer(analyzer))
        self._analyzer = make_analyzer(analyzer)
        self._searcher = index.searcher()
        self._query, self._should = tantivy.Query, tantivy.Occur.Should
        self._schema = index.schema
        self.workers = threads or default_threads()

    @classmethod
    def open(cls, directory: Path, *, analyzer: str, threads: int | None = None) -> BM25Index:
        index = import_extra("tantivy").Index.open(str(directory / FOLDER))
        return cls(PassageStore.open(directory), index, analyzer=analyzer, threads=threads)

    @classmethod
    def in_memory(cls, store: PassageStore, *, analyzer: str = "english", threads: int | None = None) -> BM25Index:
        index = build_bm25(store, None, analyzer=analyzer, threads=1)
        return cls(store, index, analyzer=analyzer, threads=threads)

    def __len__(self) -> int:
        return len(self._store)

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        return [self._search_one(query, topk) for query in queries]

    def _search_one(self, query: str, topk: int) -> list[Hit]:
        terms = self._analyzer.analyze(query)
        if not terms:
            return []
        clauses = [(self._should, self._query.term_query(self._schema, "contents", term, "freq")) for term in terms]
        hits = self._best(self._query.boolean_query(clauses), topk)
        rows = self._searcher.fast_field_values("row", [address for _, address in hits])
        ranked = sorted(zip(rows, hits, strict=True), key=lambda item: (-round(item[1][0], 4), item[0]))
        return [Hit(self._store[row], score) for row, (score, _) in ranked[:topk]]

    def _best(self, query: Any, topk: int) -> list[tuple[float, Any]]:
        """The best `topk` hits and all that tie with the last of them (as far as `TIE_EXPANSIONS` reach)."""
        hits, limit = [], topk + TIE_MARGIN
        for _ in range(TIE_EXPANSIONS):
            hits = self._searcher.search(query, limit=limit, count=False).hits
            if len(hits) < limit or hits[-1][0] < hits[topk - 1][0] * (1 - SAME_SCORE):
                break
            limit *= 4
        return hits
