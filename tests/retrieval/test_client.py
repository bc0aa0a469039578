import asyncio
import inspect
import json
import threading
from collections.abc import Callable
from typing import Any

import fastapi
import pytest
from fastapi.responses import JSONResponse, PlainTextResponse

from verl_srpo.retrieval import HTTPRetriever, LocalRetriever, Passage, RetrievalError, Retriever, open_retriever
from verl_srpo.retrieval.server import listen, make_app

from .serving import ServerProcess, running

OK = {"result": [[{"document": {"id": "0", "contents": '"T"\nx'}, "score": 1.5}]]}
PASSAGE = Passage("0", "T", "x", 1.5)


def scripted(*answers: Any) -> tuple[Any, list[dict]]:
    """A server that gives these answers one after the other (the last one from then on), and the bodies that it got."""
    app, bodies = fastapi.FastAPI(), []

    async def retrieve(request: fastapi.Request) -> Any:
        bodies.append(await request.json())
        answer = answers[min(len(bodies), len(answers)) - 1]
        return await answer() if inspect.iscoroutinefunction(answer) else answer

    app.add_api_route("/retrieve", retrieve, methods=["POST"], response_model=None)
    return app, bodies


class Pauses:
    """Stands for asyncio.sleep: notes the pause, and does what is to be done in it."""

    def __init__(self, then: Callable[[], None] = lambda: None):
        self.seconds: list[float] = []
        self.then = then

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)
        await asyncio.to_thread(self.then)


@pytest.mark.parametrize("trouble", [500, 502, 503, 504, 429])
async def test_5xx_is_tried_again_with_growing_pauses(trouble) -> None:
    app, bodies = scripted(*[PlainTextResponse("busy", trouble)] * 3, JSONResponse(OK))
    pauses = Pauses()
    with running(app) as url:
        client = HTTPRetriever(url, backoff=0.5, max_backoff=1.5, sleep=pauses, jitter=lambda: 0.5)
        assert await client.search(["a"], 4) == [[PASSAGE]]
        await client.aclose()
    assert pauses.seconds == [0.5 * 0.5, 0.5 * 1.0, 0.5 * 1.5]
    assert bodies == [{"queries": ["a"], "topk": 4, "return_scores": True}] * 4


async def test_jitter_varies_the_pauses_between_half_and_whole() -> None:
    app, _ = scripted(PlainTextResponse("busy", 503))
    pauses = Pauses()
    with running(app) as url:
        client = HTTPRetriever(url, backoff=1.0, max_backoff=1.0, retries=12, sleep=pauses)
        with pytest.raises(RetrievalError):
            await client.search(["a"])
        await client.aclose()
    assert all(0.5 <= pause <= 1.0 for pause in pauses.seconds)
    assert len(set(pauses.seconds)) == 12


async def test_a_time_out_is_tried_again() -> None:
    asked_again = asyncio.Event()

    async def hang() -> Any:
        await asked_again.wait()
        return JSONResponse({"result": [[]]})

    async def answer() -> Any:
        asked_again.set()
        return JSONResponse(OK)

    app, bodies = scripted(hang, answer)
    with running(app) as url:
        client = HTTPRetriever(url, timeout=1.0, sleep=Pauses())
        assert await client.search(["a"]) == [[PASSAGE]]
        await client.aclose()
    assert len(bodies) == 2


async def test_a_server_that_stays_down_is_an_error_that_says_so() -> None:
    with listen("127.0.0.1", 0) as sock:
        url = f"http://127.0.0.1:{sock.getsockname()[1]}"
    pauses = Pauses()
    client = HTTPRetriever(url, retries=3, sleep=pauses)
    with pytest.raises(
        RetrievalError, match=rf"{url}/retrieve did not answer in 4 attempts; the last one: ConnectError"
    ):
        await client.search(["a"])
    assert len(pauses.seconds) == 3


async def test_a_killed_and_restarted_server_is_ridden_through(bm25_folder, bm25) -> None:
    server, once = ServerProcess(bm25_folder), threading.Lock()
    servers = [server]

    def restart() -> None:
        with once:
            if len(servers) == 1:
                servers.append(ServerProcess(bm25_folder, port=server.port))

    pauses = Pauses(restart)
    client = HTTPRetriever(server.url, sleep=pauses, cache_size=0)
    try:
        direct = LocalRetriever(bm25)
        before = await client.search(["bara gemo"], 5)
        server.kill()
        answers = await asyncio.gather(*(client.search(["bara gemo"], 5) for _ in range(16)))
        assert answers == [before] * 16 == [await direct.search(["bara gemo"], 5)] * 16
        assert pauses.seconds
        assert len(servers) == 2
    finally:
        for running_server in servers:
            running_server.kill()
        await client.aclose()


