"""POST /retrieve: what a body may hold, in both dialects, and what an answer looks like."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from verl_srpo.retrieval.passage import DEFAULT_TOPK, Hit

FIELDS = ("queries", "query", "topk", "return_scores")


@dataclass(frozen=True)
class Limits:
    """What one call may ask for; a falsy topk means `default_topk`."""

    default_topk: int = DEFAULT_TOPK
    max_topk: int = 100
    max_queries: int = 4096
    max_query_chars: int = 8192
    max_body_bytes: int = 16 * 2**20

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value < 1:
                raise ValueError(f"{name} is {value}; at least 1 is expected")
        if self.default_topk > self.max_topk:
            raise ValueError(f"default_topk is {self.default_topk}, more than max_topk = {self.max_topk}")


@dataclass(frozen=True)
class RetrieveRequest:
    queries: list[str]
    topk: int
    return_scores: bool


class BadRequest(ValueError):
    """A body that is refused, with its status (4xx) and the field at fault."""

    def __init__(self, field: str, message: str, status: int = 422):
        super().__init__(message)
        self.field, self.status = field, status


def parse_request(body: bytes, limits: Limits) -> RetrieveRequest:
    """Read a body of either dialect; BadRequest names the field, its value and what is allowed."""
    try:
        record = json.loads(body)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise BadRequest("body", f"the body is not JSON: {error}", 400) from None
    if not isinstance(record, dict):
        raise BadRequest("body", f"the body is {_shown(record)}; an object with one of queries, query is expected")
    unknown = sorted(set(record) - set(FIELDS))
    if unknown:
        raise BadRequest(unknown[0], f"{unknown[0]!r} is no field of this call; the fields are {', '.join(FIELDS)}")
    return RetrieveRequest(_queries(record, limits), _topk(record, limits), _return_scores(record))


def _queries(record: dict[str, Any], limits: Limits) -> list[str]:
    queries: Any = record.get("queries")
    query: Any = record.get("query")
    if (queries is None) == (query is None):
        given = "both are given" if query is not None else "neither is given"
        raise BadRequest("queries", f"exactly one of queries (a list) and query (a string) is expected, {given}")
    if queries is None:
        queries, place = [query], "query"
    else:
        place = "queries[{}]"
        if not isinstance(queries, list):
            raise BadRequest("queries", f"queries is {_shown(queries)}; a list of strings is expected")
    if len(queries) > limits.max_queries:
        raise BadRequest(
            "queries", f"queries has {len(queries)} entries; at most {limits.max_queries} are allowed", 413
        )
    for index, text in enumerate(queries):
        name = place.format(index)
        if not isinstance(text, str):
            raise BadRequest(name, f"{name} is {_shown(text)}; a string is expected")
        if len(text) > limits.max_query_chars:
            message = f"{name} has {len(text)} characters; at most {limits.max_query_chars} are allowed"
            raise BadRequest(name, message, 413)
    return queries


def _topk(record: dict[str, Any], limits: Limits) -> int:
    topk = record.get("topk")
    if not topk:
        return limits.default_topk
    if isinstance(topk, bool) or not isinstance(topk, int):
        raise BadRequest("topk", f"topk is {_shown(topk)}; an integer or null is expected")
    if not 1 <= topk <= limits.max_topk:
        raise BadRequest("topk", f"topk is {topk}; 1 to {limits.max_topk} are allowed")
    return topk


def _return_scores(record: dict[str, Any]) -> bool:
    value = record.get("return_scores")
    if value is not None and not isinstance(value, bool):
        raise BadRequest("return_scores", f"return_scores is {_shown(value)}; true or false is expected")
    return bool(value)


def _shown(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + "..."


def render_answer(answers: list[list[Hit]], return_scores: bool) -> bytes:
    """`{"result": [[item, ...] per query]}`; the documents' JSON is taken from the index as it is."""
    if return_scores:
        rendered = (
            b",".join(b'{"document":%b,"score":%b}' % (hit.document, repr(hit.score).encode()) for hit in hits)
            for hits in answers
        )
    else:
        rendered = (b",".join(hit.document for hit in hits) for hits in answers)
    return b'{"result":[' + b",".join(b"[" + items + b"]" for items in rendered) + b"]}"
