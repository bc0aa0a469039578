r"""compute_score on math answers that take computer algebra, and the shape of its result."""

import subprocess
import sys

import pytest

from verl_srpo.rewards import compute_score, score


def _score(gold, answer, **options):
    return compute_score("math500", rf"<think>\boxed{{0}}</think> FINAL: \boxed{{{answer}}}", gold, **options)


@pytest.mark.parametrize(
    ("gold", "answer", "expected"),
    [
        (r"2\sqrt{3}", r"\sqrt{12}", 1.0),
        (r"x^2+2x+1", r"(x+1)^2", 1.0),
        (r"x^2+2x+1", r"(x-1)^2", 0.0),
        (r"[3,5]", r"x \in [3,5]", 1.0),
        ("1,2,3", "3,2,1", 1.0),
        (r"\{1,2\}", r"\{2,1\}", 1.0),
        (r"\frac{\pi}{2}", r"\pi/2", 1.0),
        ("3.14", r"\pi", 0.0),
        (r"\frac{1}{3}\%", r"\frac{1}{\sqrt{90000}}", 1.0),
        (r"1+2i", "2i+1", 1.0),
        ("120", "5!", 1.0),
        ("2", r"2\pi", 0.0),
        ("5", "5 x", 0.0),
        (r"0.0000001", r"\frac{2}{10^{7}}", 0.0),
        (r"0.0000002", r"\frac{2}{10^{7}}", 1.0),
        (r"\text{east}", r"\text{west}", 0.0),
        (r"\begin{pmatrix} \frac12 \\ 2 \end{pmatrix}", r"\begin{pmatrix} 0.5 \\ 2 \end{pmatrix}", 1.0),
    ],
)
def test_symbolic_answers(gold, answer, expected):
    result = _score(gold, answer)
    assert result == {
        "score": expected,
        "acc": expected,
        "f1": None,
        "data_source": "math500",
        "pred": answer,
        "grader_timeout": 0.0,
        "grader_error": 0.0,
    }


@pytest.mark.parametrize(
    "answer", [r"\frac{1}{0}", r"\frac{\frac{", r"^^^", r"\begin{pmatrix}", r"x_{", "=" * 50, "\x00", "{{{"]
)
def test_hostile_answers_score_zero_and_leave_the_grader_usable(answer):
    solution = "so \\boxed{" + answer + "}"
    assert compute_score("math", solution, r"2\sqrt{3}")["score"] == 0.0
    assert _score(r"2\sqrt{3}", r"\sqrt{12}")["score"] == 1.0


def test_a_gold_answer_that_cannot_be_compared_is_counted():
    assert _score("1/0", "5")["grader_error"] == 1.0


def test_arithmetic_never_starts_the_grader(monkeypatch):
    monkeypatch.setattr(score, "shared_pool", lambda **limits: pytest.fail("the grader was asked"))
    for answer, expected in (
        ("1,234", 1.0),
        ("1234.0", 1.0),
        (r"\frac{2468}{2}", 1.0),
        ("1235", 0.0),
        ("no idea", 0.0),
    ):
        assert _score("1234", answer)["score"] == expected
    assert compute_score("gsm8k", "no box at all", "1234")["score"] == 0.0


def test_no_answer_has_an_empty_prediction():
    result = compute_score("aime24", "I do not know", 25)
    assert (result["score"], result["pred"], result["grader_error"]) == (0.0, "", 0.0)


def test_number_and_array_truths():
    assert compute_score("aime25", r"\boxed{025}", 25)["score"] == 1.0
    assert compute_score("olympiadbench", r"\boxed{3}", ["2", "3"])["score"] == 1.0


def test_importing_the_rewards_imports_nothing_heavy():
    code = (
        "import sys, verl_srpo.rewards as r; print([m for m in ('torch', 'verl', 'sympy', 'ray') if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"
    )


def test_a_misspelled_option_is_an_error():
    with pytest.raises(ValueError, match=r"grader_second\b.*grader_seconds"):
        compute_score("math", r"\boxed{1}", "1", grader_second=3)
    with pytest.raises(ValueError, match="size >= 1 and seconds > 0"):
        _score(r"2\sqrt{3}", r"\sqrt{12}", grader_processes=0)
