"""Intervals and tests: Student's t, the bootstrap over questions, and the sign-flip test for paired differences."""

import math
from functools import lru_cache
from statistics import NormalDist

import numpy as np

_CHUNK = 4_000_000  # cells of a resampling matrix held at once (32 MB)


@lru_cache(maxsize=1024)
def t_quantile(probability: float, degrees: int) -> float:
    """Quantile of Student's t with ``degrees`` (a whole number, at least 1) degrees of freedom.

    Up to 200 degrees the finite series of the distribution function is inverted by bisection; above, Fisher's expansion
    around the normal quantile is exact to 1e-9.
    """
    if not 0.0 < probability < 1.0:
        raise ValueError(f"probability is {probability}; a quantile needs one strictly between 0 and 1")
    if degrees < 1 or degrees != int(degrees):
        raise ValueError(f"degrees is {degrees}; it must be a whole number, at least 1")
    if probability < 0.5:
        return -t_quantile(1.0 - probability, degrees)
    z = NormalDist().inv_cdf(probability)
    if degrees > 200:
        terms = (
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        )
        return z + sum(term / degrees ** (power + 1) for power, term in enumerate(terms))
    inside = 2.0 * probability - 1.0
    low, high = 0.0, 1.0
    while _probability_within(high, degrees) < inside:
        low, high = high, 2.0 * high
    for _ in range(80):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if _probability_within(middle, degrees) < inside else (low, middle)
    return 0.5 * (low + high)


def _probability_within(t: float, degrees: int) -> float:
    """P(|T| < t): the finite trigonometric series for a whole number of degrees of freedom."""
    theta = math.atan2(t, math.sqrt(degrees))
    cosine = math.cos(theta)
    odd = degrees % 2
    term = cosine if odd else 1.0
    total = term if degrees > 1 else 0.0
    for power in range(2 + odd, degrees, 2):
        term *= (power - 1) / power * cosine**2
        total += term
    return 2.0 / math.pi * (theta + math.sin(theta) * total) if odd else math.sin(theta) * total


def mean_interval(values, level: float = 0.95) -> tuple[float, float, float]:
    """Mean of a small sample with its Student t interval: ``(mean, low, high)``; NaN bounds for a single value."""
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 1 or not values.size:
        raise ValueError(f"values has shape {values.shape}; a mean needs a one-dimensional, non-empty sample")
    mean = float(values.mean())
    if values.size == 1:
        return mean, math.nan, math.nan
    half = t_quantile(0.5 + level / 2, values.size - 1) * float(values.std(ddof=1)) / math.sqrt(values.size)
    return mean, mean - half, mean + half


def _resampling_weights(values: np.ndarray, draws: int, rng: np.random.Generator):
    """Yield ``(rows, weights)``: the U distinct rows of ``values`` (Q, M) and how often each is drawn, (chunk, U).

    Equal rows are interchangeable, so drawing how often each *distinct* row occurs has the same distribution as drawing
    questions and is far smaller: 16 graded samples leave 17 possible averages however many questions there are.
    """
    # infinity stands in for NaN, no two of which are equal
    rows, counts = np.unique(np.where(np.isnan(values), np.inf, values), axis=0, return_counts=True)
    rows[np.isinf(rows)] = np.nan
    questions = int(counts.sum())
    chunk = max(1, _CHUNK // len(rows))
    for start in range(0, draws, chunk):
        yield rows, rng.multinomial(questions, counts / questions, size=min(chunk, draws - start)).astype(np.float64)


def bootstrap_draws(
    values: np.ndarray, *, draws: int = 5000, level: float = 0.95, rng: np.random.Generator
) -> np.ndarray:
    """Resample questions; return the means' bootstrap distribution, (draws, M).

    values: (Q, M), one row a question and one column a metric; NaN means that a question lacks the metric, and a
    column's mean is over the questions that have it. The draws' deviations from the observed mean are widened by
    ``sqrt(n / (n - 1)) * t / z``: the bootstrap variance is too small by ``(n - 1) / n`` and a percentile interval
    behaves like a normal one where a t interval is due, so that AIME's 30 questions would be covered less often than
    promised (Hesterberg 2015, the expanded percentile interval). With one question a draw is NaN: nothing is known of
    the spread.
    """
    values = np.asarray(values, dtype=np.float64)
    if values.ndim != 2 or not len(values):
        raise ValueError(f"values has shape {values.shape}; a bootstrap needs (questions, metrics) with a question")
    questions = len(values)
    present = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        centre = np.where(present, values, 0.0).sum(0) / present.sum(0)
        if questions == 1:
            return np.full((draws, values.shape[1]), np.nan)
        means = []
        for rows, weights in _resampling_weights(values, draws, rng):
            known = ~np.isnan(rows)
            means.append((weights @ np.where(known, rows, 0.0)) / (weights @ known))
    widening = math.sqrt(questions / (questions - 1))
    widening *= t_quantile(0.5 + level / 2, questions - 1) / NormalDist().inv_cdf(0.5 + level / 2)
    return centre + widening * (np.concatenate(means) - centre)


def interval_of(draws: np.ndarray, level: float = 0.95, bounds: tuple[float, float] = (-math.inf, math.inf)):
    """Percentile interval of bootstrap draws (B, ...) along their first axis, cut to ``bounds``: ``(low, high)``."""
    tail = (1.0 - level) / 2
    low, high = np.quantile(draws, [tail, 1.0 - tail], axis=0)
    return np.clip(low, *bounds), np.clip(high, *bounds)


def sign_flip_p_value(groups: list[np.ndarray], *, draws: int = 5000, rng: np.random.Generator) -> float:
    """Two-sided p-value of a paired difference, by flipping the sign of each question's difference at random.

    groups: one array of differences for each data set. The statistic is the mean over the groups of their mean
    difference (the macro average; give one group for a single data set). The null hypothesis is that the two runs are
    exchangeable on every question. ``(hits + 1) / (draws + 1)``, so it is never zero.
    """
    groups = [np.asarray(group, dtype=np.float64) for group in groups]
    if not groups or any(group.ndim != 1 or not group.size for group in groups):
        raise ValueError("a sign-flip test needs at least one difference in every data set")
    observed = abs(np.mean([group.mean() for group in groups]))
    flipped = np.zeros(draws)
    for group in groups:
        size, counts = np.unique(np.abs(group), return_counts=True)
        counts, size = counts[size > 0], size[size > 0]
        if size.size:  # n differences of equal size: 2 * Binomial(n, 1/2) - n of them point upwards
            flipped += (2.0 * rng.binomial(counts, 0.5, size=(draws, size.size)) - counts) @ size / group.size
    hits = int((np.abs(flipped) / len(groups) >= observed - 1e-12).sum())
    return (hits + 1) / (draws + 1)
