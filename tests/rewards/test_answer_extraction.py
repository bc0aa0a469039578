r"""Finding the answer in a response: nested braces, hostile text, ground truths as parquet gives them back."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_srpo.rewards.extraction import after_think, gold_answers, last_answer_tag, last_boxed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"so \boxed{72}.", "72"),
        (r"\boxed{1} then \boxed{2}", "2"),
        (r"\boxed{\frac{1}{\sqrt{2}}}", r"\frac{1}{\sqrt{2}}"),
        (r"FINAL: \boxed{ x }", "x"),
        (r"\boxed{\{1, 2\}}", r"\{1, 2\}"),
        (r"\boxed{\left\{x \mid x>0\right.}", r"\left\{x \mid x>0\right."),
        (r"\boxed{a \boxed{b} c}", "b"),
        (r"\boxed{5} but \boxed{unfinished", "5"),
        (r"\boxed{unfinished \boxed{5}", "5"),
        (r"I write \boxed{5}, and \boxed{} was asked for", "5"),
        (r"I write \boxed{5} in \boxed as asked", "5"),
        (r"\fbox{7}", "7"),
        (r"\boxed 7", "7"),
        (r"\boxed {7}", "7"),
        (r"} } \boxed{7} }", "7"),
        (r"\\boxed{7}", None),
        ("72", None),
        ("", None),
        (r"\boxed{", None),
        (r"\boxed{}", None),
    ],
)
def test_last_boxed(text, expected):
    assert last_boxed(text) == expected


_nested = st.recursive(
    st.text(alphabet="ab12+ ", max_size=4),
    lambda inner: st.lists(inner, max_size=3).map(lambda parts: "{" + "".join(parts) + "}"),
    max_leaves=12,
)


@given(content=_nested.filter(lambda text: text.strip()), before=_nested, after=_nested)
def test_last_boxed_returns_any_balanced_content(content, before, after):
    assert last_boxed(rf"{before}\boxed{{{content}}}{after}") == content.strip()


@given(st.text(alphabet=r"\{}boxed 1"))
def test_last_boxed_is_total_and_balanced(text):
    found = last_boxed(text)
    assert found is None or found in text


def test_hostile_text_takes_one_pass():
    """A quadratic scan of these would take minutes."""
    assert last_boxed(r"\boxed{" * 100_000) is None
    assert last_boxed(r"\boxed{" * 50_000 + "1" + "}" * 50_000) == "1"
    assert last_answer_tag("<answer>" * 100_000) is None
    assert last_answer_tag("<answer>" * 100_000 + "x</answer>") == "x"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("<answer>Paris</answer>", "Paris"),
        ("<answer>Rome</answer> no, <answer> Paris </answer> thanks", "Paris"),
        ("<answer>Paris", None),
        ("Paris</answer>", None),
        ("</answer><answer>", None),
        ("<answer>Paris</answer></answer>", "Paris"),
        ("<answer></answer>", ""),
        ("Paris", None),
    ],
)
def test_last_answer_tag(text, expected):
    assert last_answer_tag(text) == expected


def test_after_think_keeps_what_follows_the_last_one():
    assert after_think(r"<think>\boxed{1}</think>\boxed{2}") == r"\boxed{2}"
    assert after_think("a</think>b</think>c") == "c"
    assert after_think("no thoughts") == "no thoughts"


@pytest.mark.parametrize(
    ("truth", "expected"),
    [
        ("72", ["72"]),
        (72, ["72"]),
        (np.int64(72), ["72"]),
        (0.5, ["0.5"]),
        (["a", "b"], ["a", "b"]),
        (np.array(["a", "b"], dtype=object), ["a", "b"]),
        ({"target": np.array(["a", "b"], dtype=object)}, ["a", "b"]),
        (
            {"target": np.array([np.array(["a"], dtype=object), np.array(["b", "c"], dtype=object)], dtype=object)},
            list("abc"),
        ),
        ({"target": "a"}, ["a"]),
        (np.array(72), ["72"]),
        (["a", None, " "], ["a"]),
    ],
)
def test_gold_answers_of_every_shape(truth, expected):
    assert gold_answers(truth) == expected


@pytest.mark.parametrize(
    "truth", [None, "", "  ", [], {"target": []}, {"answer": "a"}, [True], [b"a"], np.array([], dtype=object)]
)
def test_a_truth_without_an_answer_is_refused(truth):
    with pytest.raises(ValueError, match="ground truth"):
        gold_answers(truth)
