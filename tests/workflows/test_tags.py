"""Strict, total parsing: the exact tags, hostile text, and no text that raises."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from verl_srpo.workflows import tags
from verl_srpo.workflows.tags import (
    Route,
    parse_answer,
    parse_boxed,
    parse_final,
    parse_route,
    parse_search,
    parse_verdict,
)

ROUTES = [
    ("<route>1</route>", Route((1,))),
    ("<route>1,3</route>", Route((1, 3))),
    ("Some thoughts.\nMore.\n<route> 3 , 1 </route>  \n", Route((1, 3))),
    ("<route>STOP</route>", Route(stop=True)),
    ("<think>maybe <route>2</route>?</think>\n<route>1</route>", Route((1,))),
    ("", None),
    ("no tag", None),
    ("1,3", None),
    ("<route></route>", None),
    ("<route>,</route>", None),
    ("<route>1,</route>", None),
    ("<route>1 2</route>", None),
    ("<route>1,1</route>", None),
    ("<route>0</route>", None),
    ("<route>4</route>", None),
    ("<route>-1</route>", None),
    ("<route>+1</route>", None),
    ("<route>01</route>", None),
    ("<route>1.0</route>", None),
    ("<route>1-3</route>", None),
    ("<route>all</route>", None),
    ("<route>stop</route>", None),
    ("<route>STOP,1</route>", None),
    ("<route>STOP STOP</route>", None),
    ("<route>٣</route>", None),  # a digit, but not ours
    ("<route>１</route>", None),
    ("<route>²</route>", None),
    ("<route>1</route> is my choice", None),
    ("my choice: <route>1</route>", None),
    ("<route>1</route>\ndone", None),
    ("<route>1</route>\n<route>2</route>", None),
    ("<route>1</route><route>2</route>", None),
    ("<route>1<route>2</route></route>", None),
    ("</route>1<route>", None),
    ("<route>1", None),
    ("<ROUTE>1</ROUTE>", None),
    ("<route >1</route>", None),
    ("<route>1\n</route>", None),
    ("<think><route>1</route>", None),
    ("<think>x</think></think><route>1</route>", None),
    ("<route>" + "9" * 5000 + "</route>", None),
    ("<route>" + ",".join(["1"] * 5000) + "</route>", None),
]


@pytest.mark.parametrize(("text", "route"), ROUTES)
def test_route(text, route):
    assert parse_route(text, 3) == route


@pytest.mark.parametrize(
    ("text", "verdict"),
    [
        ("<verify>approve</verify>", True),
        ("Looks right.\n<verify> approve </verify>\nThanks.", True),
        ("<verify>reject</verify>", False),
        ("<think>not <verify>approve</verify></think><verify>reject</verify>", False),
        ("", None),
        ("approve", None),
        ("<verify></verify>", None),
        ("<verify>Approve</verify>", None),
        ("<verify>approved</verify>", None),
        ("<verify>approve or reject</verify>", None),
        ("<verify>yes</verify>", None),
        ("<verify>approve</verify><verify>reject</verify>", None),
        ("<verify>reject</verify> no, <verify>approve</verify>", None),
        ("<verify>approve</verify></verify>", None),
        ("<verify><verify>approve</verify>", None),
        ("<verify>approve", None),
        ("</verify>approve<verify>", None),
        ("<think><verify>approve</verify></think>", None),
        ("<think><verify>approve</verify>", None),
    ],
)
def test_verdict_of_math(text, verdict):
    assert parse_verdict(text) is verdict


def test_verdict_of_search_has_words_of_its_own():
    assert parse_verdict("<verify>yes</verify>", yes="yes", no="no") is True
    assert parse_verdict("<verify>no</verify>", yes="yes", no="no") is False
    assert parse_verdict("<verify>approve</verify>", yes="yes", no="no") is None


@pytest.mark.parametrize(
    ("text", "content"),
    [
        ("<think>who?</think><X>the  capital\nof France</X>", "the capital of France"),
        (" <think>a <X>b</X></think>\n <X>c</X>\n", "c"),
        ("<think></think><X>c</X>", "c"),
        ("<think>x</think><X>a < b & c > d</X>", "a < b & c > d"),
        ("<X>c</X>", None),
        ("<think>t</think>", None),
        ("<think>t<X>c</X>", None),
        ("<think>t</think><X></X>", None),
        ("<think>t</think><X>  \n </X>", None),
        ("<think>t</think><X>c", None),
        ("<think>t</think>so <X>c</X>", None),
        ("<think>t</think><X>c</X> done", None),
        ("<think>t</think><X>c</X><X>d</X>", None),
        ("<think>t</think><X>c<X>d</X></X>", None),
        ("<think>t</think><think>u</think><X>c</X>", None),
        ("<think>t</think><X>c</think></X>", None),
        ("first <think>t</think><X>c</X>", None),
    ],
)
def test_think_and_then_one_tag(text, content):
    for tag, parse in (("search", parse_search), ("answer", parse_answer)):
        assert parse(text.replace("X>", f"{tag}>")) == content
    assert parse_answer(text.replace("X>", "search>")) is None


@pytest.mark.parametrize(
    ("text", "last", "final"),
    [
        (r"FINAL: \boxed{5}", "5", "5"),
        (r"\boxed{4} was wrong. FINAL: \boxed {\frac{1}{2}}.", r"\frac{1}{2}", r"\frac{1}{2}"),
        (r"FINAL: \boxed{\{1,2\}}", r"\{1,2\}", r"\{1,2\}"),
        (r"FINAL: \boxed{\boxed{5}}", r"\boxed{5}", r"\boxed{5}"),
        (r"<think>FINAL: \boxed{4}</think>FINAL: \boxed{5}", "5", "5"),
        (r"\boxed{5}", "5", None),
        (r"FINAL: 5", None, None),
        (r"FINAL: \boxed{5} or \boxed{6}", "6", None),
        (r"FINAL: \boxed{5} FINAL: \boxed{5}", "5", None),
        (r"FINAL: \boxed{5} and \boxed{6", "5", None),
        (r"FINAL: \boxed{}", None, None),
        (r"FINAL: \boxed{ }", None, None),
        (r"FINAL: \boxed{5", None, None),
        (r"FINAL: \boxed 5", None, None),
        (r"FINAL: \\boxed{5}", None, None),
        (r"FINAL: }{ \boxed{5}", "5", "5"),
        (r"final: \boxed{5}", "5", None),
        (r"\boxed{5} FINAL:", "5", None),
    ],
)
def test_boxed_answers(text, last, final):
    assert parse_boxed(text) == last
    assert parse_final(text) == final


PIECES = st.sampled_from(
    ["<think>", "</think>", "<route>", "</route>", "<verify>", "</verify>", "<search>", "</search>", "<answer>",
     "</answer>", "approve", "reject", "STOP", "1", ",", "2", "\n", " ", "FINAL:", r"\boxed{", "{", "}", "\\", "٣",
     "\0", "\u2028", "\ufffd", "\U0001f642", "9" * 40]
)  # fmt: skip
HOSTILE = st.one_of(st.text(max_size=60), st.lists(PIECES, max_size=14).map("".join))


@settings(max_examples=400, deadline=None)
@given(HOSTILE, st.integers(1, 5))
def test_no_text_raises_and_what_parses_is_in_range(text, size):
    route = parse_route(text, size)
    assert route is None or route.stop != bool(route.chosen)
    if route:
        assert set(route.chosen) <= set(range(1, size + 1)) and list(route.chosen) == sorted(set(route.chosen))
    assert parse_verdict(text) in (True, False, None)
    for parse in (parse_search, parse_answer, parse_boxed, parse_final):
        found = parse(text)
        assert found is None or (found and found == found.strip())


@settings(max_examples=200, deadline=None)
@given(HOSTILE)
def test_approval_needs_the_word_between_the_tags(text):
    if parse_verdict(text) is True:
        assert "<verify>" in text and "approve" in text.partition("<verify>")[2]
    assert parse_verdict(text.replace("approve", "")) is not True


@settings(max_examples=200, deadline=None)
@given(st.text(alphabet=st.characters(blacklist_characters="<>"), min_size=1, max_size=40))
def test_a_well_formed_query_comes_back(query):
    expected = " ".join(query.split()) or None
    assert parse_search(f"<think>{query}</think><search>{query}</search>") == expected


def test_long_hostile_text_is_one_pass():
    """Nothing is timed here, but anything quadratic in a megabyte would meet the test's own time limit."""
    for piece in ("<verify>", "<think>", "</think>", "<route>1", r"\boxed{", "{", "\\", "<search>", "FINAL:"):
        text = piece * (1_000_000 // len(piece))
        for parse in (parse_verdict, parse_search, parse_answer, parse_boxed, parse_final):
            assert parse(text) is None
        assert parse_route(text, 3) is None
    assert tags.parse_boxed(r"\boxed{" + "{" * 100_000 + "}" * 100_000 + "}") == "{" * 100_000 + "}" * 100_000
