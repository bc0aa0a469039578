"""Validation figures for the training log."""

import pytest

from verl_srpo.evaluation import validation_metrics

from .conftest import verl_rows


def test_macro_micro_and_costs_by_hand():
    rows = [
        {"data_source": "minerva", "uid": "m1", "score": 1.0, "team_tokens": 100, "calls": 2, "events": 1},
        {"data_source": "minerva", "uid": "m1", "score": 0.0, "team_tokens": 100, "calls": 2, "events": 1},
        {"data_source": "gsm8k", "uid": "g1", "score": 1.0, "team_tokens": 100, "calls": 2, "events": 1},
        {"data_source": "gsm8k", "uid": "g2", "score": 1.0, "team_tokens": 100, "calls": 2, "events": 1},
        {"data_source": "gsm8k", "uid": "g3", "score": None},
    ]
    metrics = validation_metrics(rows)
    assert metrics["val-srpo/macro/avg"] == 0.75
    assert metrics["val-srpo/micro/avg"] == pytest.approx((0.5 + 1 + 1) / 3)
    assert metrics["val-srpo/macro/pass"] == 1.0
    assert metrics["val-srpo/cost/team_tokens"] == 100.0
    assert metrics["val-srpo/cost/set_size"] == 2.0
    assert metrics["val-srpo/cost/correct_per_million_tokens"] == 7500.0
    assert (metrics["val-srpo/episodes"], metrics["val-srpo/unusable_rows"]) == (4.0, 1.0)


def test_names_are_reduced_by_mean():
    rows = verl_rows("t", 0, 1.0, ("<search>a</search>", r"\boxed{1}"), data_source="minerva", f1=1.0, acc=1.0)
    rows[0] |= {"wall_clock_s": 1.0, "team_tokens": 5, "tool_calls": 1, "events": 2, "mean_set_size": 1.0}
    rows[1] |= rows[0] | {"output": rows[1]["output"], "uid": rows[1]["uid"], "evidence_has_gold": 1}
    metrics = validation_metrics(rows)
    assert len(metrics) > 15
    assert not [name for name in metrics if "max" in name or "min" in name]
    assert all(type(value) is float for value in metrics.values())


def test_nothing_to_evaluate_is_no_error():
    assert validation_metrics([]) == {"val-srpo/unusable_rows": 0.0}
