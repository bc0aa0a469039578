import json
import math
from collections import Counter
from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_srpo.retrieval.bm25 import K1, B, BM25Index, build_bm25, make_analyzer
from verl_srpo.retrieval.store import PassageStore
from verl_srpo.retrieval.world import WorldSettings, make_world

from .conftest import document

VOCABULARY = ["ash", "birch", "cedar", "dogwood", "elm", "fir", "gum"]


def stored_length(length: int) -> int:
    """A document's length as one byte keeps it: exact to 40, then the largest multiple of a power of two that fits."""
    kept = [0]
    for code in range(1, 256):
        code -= 24
        kept.append(code + 24 if code < 8 else 24 + ((code & 7 | 8) << ((code >> 3) - 1)))
    return max(value for value in kept if value <= length)


def reference_scores(documents: Sequence[list[str]], query: list[str]) -> list[float]:
    """BM25 of every document, term by term."""
    average = sum(map(len, documents)) / len(documents)
    scores = []
    for words in documents:
        counts, score = Counter(words), 0.0
        for term in query:
            containing = sum(term in other for other in documents)
            idf = math.log(1 + (len(documents) - containing + 0.5) / (containing + 0.5))
            norm = K1 * (1 - B + B * stored_length(len(words)) / average)
            score += idf * (K1 + 1) * counts[term] / (counts[term] + norm)
        scores.append(score)
    return scores


def assert_reference_ranking(corpus: list[list[str]], query: list[str], topk: int) -> None:
    lines = [document(i, "", " ".join(words)) for i, words in enumerate(corpus)]
    index = BM25Index.in_memory(PassageStore.in_memory(lines), analyzer="plain")
    (hits,) = index.search([" ".join(query)], topk)
    scores = reference_scores(corpus, query)
    expected = sorted((row for row in range(len(corpus)) if scores[row] > 0), key=lambda row: (-scores[row], row))
    found = [int(json.loads(hit.document)["id"]) for hit in hits]
    assert len(found) == len(set(found)) == min(topk, len(expected))
    for hit, row, right in zip(hits, found, expected, strict=False):
        assert hit.score == pytest.approx(scores[row], rel=1e-4)
        assert scores[row] == pytest.approx(scores[right], rel=1e-4)  # the same row, or one of equal score


words = st.sampled_from(VOCABULARY)


@settings(max_examples=40, deadline=None)
@given(
    corpus=st.lists(st.lists(words, min_size=1, max_size=70), min_size=1, max_size=40),
    query=st.lists(words, min_size=1, max_size=6),
    topk=st.integers(1, 12),
)
def test_ranking_equals_a_plain_reference(corpus: list[list[str]], query: list[str], topk: int) -> None:
    assert_reference_ranking(corpus, query, topk)


def test_ranking_equals_the_reference_on_long_documents() -> None:
    corpus = [["ash"] * (1 + i % 7) + ["birch"] * (37 * i % 900) + ["cedar"] * (i % 3) for i in range(120)]
    assert_reference_ranking(corpus, ["ash", "cedar", "ash"], 50)


@settings(max_examples=20, deadline=None)
@given(count=st.integers(1, 400), topk=st.integers(1, 5))
def test_equal_scores_come_in_the_order_of_the_corpus(count: int, topk: int) -> None:
    index = BM25Index.in_memory(PassageStore.in_memory([document(i, "", "ash elm") for i in range(count)]))
    (hits,) = index.search(["elm"], topk)
    assert [json.loads(hit.document)["id"] for hit in hits] == [str(i) for i in range(min(count, topk))]


QUERY_SYNTAX = [
    "C++? [a:b]",
    "ash AND",
    '"ash',
    "ash~2 ^4 (",
    "*",
    "-ash +birch",
    "contents:ash",
    "/x/",
    "\x00",
    "东京 ash",
]


@pytest.mark.parametrize("query", QUERY_SYNTAX)
def test_no_character_of_a_query_has_a_meaning(query: str) -> None:
    index = BM25Index.in_memory(PassageStore.in_memory([document(0, "", "ash"), document(1, "", "birch")]))
    found = {json.loads(hit.document)["id"] for hit in index.search([query], 3)[0]}
    assert found == {str(row) for row, word in enumerate(("ash", "birch")) if word in query}


def test_analyzers() -> None:
    assert make_analyzer("plain").analyze("The Müllers' running-dogs 1905") == [
        "the",
        "mullers",
        "running",
        "dogs",
        "1905",
    ]
    assert make_analyzer("english").analyze("The Müllers' running-dogs 1905") == ["muller", "run", "dog", "1905"]
    with pytest.raises(ValueError, match="analyzer is 'german'; one of english, plain is expected"):
        make_analyzer("german")


def test_many_queries_at_once_equal_one_after_the_other(bm25, documents) -> None:
    queries = [json.loads(line)["contents"] for line in documents]
    assert bm25.search(queries, 4) == [bm25.search([query], 4)[0] for query in queries]
    assert [json.loads(hits[0].document)["id"] for hits in bm25.search(queries, 1)] == list(map(str, range(200)))


def test_several_indexing_threads_give_the_same_ranking(tmp_path) -> None:
    lines = [line.encode() for line in make_world(WorldSettings()).corpus_lines()]
    store = PassageStore.write(lines, tmp_path)
    build_bm25(store, tmp_path, threads=3)
    threaded = BM25Index.open(tmp_path, analyzer="english")
    queries = ["born in Pine Creek", "founded by Ada", "mayor", "trade clerk"]
    rankings = [
        [[json.loads(hit.document)["id"] for hit in hits] for hits in index.search(queries, 5)]
        for index in (threaded, BM25Index.in_memory(store))
    ]
    assert rankings[0] == rankings[1]
