"""Paired comparison and matched budgets by hand."""

import numpy as np
import pytest

from verl_srpo.evaluation import Run, compare, join_records, matched_budget, parse_record


def run_of(name, lines, **options):
    return Run.of(name, [join_records(parse_record(line) for line in lines)], **options)


def lines(source, scores, **extra):
    return [{"data_source": source, "uid": f"{source}{q}", "score": s, **extra} for q, s in enumerate(scores)]


def test_differences_are_question_by_question():
    a = run_of("a", lines("x", [1, 0, 0, 1]))
    b = run_of("b", lines("x", [1, 1, 1, 0]))
    difference = compare(a, b, draws=2000).differences["avg"]["x"]
    assert (difference.baseline, difference.candidate, difference.difference) == (0.5, 0.75, 0.25)
    assert (difference.better, difference.worse, difference.questions) == (2, 1, 4)
    assert difference.p_value == pytest.approx(1.0, abs=0.02)  # |sum| >= 1 whatever the signs of three differences
    assert difference.low <= 0.25 <= difference.high


def test_equal_runs_differ_by_nothing():
    a = lines("x", [1, 0, 1])
    difference = compare(run_of("a", a), run_of("b", a), draws=200).differences["avg"]["x"]
    assert (difference.difference, difference.low, difference.high, difference.p_value) == (0.0, 0.0, 0.0, 1.0)


def test_pairing_is_tighter_than_two_separate_intervals():
    rng = np.random.default_rng(0)
    base = rng.integers(0, 2, size=200)
    better = np.where(rng.random(200) < 0.1, 1, base)
    difference = compare(run_of("a", lines("x", base.tolist())), run_of("b", lines("x", better.tolist()))).differences
    d = difference["avg"]["x"]
    assert d.low > 0
    assert d.high - d.low < 0.1  # unpaired, two proportions near 1/2 with n = 200 give 0.2


def test_macro_difference_weighs_data_sets_equally():
    a = run_of("a", lines("big", [0] * 8) + lines("small", [0] * 2))
    b = run_of("b", lines("big", [0] * 8) + lines("small", [1] * 2))
    assert compare(a, b, draws=200).differences["avg"]["macro"].difference == 0.5


def test_questions_that_only_one_run_has_are_left_out_and_said():
    a = run_of("a", lines("x", [1, 0, 0]) + lines("y", [1]))
    b = run_of("b", lines("x", [1, 1]))
    comparison = compare(a, b, draws=200)
    assert comparison.differences["avg"]["x"].questions == 2
    assert any("y: b does not have it" in note for note in comparison.notes)
    assert any("2 questions are in both runs; 1 only in a and 0 only in b" in note for note in comparison.notes)


def test_runs_without_a_common_question_say_what_would_help():
    a = run_of("a", [{"data_source": "x", "uid": "1", "score": 1}])
    b = run_of("b", [{"data_source": "x", "uid": "2", "score": 1}])
    comparison = compare(a, b, draws=200)
    assert comparison.differences == {}
    assert "question_id" in comparison.notes[0]


def test_solved_within_a_budget_by_hand():
    # one question, tokens 10 (wrong), 20 (right), 30 (right); spent up to the first right sample, over the 6 orders:
    # 20 first: 20 (2 orders); 30 first: 30 (2 orders); 10, 20: 30; 10, 30: 40
    rows = [
        {"data_source": "x", "uid": "1", "score": score, "team_tokens": tokens}
        for score, tokens in ((0, 10), (1, 20), (1, 30))
    ]
    rows += [{**row, "uid": "2"} for row in rows]
    curves = matched_budget([run_of("a", rows)], [19, 20, 30, 40], draws=20)
    shares = [estimate.mean for estimate in curves.solved["a"]]
    assert shares == pytest.approx([0, 2 / 6, 5 / 6, 1.0], abs=0.1)  # 200 random orders
    assert shares[0] == 0.0
    assert shares[3] == 1.0
    assert curves.spent == {"a": 60.0}


def test_a_team_that_spends_twice_gets_half_the_tries():
    rng = np.random.default_rng(0)
    scores = (rng.random((300, 8)) < 0.3).astype(int)

    def team(tokens):
        return [
            {"data_source": "x", "uid": str(q), "score": int(s), "team_tokens": tokens}
            for q, row in enumerate(scores)
            for s in row
        ]

    curves = matched_budget([run_of("one", team(100)), run_of("two", team(200))], [200, 400], draws=20)
    one, two = curves.solved["one"], curves.solved["two"]
    assert two[1].mean == pytest.approx(one[0].mean, abs=0.02)
    assert two[0].mean == pytest.approx(scores.mean(), abs=0.02)


def test_default_budgets_end_where_samples_run_out():
    rows = [{"data_source": "x", "uid": str(q), "score": 1, "team_tokens": 64} for q in range(4) for _ in range(2)]
    assert matched_budget([run_of("a", rows)], draws=20).budgets == [2, 4, 8, 16, 32, 64, 128]


def test_no_token_counts_no_budget():
    curves = matched_budget([run_of("a", lines("x", [1]))])
    assert curves.budgets == []
    assert "no 'team_tokens'" in curves.notes[0]
