import json

import pytest

from verl_srpo.retrieval.passage import Hit
from verl_srpo.retrieval.protocol import BadRequest, Limits, RetrieveRequest, parse_request, render_answer

LIMITS = Limits(default_topk=3, max_topk=10, max_queries=4, max_query_chars=20)


def parse(body: object) -> RetrieveRequest:
    return parse_request(json.dumps(body).encode(), LIMITS)


def test_both_dialects() -> None:
    assert parse({"queries": ["a", "b"], "topk": 5, "return_scores": True}) == RetrieveRequest(["a", "b"], 5, True)
    assert parse({"query": "a", "topk": 5, "return_scores": True}) == RetrieveRequest(["a"], 5, True)
    assert parse({"query": "a"}) == RetrieveRequest(["a"], 3, False)
    assert parse({"queries": ["a"], "query": None, "topk": None, "return_scores": None}) == parse({"queries": ["a"]})
    assert parse({"queries": []}).queries == []


@pytest.mark.parametrize("topk", [None, 0, False, ""])
def test_a_falsy_topk_means_the_default(topk) -> None:
    assert parse({"query": "a", "topk": topk}).topk == 3


@pytest.mark.parametrize(
    ("body", "field", "status", "message"),
    [
        ([1], "body", 422, "the body is [1]; an object with one of queries, query is expected"),
        ({}, "queries", 422, "exactly one of queries (a list) and query (a string) is expected, neither is given"),
        ({"queries": ["a"], "query": "a"}, "queries", 422, "both are given"),
        ({"queries": "a"}, "queries", 422, 'queries is "a"; a list of strings is expected'),
        ({"queries": ["a", 7]}, "queries[1]", 422, "queries[1] is 7; a string is expected"),
        ({"query": ["a"]}, "query", 422, 'query is ["a"]; a string is expected'),
        ({"query": "x" * 21}, "query", 413, "query has 21 characters; at most 20 are allowed"),
        ({"queries": ["a"] * 5}, "queries", 413, "queries has 5 entries; at most 4 are allowed"),
        ({"query": "a", "topk": 11}, "topk", 422, "topk is 11; 1 to 10 are allowed"),
        ({"query": "a", "topk": -1}, "topk", 422, "topk is -1; 1 to 10 are allowed"),
        ({"query": "a", "topk": "3"}, "topk", 422, 'topk is "3"; an integer or null is expected'),
        ({"query": "a", "topk": True}, "topk", 422, "topk is true; an integer or null is expected"),
        ({"query": "a", "topk": 2.5}, "topk", 422, "topk is 2.5; an integer or null is expected"),
        ({"query": "a", "return_scores": "yes"}, "return_scores", 422, 'return_scores is "yes"; true or false'),
        ({"query": "a", "top_k": 5}, "top_k", 422, "'top_k' is no field of this call; the fields are queries, query"),
    ],
)
def test_bad_bodies_name_field_value_and_limit(body, field, status, message) -> None:
    with pytest.raises(BadRequest) as caught:
        parse(body)
    assert (caught.value.field, caught.value.status) == (field, status)
    assert message in str(caught.value)


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"queries=a"])
def test_what_is_no_json_is_refused(body: bytes) -> None:
    with pytest.raises(BadRequest, match="the body is not JSON") as caught:
        parse_request(body, LIMITS)
    assert caught.value.status == 400


def test_answers_with_and_without_scores() -> None:
    documents = [{"id": "0", "contents": '"Ü"\nx', "more": [1]}, {"id": "1", "contents": "y"}]
    hits = [Hit(json.dumps(document).encode(), score) for document, score in zip(documents, (2.5, 1e-12), strict=True)]
    assert json.loads(render_answer([hits, []], False)) == {"result": [documents, []]}
    scored = [{"document": documents[0], "score": 2.5}, {"document": documents[1], "score": 1e-12}]
    assert json.loads(render_answer([hits, [], hits[:1]], True)) == {"result": [scored, [], scored[:1]]}
    assert json.loads(render_answer([], True)) == {"result": []}


def test_bad_limits_are_refused() -> None:
    with pytest.raises(ValueError, match="max_queries is 0; at least 1"):
        Limits(max_queries=0)
    with pytest.raises(ValueError, match="default_topk is 200, more than max_topk = 100"):
        Limits(default_topk=200)
