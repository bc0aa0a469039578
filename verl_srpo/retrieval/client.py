"""The HTTP client of POST /retrieve: pooled, patient, cached; it answers or raises RetrievalError."""

from __future__ import annotations

import asyncio
import logging
import random
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from typing import Any
from urllib.parse import urlsplit

from verl_srpo.retrieval.optional import import_extra
from verl_srpo.retrieval.passage import Passage, RetrievalError

logger = logging.getLogger(__name__)
RETRIED_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})


class HTTPRetriever:
    """Asks a retrieval server, over one pool of connections for each event loop.

    Connection errors, time-outs, 5xx and 429 are tried again up to `retries` times, after `backoff * 2**k` seconds
    (at most `max_backoff`) times a random factor between 0.5 and 1: a server may be away for half a minute or so.
    Other 4xx and answers that make no sense are not tried again. Proxy settings of the environment are not used.
    """

    def __init__(
        self,
        url: str,
        *,
        topk: int | None = None,
        timeout: float = 30.0,
        retries: int = 8,
        backoff: float = 0.25,
        max_backoff: float = 15.0,
        max_connections: int = 64,
        cache_size: int = 4096,
        sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep,
        jitter: Callable[[], float] = lambda: random.uniform(0.5, 1.0),
    ):
        """`topk`: used where a search gives none (None: the server's default). `timeout`: seconds for one attempt."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ValueError(f"the retriever's URL is {url!r}; http://host:port is expected")
        base = url.rstrip("/").removesuffix("/retrieve")
        self.url, self._health_url = f"{base}/retrieve", f"{base}/healthz"
        self._topk, self._timeout, self._retries = topk, timeout, retries
        self._backoff, self._max_backoff, self._max_connections = backoff, max_backoff, max_connections
        self._sleep, self._jitter = sleep, jitter
        self._cache: OrderedDict[tuple[str, int | None], tuple[Passage, ...]] = OrderedDict()
        self._cache_size = cache_size
        self._client: Any = None
        self._loop: asyncio.AbstractEventLoop | None = None

    async def search(self, queries: list[str], topk: int | None = None) -> list[list[Passage]]:
        """The best passages of each query; RetrievalError when the server stays down or refuses."""
        topk = topk or self._topk or None
        answers = {query: cached for query in queries if (cached := self._cached((query, topk))) is not None}
        missing = [query for query in dict.fromkeys(queries) if query not in answers]
        if missing:
            for query, passages in zip(missing, await self._ask(missing, topk), strict=True):
                answers[query] = passages
                self._remember((query, topk), passages)
        return [list(answers[query]) for query in queries]

    async def health(self) -> dict[str, Any]:
        """What GET /healthz says; RetrievalError when there is no server."""
        response = await self._patiently("GET", self._health_url, None)
        return response.json()

    async def aclose(self) -> None:
        if self._client is not None and self._loop is asyncio.get_running_loop():
            await self._client.aclose()
        self._client = None

    async def _ask(self, queries: list[str], topk: int | None) -> list[tuple[Passage, ...]]:
        body = {"queries": queries, "topk": topk, "return_scores": True}
        response = await self._patiently("POST", self.url, body)
        try:
            result = response.json()["result"]
            if len(result) != len(queries):
                raise ValueError(f"{len(result)} results for {len(queries)} queries")
            return [tuple(_passage(item) for item in items) for items in result]
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise RetrievalError(
                f"{self.url} gave an answer that makes no sense ({error!r}): {response.text[:200]!r}"
            ) from error

    async def _patiently(self, method: str, url: str, body: dict[str, Any] | None) -> Any:
        httpx = import_extra("httpx")
        trouble = ""
        for attempt in range(self._retries + 1):
            try:
                response = await self._connection().request(method, url, json=body)
            except httpx.RequestError as error:
                trouble = f"{type(error).__name__}: {error}".rstrip(": ")
            else:
                if response.status_code == 200:
                    return response
                trouble = f"status {response.status_code}: {_detail(response)}"
                if response.status_code not in RETRIED_STATUS:
                    raise RetrievalError(f"{url} refused the call with {trouble}")
            if attempt < self._retries:
                pause = min(self._backoff * 2**attempt, self._max_backoff) * self._jitter()
                logger.warning(
                    "%s: %s; attempt %d of %d, again in %.1f s", url, trouble, attempt + 1, self._retries + 1, pause
                )
                await self._sleep(pause)
        raise RetrievalError(f"{url} did not answer in {self._retries + 1} attempts; the last one: {trouble}")

    def _connection(self) -> Any:
        loop = asyncio.get_running_loop()
        if self._client is None or self._loop is not loop:
            httpx = import_extra("httpx")
            limits = httpx.Limits(
                max_connections=self._max_connections, max_keepalive_connections=self._max_connections
            )
            # waiting for a pooled connection is no fault of the server, so it has no time limit
            timeout = httpx.Timeout(self._timeout, pool=None)
            self._client = httpx.AsyncClient(limits=limits, timeout=timeout, trust_env=False)
            self._loop = loop
        return self._client

    def _cached(self, key: tuple[str, int | None]) -> tuple[Passage, ...] | None:
        if key in self._cache:
            self._cache.move_to_end(key)
        return self._cache.get(key)

    def _remember(self, key: tuple[str, int | None], passages: tuple[Passage, ...]) -> None:
        self._cache[key] = passages
        while len(self._cache) > self._cache_size:
            self._cache.popitem(last=False)


def _passage(item: dict[str, Any]) -> Passage:
    if "document" in item:
        return Passage.from_document(item["document"], item.get("score") or 0.0)
    return Passage.from_document(item)


def _detail(response: Any) -> str:
    try:
        return str(response.json()["detail"])
    except (ValueError, KeyError, TypeError):
        return response.text[:200]
