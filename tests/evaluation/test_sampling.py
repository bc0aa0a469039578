"""Pass@k against enumeration, majority against a vote by hand."""

from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_srpo.evaluation import majority_correct, pass_at_k


@pytest.mark.parametrize("n", range(1, 8))
def test_pass_at_k_is_the_share_of_all_subsets_with_a_correct_sample(n):
    for correct in range(n + 1):
        outcomes = [1] * correct + [0] * (n - correct)
        for k in range(1, n + 1):
            subsets = list(combinations(outcomes, k))
            expected = sum(any(subset) for subset in subsets) / len(subsets)
            assert pass_at_k(np.array([n]), np.array([correct]), k)[0] == pytest.approx(expected, abs=1e-15)


@given(st.lists(st.integers(0, 16), min_size=1, max_size=40))
def test_pass_at_one_is_the_average_and_pass_at_n_is_any(correct):
    correct = np.array(correct)
    samples = np.full_like(correct, 16)
    np.testing.assert_allclose(pass_at_k(samples, correct, 1), correct / 16, atol=1e-15)
    np.testing.assert_array_equal(pass_at_k(samples, correct, 16), correct > 0)
    curve = [pass_at_k(samples, correct, k) for k in (1, 2, 4, 8, 16)]
    assert all((later >= earlier).all() for earlier, later in pairwise(curve))


def test_pass_at_k_stays_exact_for_many_samples():
    # 1 - C(999, 500) / C(1000, 500) = 1/2: the factorials overflow a float, the ratio must not
    assert pass_at_k(np.array([1000]), np.array([1]), 500)[0] == 0.5


def test_pass_at_k_has_no_value_for_a_question_with_too_few_samples():
    result = pass_at_k(np.array([2, 4]), np.array([1, 1]), 4)
    assert np.isnan(result[0])
    assert result[1] == 1.0


@pytest.mark.parametrize(
    ("samples", "correct", "k", "message"),
    [
        ([4], [1], 0, "k is 0"),
        ([4], [5], 1, "question 0 has 5 correct out of 4"),
        ([4, 4], [1], 1, "equally long"),
    ],
)
def test_pass_at_k_refuses(samples, correct, k, message):
    with pytest.raises(ValueError, match=message):
        pass_at_k(np.array(samples), np.array(correct), k)


def test_majority_by_hand():
    # question 0: answer 7 twice (right), 8 once -> right; question 1: 5 twice (wrong), 7 once (right) -> wrong
    # question 2: one vote each for a right and a wrong answer -> half; question 3: nobody answered -> wrong
    # question 4: two abstain, the one vote is right -> right
    questions = np.array([0, 0, 0, 1, 1, 1, 2, 2, 3, 3, 4, 4, 4])
    answers = np.array([7, 8, 7, 5, 7, 5, 1, 2, -1, -1, -1, 3, -1])
    correct = np.array([1, 0, 1, 0, 1, 0, 1, 0, 0, 0, 0, 1, 0])
    np.testing.assert_array_equal(majority_correct(questions, answers, correct, 5), [1, 0, 0.5, 0, 1])


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(-1, 3)), min_size=1, max_size=60))
def test_majority_equals_a_plain_loop(samples):
    correct = [answer == 2 for _, answer in samples]
    expected = []
    for question in range(4):
        votes = [answer for q, answer in samples if q == question and answer >= 0]
        most = max((votes.count(answer) for answer in votes), default=0)
        leaders = {answer for answer in votes if votes.count(answer) == most}
        expected.append(sum(answer == 2 for answer in leaders) / len(leaders) if leaders else 0.0)
    result = majority_correct(
        np.array([q for q, _ in samples]), np.array([a for _, a in samples]), np.array(correct), 4
    )
    np.testing.assert_allclose(result, expected)
