"""Exact match and token F1, against the definitions computed by hand."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_srpo.rewards import compute_score
from verl_srpo.rewards.search_answer import exact_match, normalize, token_f1

TARGET = {"target": np.array(["Barack Obama", "Barack H. Obama"], dtype=object)}


def test_exact_match_is_the_score_and_f1_stands_beside_it():
    result = compute_score("searchR1_nq", "<think>x</think><answer>the barack obama!</answer>", TARGET)
    assert result == {
        "score": 1.0,
        "acc": 1.0,
        "f1": 1.0,
        "data_source": "searchR1_nq",
        "pred": "the barack obama!",
        "grader_timeout": None,
        "grader_error": None,
    }
    result = compute_score("hotpotqa", "<answer>president Obama</answer>", TARGET)
    assert (result["score"], result["f1"]) == (0.0, pytest.approx(2 * 1 / (2 + 2)))


def test_only_the_last_complete_answer_counts():
    assert compute_score("nq", "<answer>Barack Obama</answer><answer>Bush</answer>", TARGET)["score"] == 0.0
    assert compute_score("nq", "<answer>Bush</answer><answer>Barack Obama</answer>", TARGET)["score"] == 1.0
    assert compute_score("nq", "Barack Obama", TARGET) | {"pred": ""} == compute_score("nq", "", TARGET)


def test_normalisation():
    assert normalize("  The  U.S.A., an  Answer ") == "usa answer"
    assert normalize("theatre") == "theatre"


def test_f1_counts_repeated_tokens_once_each():
    # common tokens: b b -> 2; precision 2/3, recall 2/2
    assert token_f1("b b b", ["b b"]) == pytest.approx(2 * (2 / 3) * 1 / (2 / 3 + 1))
    assert token_f1("x", ["y", "x"]) == 1.0
    assert token_f1("", ["y"]) == 0.0


def test_a_verdict_shares_nothing_with_a_longer_answer():
    assert token_f1("no", ["no way"]) == 0.0
    assert token_f1("yes", ["Yes."]) == 1.0


def test_an_empty_answer_matches_nothing():
    assert exact_match("...", ["?!"]) == 0.0
    assert exact_match("", ["the"]) == 0.0


@given(st.text(), st.lists(st.text(), min_size=1, max_size=3))
def test_exact_match_implies_full_f1(answer, golds):
    f1 = token_f1(answer, golds)
    assert 0.0 <= f1 <= 1.0
    if exact_match(answer, golds):
        assert f1 == 1.0
