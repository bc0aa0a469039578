"""Spikes, variation, totals and validation averages by hand."""

import numpy as np
import pytest

from verl_srpo.reports.runs import Group, Run, Series
from verl_srpo.reports.signals import final_mean, spikes, totals, validations, variation
from verl_srpo.reports.tables import differing_settings, summary


def run_with(name="r", settings=None, **series):
    named = {
        metric.replace("__", "/"): Series(np.arange(1, len(values) + 1), np.array(values, dtype=float))
        for metric, values in series.items()
    }
    return Run(name, None, named, settings or {})


def test_a_spike_is_over_three_times_what_came_before():
    values = np.array([1, 1, 9, 1, 1, 1, 2.9, 3.1, 1, 1])
    assert spikes(values).tolist() == [7]  # 9 comes too early to tell, 2.9 is under three times
    assert spikes(np.full(30, 5.0)).tolist() == []


def test_a_lasting_rise_is_no_spike_for_ever():
    assert spikes(np.array([1.0] * 20 + [10.0] * 40)).tolist() == list(range(20, 30))


def test_variation_by_hand():
    assert variation(np.array([100.0] + [1.0, 3.0] * 5)) == pytest.approx(0.5)  # the first tenth is left out
    assert np.isnan(variation(np.array([1.0])))


def test_final_mean_is_over_the_last_tenth():
    assert final_mean(Series(np.arange(20), np.arange(20.0))) == 18.5


def test_totals_by_reason():
    first = Group("a", [run_with(drop__x=[1, 2], drop__y=[0, 0]), run_with(drop__x=[0, 1])])
    second = Group("b", [run_with(drop__z=[5, 0])])
    assert totals([first, second], "drop/(.+)") == {"z": [0.0, 5.0], "x": [2.0, 0.0]}


def test_the_macro_average_is_unweighted_and_over_common_steps():
    named = {
        "val-core/gsm8k/acc/mean@4": Series(np.array([10, 20]), np.array([0.8, 1.0])),
        "val-core/aime24/acc/mean@16": Series(np.array([20, 30]), np.array([0.2, 0.4])),
        "val-core/gsm8k/acc/best@4/mean": Series(np.array([10]), np.array([0.9])),
    }
    bands = validations(Group("g", [Run("r", None, named)]))
    assert list(bands) == ["macro average", "gsm8k", "aime24"]
    assert (bands["macro average"].steps.tolist(), bands["macro average"].mean.tolist()) == ([20], [0.6])


def test_one_data_set_has_no_macro_average():
    named = {"val-core/demo/reward/mean@2": Series(np.array([1]), np.array([0.5]))}
    assert list(validations(Group("g", [Run("r", None, named)]))) == ["demo"]


def test_only_settings_that_differ_are_shown():
    a = [run_with(settings={"lr": "1", "seed": str(seed), "same": "x"}) for seed in (1, 2)]
    b = [run_with(settings={"lr": "2", "seed": "1", "same": "x", "extra": "y"})]
    header, rows = differing_settings([Group("a", a), Group("b", b)])
    assert header == ["setting", "a", "b"]
    assert rows == [["extra", "not set", "y"], ["lr", "1", "2"], ["seed", "1, 2", "1"]]


def test_the_summary_by_hand():
    runs = [
        run_with(
            settings={"trainer.total_training_steps": "30"},
            srpo__outcome_reward__mean=[0.1] * 10 + [last] * 10,
            actor__grad_norm=[1.0] * 19 + [9.0],
            timing_s__step=[4.0] * 20,
        )
        for last in (0.5, 0.7)
    ]
    header, (row,) = summary([Group("srpo", runs)], now=90.0)
    cells = dict(zip(header, row, strict=True))
    assert cells["seeds"] == "2"
    assert cells["last step"] == "20 of 30"
    assert cells["written"] == "0:01:30 ago"
    assert cells["reward, first"] == "0.100"
    assert cells["reward, last"] == "0.600 ± 0.141"
    assert cells["s a step"] == "4.0"
    assert cells["spikes"] == "2"
    assert cells["validation, last"] == ""
