"""Concurrent searches answered together: free workers take what waits, so an idle index adds no delay."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import NamedTuple

from verl_srpo.retrieval.passage import Hit

logger = logging.getLogger(__name__)
Search = Callable[[Sequence[str], int], list[list[Hit]]]


class Overloaded(RuntimeError):
    """More queries wait than the batcher may hold."""


class Closed(RuntimeError):
    """The batcher takes no more searches."""


class _Call:
    """One caller's queries. Its parts may be searched in different batches; blank queries need no search."""

    def __init__(self, queries: Sequence[str], topk: int):
        self.queries, self.topk = list(queries), topk
        self.distinct = list(dict.fromkeys(query for query in queries if query.strip()))
        self.found: dict[str, list[Hit]] = {}
        self.future: Future[list[list[Hit]]] = Future()

    def add(self, queries: list[str], answers: list[list[Hit]]) -> None:
        """Take the answers of a part; the last one ends the call."""
        self.found.update(zip(queries, answers, strict=True))
        if len(self.found) == len(self.distinct) and self.may_end():
            self.future.set_result([self.found.get(query, []) for query in self.queries])

    def may_end(self) -> bool:
        """Neither ended by another part nor cancelled; after this it can no longer be cancelled."""
        return not self.future.done() and self.future.set_running_or_notify_cancel()


class _Part(NamedTuple):
    call: _Call
    queries: list[str]


class QueryBatcher:
    """Puts the searches of many tasks or threads into batches for `search`, which `workers` threads call.

    A worker takes its share of the waiting queries, at most `max_batch`; a longer call is split. Within a call and
    within a batch equal queries are searched once, and blank ones not at all (their answer is empty). A batch that
    raises is repeated call by call, so that one call's error stays its own. Usable from any event loop.
    """

    def __init__(self, search: Search, *, max_batch: int = 64, max_pending: int = 16384, workers: int = 1):
        self._search, self._max_batch, self._max_pending = search, max_batch, max_pending
        self._parts: deque[_Part] = deque()
        self._changed = threading.Condition()
        self._waiting = self._pending = self._answered = self._batches = 0
        self._closed = False
        self._workers = [
            threading.Thread(target=self._work, name=f"query-batcher-{number}", daemon=True)
            for number in range(workers)
        ]
        for worker in self._workers:
            worker.start()

    @property
    def statistics(self) -> dict[str, int]:
        """Queries that are not answered yet, queries answered, and calls of `search` that this took."""
        return {"pending": self._pending, "answered": self._answered, "batches": self._batches}

    async def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        return await asyncio.wrap_future(self.submit(queries, topk))

    def submit(self, queries: Sequence[str], topk: int) -> Future[list[list[Hit]]]:
        """Raises Overloaded when `max_pending` queries wait already, Closed after `close`."""
        call = _Call(queries, topk)
        size, starts = len(call.distinct), range(0, len(call.distinct), self._max_batch)
        parts = [_Part(call, call.distinct[start : start + self._max_batch]) for start in starts]
        with self._changed:
            if self._closed:
                raise Closed("the retriever is closed")
            if self._pending and self._pending + size > self._max_pending:
                raise Overloaded(f"{self._pending} queries wait, at most {self._max_pending} may")
            self._pending += size
            self._waiting += size
            self._parts.extend(parts)
            self._changed.notify(len(parts))
        if not parts:
            call.add([], [])
        return call.future

    def close(self) -> None:
        """Answer what waits, then stop."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for worker in self._workers:
            worker.join()

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            wanted = [part for part in batch if not part.call.future.cancelled()]
            self._answer(wanted)
            with self._changed:
                self._batches += bool(wanted)
                self._pending -= sum(len(part.queries) for part in batch)
                self._answered += sum(len(part.queries) for part in wanted)

    def _next_batch(self) -> list[_Part] | None:
        with self._changed:
            while not self._parts:
                if self._closed:
                    return None
                self._changed.wait()
            share = min(self._max_batch, -(-self._waiting // len(self._workers)))
            batch, size = [], 0
            while self._parts and (not batch or size + len(self._parts[0].queries) <= share):
                batch.append(self._parts.popleft())
                size += len(batch[-1].queries)
            self._waiting -= size
            return batch

    def _answer(self, parts: list[_Part]) -> None:
        try:
            answers = self._search_together(parts)
        except Exception as error:
            if len(parts) > 1:
                for part in parts:
                    self._answer([part])
                return
            logger.exception("a search of %d queries failed", len(parts[0].queries))
            with self._changed:
                if parts[0].call.may_end():
                    parts[0].call.future.set_exception(error)
            return
        with self._changed:
            for part, answer in zip(parts, answers, strict=True):
                part.call.add(part.queries, answer)

    def _search_together(self, parts: list[_Part]) -> list[list[list[Hit]]]:
        if not parts:
            return []
        distinct = list(dict.fromkeys(query for part in parts for query in part.queries))
        hits = dict(zip(distinct, self._search(distinct, max(part.call.topk for part in parts)), strict=True))
        return [[hits[query][: part.call.topk] for query in part.queries] for part in parts]
