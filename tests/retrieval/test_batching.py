import asyncio
import threading
from collections.abc import Sequence

import pytest

from verl_srpo.retrieval.batching import Closed, Overloaded, QueryBatcher
from verl_srpo.retrieval.passage import Hit


class RecordingSearch:
    """Answers `topk` hits named after the query; the first call waits until it is let go."""

    def __init__(self, hold_first: bool = True):
        self.calls: list[tuple[list[str], int]] = []
        self.entered, self.release = threading.Event(), threading.Event()
        if not hold_first:
            self.release.set()

    def __call__(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        self.calls.append((list(queries), topk))
        self.entered.set()
        assert self.release.wait(30)
        if "poison" in queries:
            raise RuntimeError("the index cannot stand this")
        return [[Hit(f"{query} {rank}".encode(), float(rank)) for rank in range(topk)] for query in queries]


def names(answer: list[list[Hit]]) -> list[list[str]]:
    return [[hit.document.decode() for hit in hits] for hits in answer]


def test_what_waits_is_searched_in_one_call() -> None:
    search = RecordingSearch()
    batcher = QueryBatcher(search)
    first = batcher.submit(["a"], 1)
    assert search.entered.wait(30)
    others = [batcher.submit(queries, topk) for queries, topk in ((["b", "c"], 1), (["c", " "], 3), ([], 2))]
    assert batcher.statistics == {"pending": 4, "answered": 0, "batches": 0}
    search.release.set()
    assert names(first.result(30)) == [["a 0"]]
    assert [names(other.result(30)) for other in others] == [[["b 0"], ["c 0"]], [["c 0", "c 1", "c 2"], []], []]
    assert search.calls == [(["a"], 1), (["b", "c"], 3)]
    batcher.close()
    assert batcher.statistics == {"pending": 0, "answered": 4, "batches": 2}


def test_a_batch_ends_at_its_limit_and_limit_one_means_one_call_each() -> None:
    for limit, sizes in ((3, [1, 3, 1]), (1, [1, 1, 1, 1, 1])):
        search = RecordingSearch()
        batcher = QueryBatcher(search, max_batch=limit)
        futures = [batcher.submit(["a"], 1)]
        assert search.entered.wait(30)
        futures += [batcher.submit([query], 1) for query in "bcde"]
        search.release.set()
        assert [names(future.result(30)) for future in futures] == [[[f"{query} 0"]] for query in "abcde"]
        assert [len(queries) for queries, _ in search.calls] == sizes
        batcher.close()


def test_one_bad_request_does_not_spoil_its_batch() -> None:
    search = RecordingSearch()
    batcher = QueryBatcher(search)
    batcher.submit(["a"], 1)
    assert search.entered.wait(30)
    good, bad, other = (batcher.submit([query], 1) for query in ("b", "poison", "c"))
    search.release.set()
    assert (names(good.result(30)), names(other.result(30))) == ([["b 0"]], [["c 0"]])
    with pytest.raises(RuntimeError, match="cannot stand this"):
        bad.result(30)
    batcher.close()


def test_too_many_waiting_queries_are_refused_but_never_a_first_large_call() -> None:
    search = RecordingSearch()
    batcher = QueryBatcher(search, max_pending=3)
    first = batcher.submit(["a", "b", "c", "d"], 1)
    assert search.entered.wait(30)
    with pytest.raises(Overloaded, match="4 queries wait, at most 3 may"):
        batcher.submit(["e"], 1)
    search.release.set()
    assert len(first.result(30)) == 4
    batcher.close()


def test_a_cancelled_request_is_not_searched() -> None:
    search = RecordingSearch()
    batcher = QueryBatcher(search)
    batcher.submit(["a"], 1)
    assert search.entered.wait(30)
    assert batcher.submit(["b"], 1).cancel()
    search.release.set()
    batcher.close()
    assert search.calls == [(["a"], 1)]


def test_close_answers_what_waits_and_refuses_what_comes() -> None:
    search = RecordingSearch()
    batcher = QueryBatcher(search)
    futures = [batcher.submit([query], 1) for query in "abc"]
    threading.Thread(target=search.release.set).start()
    batcher.close()
    assert all(future.done() for future in futures)
    with pytest.raises(Closed, match="the retriever is closed"):
        batcher.submit(["d"], 1)
    batcher.close()


def test_it_serves_one_event_loop_after_another() -> None:
    batcher = QueryBatcher(RecordingSearch(hold_first=False))
    for query in "ab":
        assert names(asyncio.run(batcher.search([query], 1))) == [[f"{query} 0"]]
    batcher.close()


def test_a_long_call_is_split_over_workers_and_put_together_again() -> None:
    search = RecordingSearch()
    batcher = QueryBatcher(search, max_batch=2, workers=2)
    long = batcher.submit(list("abcdefg"), 2)
    short = batcher.submit(["x"], 1)
    search.release.set()
    assert names(long.result(30)) == [[f"{query} 0", f"{query} 1"] for query in "abcdefg"]
    assert names(short.result(30)) == [["x 0"]]
    batcher.close()
    assert sorted(query for queries, _ in search.calls for query in queries) == list("abcdefgx")
    assert max(len(queries) for queries, _ in search.calls) == 2


def test_equal_queries_of_a_call_are_searched_once_whatever_the_batch() -> None:
    search = RecordingSearch(hold_first=False)
    batcher = QueryBatcher(search, max_batch=1)
    assert names(batcher.submit(["a", "b", "", "a"], 1).result(30)) == [["a 0"], ["b 0"], [], ["a 0"]]
    batcher.close()
    assert search.calls == [(["a"], 1), (["b"], 1)]


def test_a_long_call_fails_as_a_whole_when_one_part_fails() -> None:
    batcher = QueryBatcher(RecordingSearch(hold_first=False), max_batch=2)
    call = batcher.submit(["a", "b", "poison", "c", "d"], 1)
    with pytest.raises(RuntimeError, match="cannot stand this"):
        call.result(30)
    batcher.close()
    assert batcher.statistics["pending"] == 0


def test_waiting_queries_are_shared_among_free_workers() -> None:
    both_busy = threading.Barrier(2)

    def search(queries: Sequence[str], topk: int) -> list[list[Hit]]:
        both_busy.wait(30)  # passes only when two workers search at one time
        return [[] for _ in queries]

    batcher = QueryBatcher(search, workers=2)
    futures = [batcher.submit([query], 1) for query in "ab"]
    assert [future.result(30) for future in futures] == [[[]], [[]]]
    batcher.close()
