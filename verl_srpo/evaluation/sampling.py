"""What k samples a question are worth: Pass@k and majority@k."""

import math

import numpy as np


def pass_at_k(samples: np.ndarray, correct: np.ndarray, k: int) -> np.ndarray:
    """Probability that k samples of a question, drawn without replacement, contain a correct one; (Q,).

    samples: (Q,) int, samples of each question (n); correct: (Q,) int, how many of them are correct (c). The unbiased
    estimator ``1 - C(n - c, k) / C(n, k)`` (Chen et al. 2021, "Evaluating Large Language Models Trained on Code"),
    from exact integers. With ``k == n`` it is "any of k". Questions with fewer than k samples have no estimate: NaN.
    """
    samples, correct = np.asarray(samples), np.asarray(correct)
    if k < 1:
        raise ValueError(f"k is {k}; Pass@k needs at least one sample")
    if samples.shape != correct.shape or samples.ndim != 1:
        raise ValueError(
            f"samples {samples.shape} and correct {correct.shape} must be one-dimensional and equally long"
        )
    wrong = np.flatnonzero((correct < 0) | (correct > samples))
    if wrong.size:
        row = int(wrong[0])
        raise ValueError(f"question {row} has {correct[row]} correct out of {samples[row]} samples")
    result = np.full(samples.shape, np.nan)
    for n in np.unique(samples[samples >= k]).tolist():
        total = math.comb(n, k)
        table = np.array([1.0 - math.comb(n - c, k) / total for c in range(n + 1)])
        chosen = samples == n
        result[chosen] = table[correct[chosen]]
    return result


def majority_correct(questions: np.ndarray, answers: np.ndarray, correct: np.ndarray, count: int) -> np.ndarray:
    """Whether the most frequent answer of each question is correct; (count,) float.

    questions: (E,) int, the question of each sample, below ``count``; answers: (E,) int, the same number for equal
    answers of a question, negative where a sample gave none; correct: (E,) 0/1. Samples without an answer do not vote.
    Tied answers share the vote: the result is their mean correctness. A question nobody answered is wrong (0).
    """
    questions, answers, correct = np.asarray(questions), np.asarray(answers), np.asarray(correct, dtype=np.float64)
    if not questions.shape == answers.shape == correct.shape:
        raise ValueError(
            f"questions {questions.shape}, answers {answers.shape} and correct {correct.shape} must be equally long"
        )
    result = np.zeros(count)
    votes_cast = answers >= 0
    if not votes_cast.any():
        return result
    pairs, inverse = np.unique(np.stack([questions[votes_cast], answers[votes_cast]]), axis=1, return_inverse=True)
    inverse = inverse.reshape(-1)
    votes = np.bincount(inverse)
    accuracy = np.bincount(inverse, weights=correct[votes_cast]) / votes
    owner = pairs[0]
    most = np.zeros(count, dtype=votes.dtype)
    np.maximum.at(most, owner, votes)
    leading = votes == most[owner]
    leaders = np.bincount(owner[leading], minlength=count)
    total = np.bincount(owner[leading], weights=accuracy[leading], minlength=count)
    return np.divide(total, leaders, out=result, where=leaders > 0)
