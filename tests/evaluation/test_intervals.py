"""Student's t against tables, bootstrap intervals against theory and against how often they cover."""

import numpy as np
import pytest

from verl_srpo.evaluation import bootstrap_draws, interval_of, mean_interval, sign_flip_p_value, t_quantile
from verl_srpo.evaluation.intervals import _resampling_weights


@pytest.mark.parametrize(
    ("probability", "degrees", "expected"),
    [
        (0.975, 1, 12.7062047362),
        (0.975, 2, 4.30265272991),
        (0.975, 3, 3.18244630528),
        (0.975, 9, 2.26215716280),
        (0.95, 7, 1.89457860509),
        (0.995, 30, 2.74999565357),
        (0.025, 10, -2.22813885199),
        (0.5, 4, 0.0),
    ],
)
def test_t_quantile_against_tables(probability, degrees, expected):
    assert t_quantile(probability, degrees) == pytest.approx(expected, abs=1e-9)


def test_t_quantile_is_continuous_where_the_method_changes():
    below, above = t_quantile(0.975, 200), t_quantile(0.975, 201)
    assert 0 < below - above < 1e-4
    assert t_quantile(0.975, 10**7) == pytest.approx(1.959964, abs=1e-6)


@pytest.mark.parametrize(("probability", "degrees"), [(0.0, 3), (1.0, 3), (0.9, 0), (0.9, 2.5)])
def test_t_quantile_refuses(probability, degrees):
    with pytest.raises(ValueError, match=r"probability is|degrees is"):
        t_quantile(probability, degrees)


def test_mean_interval_by_hand():
    # mean 2, sample deviation 1, half width 4.302653 / sqrt(3)
    mean, low, high = mean_interval([1.0, 2.0, 3.0])
    assert (mean, high - mean) == (2.0, pytest.approx(4.30265272991 / 3**0.5))
    assert low == pytest.approx(4.0 - high)
    assert np.isnan(mean_interval([5.0])[1:]).all()


def test_bootstrap_has_the_deviation_of_the_mean():
    values = np.random.default_rng(0).normal(size=(400, 1))
    draws = bootstrap_draws(values, draws=4000, rng=np.random.default_rng(1))
    assert draws.mean() == pytest.approx(values.mean(), abs=0.005)
    assert draws.std() == pytest.approx(values.std(ddof=1) / 20, rel=0.05)


def test_bootstrap_of_repeated_rows_equals_that_of_distinct_rows_in_distribution():
    few = np.repeat([[0.0], [1.0]], [60, 40], axis=0)
    jittered = few + np.random.default_rng(2).normal(scale=1e-6, size=few.shape)
    spread = [bootstrap_draws(v, draws=4000, rng=np.random.default_rng(3)).std() for v in (few, jittered)]
    assert spread[0] == pytest.approx(spread[1], rel=0.05)


def test_bootstrap_keeps_missing_values_out():
    values = np.array([[1.0, np.nan], [0.0, 0.25], [1.0, np.nan], [0.0, 0.25]])
    draws = bootstrap_draws(values, draws=500, rng=np.random.default_rng(0))
    known = draws[:, 1][~np.isnan(draws[:, 1])]
    np.testing.assert_allclose(known, 0.25)
    assert draws[:, 0].std() > 0.1


def test_equal_rows_are_drawn_together_even_where_a_value_is_missing():
    values = np.array([[1.0, np.nan], [0.0, np.nan]] * 500)
    ((rows, weights),) = _resampling_weights(values, 10, np.random.default_rng(0))
    assert rows.shape == (2, 2)
    assert np.isnan(rows[:, 1]).all()
    assert (weights.sum(1) == 1000).all()


def test_one_question_has_no_interval():
    assert np.isnan(bootstrap_draws(np.array([[1.0]]), draws=10, rng=np.random.default_rng(0))).all()


@pytest.mark.parametrize("questions", [15, 60])
def test_intervals_cover_the_truth_about_95_percent_of_the_time(questions):
    rng = np.random.default_rng(questions)
    trials, covered = 1500, 0
    for _ in range(trials):  # 8 graded samples a question, question difficulty uniform: the true average is 1/2
        averages = rng.binomial(8, rng.uniform(size=questions)) / 8
        low, high = interval_of(bootstrap_draws(averages[:, None], draws=400, rng=rng))
        covered += low[0] <= 0.5 <= high[0]
    assert 0.93 <= covered / trials <= 0.97  # three standard errors of the simulation are 0.017


def test_sign_flip_by_enumeration():
    # differences 1, 2, 3: only +++ and --- reach |sum| = 6, so p = 2/8
    p = sign_flip_p_value([np.array([1.0, 2.0, 3.0])], draws=40000, rng=np.random.default_rng(0))
    assert p == pytest.approx(0.25, abs=0.01)
    # -1, 2, 3: |sum| >= 4 for +++, -++ and their negatives (4/8)
    p = sign_flip_p_value([np.array([-1.0, 2.0, 3.0])], draws=40000, rng=np.random.default_rng(0))
    assert p == pytest.approx(0.5, abs=0.01)


def test_sign_flip_of_equal_runs_is_one():
    assert sign_flip_p_value([np.zeros(5)], rng=np.random.default_rng(0)) == 1.0