async def test_a_refusal_is_not_tried_again_and_says_why(bm25) -> None:
    pauses = Pauses()
    with running(make_app(bm25)) as url:
        client = HTTPRetriever(url, sleep=pauses)
        with pytest.raises(RetrievalError, match="status 422: topk is 1000; 1 to 100 are allowed"):
            await client.search(["a"], 1000)
        await client.aclose()
    assert pauses.seconds == []


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (PlainTextResponse("<html>login</html>"), "login"),
        (JSONResponse({"error": "x"}), "'result'"),
        (JSONResponse([1]), "makes no sense"),
        (JSONResponse({"result": []}), "0 results for 1 queries"),
        (JSONResponse({"result": [[{"document": {"id": "0"}}]]}), 'needs "contents"'),
        (JSONResponse({"result": ["Error: no index"]}), "makes no sense"),
    ],
)
async def test_an_answer_that_makes_no_sense_never_becomes_passages(answer, reason) -> None:
    app, _ = scripted(answer)
    with running(app) as url:
        client = HTTPRetriever(url, retries=0)
        with pytest.raises(RetrievalError, match=reason):
            await client.search(["a"])
        await client.aclose()


async def test_answers_without_scores_are_read_too() -> None:
    app, _ = scripted(JSONResponse({"result": [[{"id": 0, "contents": '"T"\nx'}]]}))
    with running(app) as url:
        client = HTTPRetriever(f"{url}/retrieve")
        assert await client.search(["a"]) == [[Passage("0", "T", "x", 0.0)]]
        await client.aclose()


async def test_equal_queries_are_asked_once_and_the_cache_forgets_the_oldest() -> None:
    def answer(count: int) -> Any:
        return JSONResponse({"result": OK["result"] * count})

    app, bodies = scripted(answer(2), answer(1), answer(1), answer(1))
    with running(app) as url:
        client = HTTPRetriever(url, cache_size=2)
        assert await client.search(["a", "b", "a"]) == [[PASSAGE]] * 3
        assert await client.search(["a"]) == [[PASSAGE]]
        await client.search(["a", "c"])  # a is fresher than b: b is forgotten
        await client.search(["a"])
        await client.search(["b"])
        await client.search(["b"], 5)  # another topk is another question
        await client.aclose()
    assert [body["queries"] for body in bodies] == [["a", "b"], ["c"], ["b"], ["b"]]


async def test_errors_are_not_cached() -> None:
    app, bodies = scripted(PlainTextResponse("no", 400), JSONResponse(OK))
    with running(app) as url:
        client = HTTPRetriever(url, retries=0)
        with pytest.raises(RetrievalError):
            await client.search(["a"])
        assert await client.search(["a"]) == [[PASSAGE]]
        await client.aclose()
    assert len(bodies) == 2


def test_one_client_serves_one_event_loop_after_another(bm25) -> None:
    with running(make_app(bm25)) as url:
        client = HTTPRetriever(url, cache_size=0)
        assert asyncio.run(client.search(["bara"])) == asyncio.run(client.search(["bara"]))
        assert asyncio.run(client.health())["passages"] == 200


@pytest.mark.parametrize("url", ["127.0.0.1:8000", "ftp://host", "http://"])
def test_a_bad_url_is_refused(url) -> None:
    with pytest.raises(ValueError, match=r"http://host:port is expected"):
        HTTPRetriever(url)


async def test_open_retriever_takes_a_url_a_folder_and_a_corpus(bm25, bm25_folder, corpus) -> None:
    with running(make_app(bm25)) as url:
        retrievers = [open_retriever(spec, topk=4) for spec in (url, str(bm25_folder), str(corpus))]
        answers = [await retriever.search(["bara gemo", " "]) for retriever in retrievers]
        assert all(isinstance(retriever, Retriever) for retriever in retrievers)
        for retriever in retrievers:
            await retriever.aclose()
    assert answers[0] == answers[1] == answers[2]
    assert [len(passages) for passages in answers[0]] == [4, 0]
    assert answers[0][0][0] == Passage.from_document(
        json.loads((hit := bm25.search(["bara gemo"], 1)[0][0]).document), hit.score
    )


def test_open_retriever_refuses_what_is_neither(tmp_path) -> None:
    with pytest.raises(FileNotFoundError, match="does not exist; an index folder or a corpus"):
        open_retriever(str(tmp_path / "absent"))
    (tmp_path / "corpus.csv").write_text("x")
    with pytest.raises(ValueError, match="neither an index folder nor a corpus"):
        open_retriever(str(tmp_path / "corpus.csv"))


async def test_an_error_of_an_in_process_index_is_a_retrieval_error() -> None:
    class Broken:
        kind, workers, max_batch = "broken", 1, 64

        def __len__(self) -> int:
            return 1

        def search(self, queries: list[str], topk: int) -> Any:
            raise OSError("the disk is gone")

    retriever = LocalRetriever(Broken())
    with pytest.raises(RetrievalError, match="the search of 1 queries failed: the disk is gone"):
        await retriever.search(["a"])
    with pytest.raises(ValueError, match="topk is -1"):
        await retriever.search(["a"], -1)
    await retriever.aclose()
    with pytest.raises(RetrievalError, match="closed"):
        await retriever.search(["a"])
