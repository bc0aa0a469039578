"""Field report 18: a run that is about to collapse says so while there is time."""

import dataclasses
import re

import pytest

from verl_srpo.config import WarningThresholds
from verl_srpo.trainer.early_warning import EarlyWarning

HEALTHY = {
    "srpo/k2/log_ratio_extreme": -0.4,
    "srpo/k2/clip_low": 0.05,
    "srpo/k2/clip_high": 0.1,
    "actor/entropy": 1.0,
    "actor/grad_norm": 2.0,
}


def after_healthy_steps(**changes):
    warning = EarlyWarning(dataclasses.replace(WarningThresholds(), **changes))
    for _ in range(6):
        assert warning.look(dict(HEALTHY)) == []
    return warning


@pytest.mark.parametrize(
    ("metrics", "said"),
    [
        ({"srpo/k2/log_ratio_extreme": -6.5}, "sets of 2: a set log-ratio of -6.50 is beyond .*log_ratio_extreme=5.0"),
        ({"srpo/k2/clip_low": 0.3, "srpo/k2/clip_high": 0.3}, "sets of 2: the clip cuts off 60% .*clip_fraction=0.5"),
        ({"actor/pg_clipfrac": 0.7}, "tokens: the clip cuts off 70% .*clip_fraction=0.5"),
        ({"actor/entropy": 0.6}, "entropy 0.600 is below srpo.warn.entropy_drop=0.7 of its first 1.000"),
        ({"actor/grad_norm": 21.0}, "gradient norm 21 is above srpo.warn.gradient_norm=10.0 times its median 2"),
    ],
)
def test_field_report_18_each_sign_is_named(metrics, said):
    (found,) = after_healthy_steps().look(HEALTHY | metrics)
    assert re.search(said, found)


def test_null_switches_a_sign_off():
    off = {"log_ratio_extreme": None, "clip_fraction": None, "entropy_drop": None, "gradient_norm": None}
    bad = {"srpo/k2/log_ratio_extreme": 20.0, "srpo/k2/clip_low": 1.0, "actor/entropy": 0.0, "actor/grad_norm": 1e9}
    assert after_healthy_steps(**off).look(HEALTHY | bad) == []


def test_stops_after_patience_consecutive_steps_only():
    warning = after_healthy_steps(stop=True, patience=3)
    bad = HEALTHY | {"actor/entropy": 0.1}
    stops = []
    for metrics in (bad, bad, HEALTHY, bad, bad, bad):
        warning.look(dict(metrics))
        stops.append(warning.stop)
    assert stops == [False] * 5 + [True]


def test_never_stops_unless_asked_to():
    warning = after_healthy_steps(patience=1)
    warning.look(HEALTHY | {"actor/entropy": 0.1})
    assert not warning.stop


def test_one_step_with_a_spike_does_not_move_the_median():
    warning = after_healthy_steps()
    assert warning.look(HEALTHY | {"actor/grad_norm": 500.0})
    assert warning.look(HEALTHY | {"actor/grad_norm": 25.0})


@pytest.mark.parametrize(
    ("name", "said"), [("actor/grad_norm", "gradient norm nan"), ("srpo/k2/log_ratio_extreme", "sets of 2: .* nan")]
)
def test_what_is_not_a_number_is_a_sign_and_no_yardstick(name, said):
    warning = after_healthy_steps()
    (found,) = warning.look(HEALTHY | {name: float("nan")})
    assert re.search(said, found)
    assert warning.look(dict(HEALTHY)) == []
    assert len(warning.look(HEALTHY | {"actor/grad_norm": 21.0})) == 1


def test_a_resumed_run_is_held_against_its_first_steps():
    warning = EarlyWarning(dataclasses.replace(WarningThresholds(), stop=True, patience=1))
    warning.take_up([HEALTHY] * 5 + [HEALTHY | {"actor/entropy": 0.1}, {"val-core/acc": 0.5}])
    assert not warning.stop, "what was said before is not said again"
    low = HEALTHY | {"actor/entropy": 0.6, "actor/grad_norm": 21.0}
    entropy, norm = warning.look(low)
    assert "of its first 1.000" in entropy and "times its median 2" in norm
    assert EarlyWarning(WarningThresholds()).look(low) == [], "without its history it has nothing to be held against"
