"""Concurrent searches answered together: one worker takes whatever waits, so an idle index adds no delay."""

from __future__ import annotations

import asyncio
import logging
import queue
import threading
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


class _Request(NamedTuple):
    queries: list[str]
    topk: int
    future: Future[list[list[Hit]]]


class QueryBatcher:
    """Puts the searches of many tasks or threads into batches of about `max_batch` queries for one `search`.

    Within a batch equal queries are searched once, and blank ones not at all (their answer is empty). A batch that
    raises is repeated request by request, so that one request's error stays its own. Usable from any event loop.
    """

    def __init__(self, search: Search, *, max_batch: int = 256, max_pending: int = 16384):
        self._search, self._max_batch, self._max_pending = search, max_batch, max_pending
        self._queue: queue.SimpleQueue[_Request | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._pending = self._answered = self._batches = 0
        self._closed = False
        self._worker = threading.Thread(target=self._work, name="query-batcher", daemon=True)
        self._worker.start()

    @property
    def statistics(self) -> dict[str, int]:
        return {"pending": self._pending, "answered": self._answered, "batches": self._batches}

    async def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        return await asyncio.wrap_future(self.submit(queries, topk))

    def submit(self, queries: Sequence[str], topk: int) -> Future[list[list[Hit]]]:
        """Raises Overloaded when `max_pending` queries wait already, Closed after `close`."""
        future: Future[list[list[Hit]]] = Future()
        with self._lock:
            if self._closed:
                raise Closed("the retriever is closed")
            if self._pending and self._pending + len(queries) > self._max_pending:
                raise Overloaded(f"{self._pending} queries wait, at most {self._max_pending} may")
            self._pending += len(queries)
            self._queue.put(_Request(list(queries), topk, future))
        return future

    def close(self) -> None:
        """Answer what waits, then stop."""
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._queue.put(None)
        self._worker.join()

    def _work(self) -> None:
        while (batch := self._next_batch()) is not None:
            wanted = [request for request in batch if request.future.set_running_or_notify_cancel()]
            self._answer(wanted)
            with self._lock:
                self._batches += 1
                self._pending -= sum(len(request.queries) for request in batch)
                self._answered += sum(len(request.queries) for request in wanted)

    def _next_batch(self) -> list[_Request] | None:
        request = self._queue.get()
        if request is None:
            return None
        batch, size = [request], len(request.queries)
        while size < self._max_batch and not self._queue.empty():
            request = self._queue.get()
            if request is None:
                self._queue.put(None)
                break
            batch.append(request)
            size += len(request.queries)
        return batch

    def _answer(self, requests: list[_Request]) -> None:
        try:
            answers = self._search_together(requests)
        except Exception as error:
            if len(requests) > 1:
                for request in requests:
                    self._answer([request])
                return
            logger.exception("a search of %d queries failed", len(requests[0].queries))
            requests[0].future.set_exception(error)
            return
        for request, answer in zip(requests, answers, strict=True):
            request.future.set_result(answer)

    def _search_together(self, requests: list[_Request]) -> list[list[list[Hit]]]:
        distinct = list(dict.fromkeys(q for request in requests for q in request.queries if q.strip()))
        topk = max((request.topk for request in requests), default=1)
        hits = dict(zip(distinct, self._search(distinct, topk), strict=True)) if distinct else {}
        return [[hits.get(query, [])[: request.topk] for query in request.queries] for request in requests]
