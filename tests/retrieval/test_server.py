import asyncio
import json
import random
import signal
import threading
from collections.abc import Sequence

import httpx
import pytest

from verl_srpo.retrieval.passage import Hit
from verl_srpo.retrieval.protocol import Limits
from verl_srpo.retrieval.server import listen, make_app

from .conftest import WORDS
from .serving import ServerProcess, running, running_server


class HeldIndex:
    """One document for every query, given once `release` is set."""

    kind, workers, max_batch = "held", 1, 64

    def __init__(self) -> None:
        self.entered, self.release = threading.Event(), threading.Event()

    def __len__(self) -> int:
        return 1

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]:
        self.entered.set()
        assert self.release.wait(30)
        if "poison" in queries:
            raise RuntimeError("the index cannot stand this")
        return [[Hit(b'{"id": "0", "contents": "x"}', 1.0)] for _ in queries]


@pytest.fixture(scope="module")
def url(bm25):
    with running(make_app(bm25, limits=Limits(max_topk=10, max_body_bytes=4096))) as url:
        yield url


def expected(bm25, queries: list[str], topk: int, scores: bool) -> list:
    answers = [bm25.search([query], topk)[0] for query in queries]
    if scores:
        return [[{"document": json.loads(h.document), "score": h.score} for h in hits] for hits in answers]
    return [[json.loads(hit.document) for hit in hits] for hits in answers]


@pytest.mark.parametrize("topk", [None, 0, 1, 7])
@pytest.mark.parametrize("scores", [True, False])
def test_both_dialects_of_one_query_get_the_same_answer(url, bm25, topk, scores) -> None:
    bodies = [{"queries": ["bara gemo"]}, {"query": "bara gemo"}]
    for body in bodies:
        response = httpx.post(f"{url}/retrieve", json={**body, "topk": topk, "return_scores": scores})
        assert response.status_code == 200
        assert response.json() == {"result": expected(bm25, ["bara gemo"], topk or 3, scores)}
        assert len(response.json()["result"][0]) == (topk or 3)


async def test_64_concurrent_clients_of_both_dialects(url, bm25) -> None:
    async def one_client(number: int) -> int:
        rng = random.Random(number)
        async with httpx.AsyncClient(base_url=url, timeout=60, verify=False) as client:
            for _ in range(8):
                queries = [" ".join(rng.sample(WORDS, 3)) for _ in range(1 if number % 2 else rng.randint(1, 5))]
                topk, scores = rng.randint(1, 10), rng.random() < 0.5
                body = {"query": queries[0]} if number % 2 else {"queries": queries}
                response = await client.post("/retrieve", json={**body, "topk": topk, "return_scores": scores})
                assert response.json() == {"result": expected(bm25, queries, topk, scores)}
        return number

    assert await asyncio.gather(*map(one_client, range(64))) == list(range(64))


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        (b"{", 400, "body"),
        (b'{"query": 3}', 422, "query"),
        (b'{"query": "a", "topk": 11}', 422, "topk"),
        (b'{"query": "a", "limit": 11}', 422, "limit"),
        (b" " * 4097, 413, "body"),
    ],
)
def test_bad_bodies_get_a_4xx_that_names_the_field(url, body, status, field) -> None:
    response = httpx.post(f"{url}/retrieve", content=body)
    assert (response.status_code, response.json()["field"]) == (status, field)
    assert len(response.json()["detail"]) > 20
    assert httpx.post(f"{url}/retrieve", json={"query": "bara"}).status_code == 200


def test_a_body_without_a_length_is_limited_too(url) -> None:
    response = httpx.post(f"{url}/retrieve", content=(b" " * 1000 for _ in range(6)))
    assert (response.status_code, response.json()["field"]) == (413, "body")


def test_healthz_and_the_other_routes(url) -> None:
    health = httpx.get(f"{url}/healthz").json()
    assert (health["status"], health["kind"], health["passages"]) == ("ok", "bm25", 200)
    assert httpx.get(f"{url}/retrieve").status_code == 405
    schema = httpx.get(f"{url}/openapi.json").json()["paths"]["/retrieve"]["post"]["requestBody"]
    assert set(schema["content"]["application/json"]["schema"]["properties"]) == {
        "queries",
        "query",
        "topk",
        "return_scores",
    }


def test_a_failing_index_gives_500_and_the_next_call_is_answered() -> None:
    index = HeldIndex()
    index.release.set()
    with running(make_app(index)) as url:
        response = httpx.post(f"{url}/retrieve", json={"query": "poison"})
        assert (response.status_code, response.json()["detail"]) == (
            500,
            "the search failed: the index cannot stand this",
        )
        assert httpx.post(f"{url}/retrieve", json={"query": "a"}).json() == {"result": [[{"id": "0", "contents": "x"}]]}


async def test_an_overloaded_server_says_503() -> None:
    index = HeldIndex()
    with running(make_app(index, max_pending=1)) as url:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            first = asyncio.create_task(client.post("/retrieve", json={"query": "a"}))
            await asyncio.to_thread(index.entered.wait, 30)
            refused = await client.post("/retrieve", json={"query": "b"})
            assert (refused.status_code, refused.json()["detail"]) == (503, "1 queries wait, at most 1 may")
            index.release.set()
            assert (await first).status_code == 200


async def test_a_call_in_flight_is_answered_before_the_server_ends(monkeypatch) -> None:
    index = HeldIndex()
    with running_server(make_app(index)) as (url, server):
        end = server.shutdown

        async def release_and_end(sockets=None):
            index.release.set()  # only now, when the server has begun to shut down, can the search finish
            await end(sockets)

        monkeypatch.setattr(server, "shutdown", release_and_end)
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            call = asyncio.create_task(client.post("/retrieve", json={"query": "a"}))
            await asyncio.to_thread(index.entered.wait, 30)
            server.should_exit = True
            assert (await call).status_code == 200


def test_the_command_serves_on_loopback_says_the_memory_and_ends_on_sigterm(bm25_folder, bm25) -> None:
    server = ServerProcess(bm25_folder, "--topk", "2", "--max-topk", "4", "--max-query-chars", "9")
    try:
        assert server.lines[0].startswith(f"{bm25_folder} needs about ")
        assert "are available" in server.lines[0]
        assert server.lines[-1] == f"ready: bm25 index of 200 passages at http://127.0.0.1:{server.port}/retrieve\n"
        response = httpx.post(f"{server.url}/retrieve", json={"query": "bara gemo"})
        assert response.json() == {"result": expected(bm25, ["bara gemo"], 2, False)}
        assert httpx.post(f"{server.url}/retrieve", json={"query": "a", "topk": 5}).status_code == 422
        assert httpx.post(f"{server.url}/retrieve", json={"query": "a" * 10}).status_code == 413
    finally:
        status = server.terminate()
    assert status in (0, -signal.SIGTERM)


def test_a_port_in_use_is_named() -> None:
    with listen("127.0.0.1", 0) as sock:
        sock.listen()
        port = sock.getsockname()[1]
        with pytest.raises(OSError, match=rf"cannot listen on 127.0.0.1:{port} .*choose another --port"):
            listen("127.0.0.1", port)
