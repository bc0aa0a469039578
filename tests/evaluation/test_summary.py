"""Averages, seeds and costs by hand."""

import math

import pytest

from verl_srpo.evaluation import Run, join_records, parse_record, summarise


def episodes(lines):
    return join_records(parse_record(line) for line in lines)


def samples(source, scores_by_question, **extra):
    """Plain lines: one question for each list of scores."""
    return [
        {"data_source": source, "uid": f"{source}{q}", "score": score, **extra}
        for q, scores in enumerate(scores_by_question)
        for score in scores
    ]


def test_macro_and_micro_on_unbalanced_data_sets():
    # big: 8 questions, 1 of 2 right each (0.5); small: 2 questions, all right (1.0)
    lines = samples("big", [[1, 0]] * 8) + samples("small", [[1, 1]] * 2)
    summary = summarise(Run.of("r", [episodes(lines)]), draws=50)
    assert summary.data_sets["big"].metrics["avg"].mean == 0.5
    assert summary.macro.metrics["avg"].mean == 0.75
    assert summary.micro.metrics["avg"].mean == pytest.approx((8 * 0.5 + 2 * 1.0) / 10)
    assert (summary.micro.questions, summary.micro.episodes, summary.micro.k) == (10, 20, 2)


def test_pass_curve_by_hand():
    # 4 samples: question 0 has 1 right, question 1 has 2. Pass@2: 1 - 3/6 = 1/2 and 1 - 1/6 = 5/6
    summary = summarise(Run.of("r", [episodes(samples("a", [[1, 0, 0, 0], [1, 1, 0, 0]]))]), draws=50).data_sets["a"]
    assert {j: estimate.mean for j, estimate in summary.pass_curve.items()} == pytest.approx(
        {1: 0.375, 2: (1 / 2 + 5 / 6) / 2, 4: 1.0}
    )
    assert summary.metrics["pass"].mean == 1.0


def test_seeds_give_a_mean_and_a_sample_deviation():
    seeds = [episodes(samples("a", scores)) for scores in ([[1, 1], [0, 0]], [[1, 0], [0, 0]], [[1, 1], [1, 1]])]
    avg = summarise(Run.of("r", seeds), draws=50).macro.metrics["avg"]
    assert avg.seeds == (0.5, 0.25, 1.0)
    assert avg.mean == pytest.approx(0.583333333)
    assert avg.sd == pytest.approx(math.sqrt(((0.5 - 7 / 12) ** 2 + (0.25 - 7 / 12) ** 2 + (1 - 7 / 12) ** 2) / 2))


def test_more_seeds_do_not_pretend_to_be_more_questions():
    lines = samples("a", [[1], [0]] * 20)
    one = summarise(Run.of("r", [episodes(lines)]), seed=1).macro.metrics["avg"]
    four = summarise(Run.of("r", [episodes(lines)] * 4), seed=1).macro.metrics["avg"]
    assert four.high - four.low == pytest.approx(one.high - one.low, rel=0.01)


def test_missing_samples_are_said_and_averages_use_what_is_there():
    run = Run.of("r", [episodes(samples("a", [[1, 0], [1, 1], [1]]))])
    assert run.notes == [
        "r: 1 of 3 questions of a have fewer than 2 samples (1 missing); averages are over the samples there are"
    ]
    assert summarise(run, draws=50).macro.metrics["avg"].mean == pytest.approx((0.5 + 1 + 1) / 3)


def test_a_data_set_that_a_seed_lacks_is_kept_out_of_the_averages():
    both = episodes(samples("a", [[1]]) + samples("b", [[0]]))
    only_a = episodes(samples("a", [[1]]))
    run = Run.of("r", [both, only_a])
    assert "not every seed has b" in run.notes[0]
    assert summarise(run, draws=50).macro.metrics["avg"].mean == 1.0


def test_correctness_comes_from_acc_before_a_shaped_score():
    lines = [
        {"data_source": "a", "uid": "1", "score": 0.4, "acc": 1.0},  # right, with a penalty
        {"data_source": "b", "uid": "1", "score": -1.0},
        {"data_source": "b", "uid": "2", "score": 1.0},
    ]
    summary = summarise(Run.of("r", [episodes(lines)]), draws=50)
    assert summary.data_sets["a"].metrics["avg"].mean == 1.0
    assert summary.data_sets["b"].metrics["avg"].mean == 0.5
    by_score = summarise(Run.of("r", [episodes(lines)], metric="score"), draws=50)
    assert by_score.data_sets["a"].metrics["avg"].mean == 0.0
    with pytest.raises(ValueError, match="metric 'acc' is missing on 2 of 3 episodes"):
        Run.of("r", [episodes(lines)], metric="acc")


def test_search_rewards_give_exact_match_and_f1():
    lines = samples("hotpotqa", [[1, 0]], acc=None)
    for line, f1 in zip(lines, (1.0, 0.5), strict=True):
        line |= {"acc": line["score"], "f1": f1}
    metrics = summarise(Run.of("r", [episodes(lines)]), draws=50).macro.metrics
    assert (metrics["em"].mean, metrics["f1"].mean) == (0.5, 0.75)


def test_costs_by_hand():
    # tokens 100 and 300 (one of two right), 4 calls in 2 events and 6 in 3; latencies 1 and 3
    lines = [
        {"data_source": "a", "uid": "1", "score": 1, "team_tokens": 100, "calls": 4, "events": 2, "wall_clock_s": 1.0},
        {"data_source": "a", "uid": "1", "score": 0, "team_tokens": 300, "calls": 6, "events": 3, "wall_clock_s": 3.0},
    ]
    lines[0] |= {"mean_set_size": 2.0, "queries": 3, "duplicate_queries": 1, "evidence_has_gold": True}
    lines[1] |= {"mean_set_size": 1.0, "queries": 1, "duplicate_queries": 0, "evidence_has_gold": False}
    costs = {name: e.mean for name, e in summarise(Run.of("r", [episodes(lines)]), draws=50).costs["a"].items()}
    assert costs == pytest.approx(
        {
            "team_tokens": 200.0,
            "calls": 5.0,
            "events": 2.5,
            "set_size": (2 * 2 + 1 * 3) / 5,  # over events, not over episodes
            "output_length": 40.0,
            "tokens_per_event": 56.0,
            "correct_per_million_tokens": 1e6 / 400,
            "latency_p50": 2.0,
            "latency_p95": 2.9,
            "duplicate_query_rate": 0.25,
            "evidence_coverage": 0.5,
        }
    )


def test_costs_that_are_not_there_are_left_out():
    summary = summarise(Run.of("r", [episodes(samples("a", [[1, 0]]))]), draws=50)
    assert summary.costs == {"a": {}, "all": {}}


def test_a_run_without_episodes_is_refused():
    with pytest.raises(ValueError, match="seed without episodes"):
        Run.of("r", [episodes([])])
