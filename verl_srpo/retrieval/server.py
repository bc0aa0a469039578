"""The retrieval server: POST /retrieve in both dialects and GET /healthz, over any loaded index."""

from __future__ import annotations

import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from verl_srpo.retrieval.batching import Closed, Overloaded, QueryBatcher
from verl_srpo.retrieval.optional import import_extra
from verl_srpo.retrieval.passage import SearchIndex
from verl_srpo.retrieval.protocol import BadRequest, Limits, parse_request, render_answer

logger = logging.getLogger(__name__)
KEEP_ALIVE_S, SHUTDOWN_S = 75, 30

REQUEST_SCHEMA = {
    "type": "object",
    "description": "Exactly one of queries and query.",
    "properties": {
        "queries": {"type": "array", "items": {"type": "string"}},
        "query": {"type": "string"},
        "topk": {"type": ["integer", "null"], "description": "falsy: the server's default"},
        "return_scores": {"type": "boolean", "default": False},
    },
}


def make_app(
    index: SearchIndex, *, limits: Limits | None = None, max_batch: int | None = None, max_pending: int = 16384
) -> Any:
    """The FastAPI application; it answers what it has taken before it shuts down.

    `max_batch`: queries that one worker searches together (None: as many as suit the index).
    """
    fastapi = import_extra("fastapi")
    limits = limits or Limits()
    batcher = QueryBatcher(
        index.search, max_batch=max_batch or index.max_batch, max_pending=max_pending, workers=index.workers
    )

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        yield
        batcher.close()

    app = fastapi.FastAPI(title="verl-srpo retriever", lifespan=lifespan)

    def refusal(status: int, message: str, field: str | None = None) -> Any:
        content = {"detail": message} if field is None else {"detail": message, "field": field}
        return fastapi.responses.JSONResponse(content, status_code=status)

    async def retrieve(request: Any) -> Any:
        try:
            wanted = parse_request(await _read_body(request, limits.max_body_bytes), limits)
            answers = await batcher.search(wanted.queries, wanted.topk)
        except BadRequest as error:
            return refusal(error.status, str(error), error.field)
        except (Overloaded, Closed) as error:
            return refusal(503, str(error))
        except Exception as error:
            logger.exception("POST /retrieve failed")
            return refusal(500, f"the search failed: {error}")
        body = render_answer(answers, wanted.return_scores)
        return fastapi.Response(body, media_type="application/json")

    async def healthz() -> dict[str, Any]:
        return {"status": "ok", "kind": index.kind, "passages": len(index), **batcher.statistics}

    # annotated by hand, because this module must be importable without FastAPI
    retrieve.__annotations__ = {"request": fastapi.Request, "return": fastapi.Response}
    body_schema = {"requestBody": {"required": True, "content": {"application/json": {"schema": REQUEST_SCHEMA}}}}
    app.add_api_route("/retrieve", retrieve, methods=["POST"], openapi_extra=body_schema, response_model=None)
    app.add_api_route("/healthz", healthz, methods=["GET"])
    return app


async def _read_body(request: Any, max_bytes: int) -> bytes:
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > max_bytes:
            raise BadRequest("body", f"the body has more than {max_bytes} bytes, which are allowed", 413)
    return bytes(body)


def listen(host: str, port: int) -> socket.socket:
    """A bound socket (`port` 0: any free one); OSError names the address and the way out."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
    except OSError as error:
        sock.close()
        raise OSError(f"cannot listen on {host}:{port} ({error.strerror or error}): choose another --port") from error
    return sock


def make_server(app: Any, *, on_ready: Callable[[], None] | None = None) -> Any:
    """A uvicorn server for `app`: `.run(sockets=[sock])` blocks until SIGINT or SIGTERM, then drains."""
    uvicorn = import_extra("uvicorn")

    class Server(uvicorn.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            if on_ready is not None:
                on_ready()

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=SHUTDOWN_S,
    )
    return Server(config)
