"""Question tables: for each question of a data set its sample count and the value of every metric."""

import warnings
from dataclasses import dataclass

import numpy as np

from .episodes import Episodes
from .sampling import majority_correct, pass_at_k

METRICS = ("avg", "pass", "majority", "em", "f1")


@dataclass(frozen=True)
class QuestionTable:
    """Questions (Q) of one data set.

    keys: the questions' names across runs; samples, correct (Q,) int; values (Q, M), columns as ``METRICS``.
    """

    keys: list[str]
    samples: np.ndarray
    correct: np.ndarray
    values: np.ndarray

    @property
    def k(self) -> int:
        """Samples a question: the most frequent count, the larger of two equally frequent ones."""
        counts = np.bincount(self.samples)
        return int(len(counts) - 1 - np.argmax(counts[::-1]))

    @property
    def incomplete(self) -> int:
        """Questions with fewer than ``k`` samples."""
        return int((self.samples < self.k).sum())

    def pass_curve(self) -> dict[int, np.ndarray]:
        """Unbiased Pass@j of each question for j = 1, 2, 4, ... below k, and k; NaN where samples are too few."""
        sizes = [1 << power for power in range(self.k.bit_length()) if 1 << power < self.k]
        return {size: pass_at_k(self.samples, self.correct, size) for size in [*sizes, self.k]}


def question_tables(episodes: Episodes, correct: np.ndarray) -> dict[str, QuestionTable]:
    """One table for each data set. correct: (E,) 0/1 from ``Episodes.correct``."""
    tables = {}
    for number, name in enumerate(episodes.sources):
        inside = episodes.source == number
        if inside.any():
            tables[name] = _table(episodes.where(inside), correct[inside])
    return dict(sorted(tables.items()))


def _table(episodes: Episodes, correct: np.ndarray) -> QuestionTable:
    numbers, question = np.unique(episodes.question, return_inverse=True)
    count = len(numbers)
    samples = np.bincount(question, minlength=count)
    hits = np.rint(np.bincount(question, weights=correct, minlength=count)).astype(np.int64)
    columns = dict.fromkeys(METRICS, np.full(count, np.nan))
    columns["avg"] = hits / samples
    columns["pass"] = (hits > 0).astype(np.float64)
    if (episodes.answer >= 0).any():
        columns["majority"] = majority_correct(question, episodes.answer, correct, count)
    for name in ("em", "f1"):
        if name in episodes.numbers:
            columns[name] = _mean_by(question, episodes.numbers[name], count)
    values = np.stack([columns[name] for name in METRICS], axis=1)
    return QuestionTable([episodes.pairing[number] for number in numbers], samples, hits, values)


def _mean_by(group: np.ndarray, values: np.ndarray, count: int) -> np.ndarray:
    """Mean of the known values of each group, (count,); NaN for a group without any."""
    known = ~np.isnan(values)
    total = np.bincount(group[known], weights=values[known], minlength=count)
    number = np.bincount(group[known], minlength=count)
    return np.divide(total, number, out=np.full(count, np.nan), where=number > 0)


def mean_of_known(values: np.ndarray, axis: int = 0) -> np.ndarray:
    """Mean that passes over NaN; NaN where there is nothing else."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # "mean of empty slice" is the NaN that is wanted
        return np.nanmean(values, axis=axis)


def over_seeds(tables: list[QuestionTable]) -> tuple[list[str], np.ndarray]:
    """The union of the seeds' questions and each one's metrics averaged over the seeds that have it: keys, (Q, M)."""
    return align([table.keys for table in tables], [table.values for table in tables])


def align(keys: list[list[str]], values: list[np.ndarray]) -> tuple[list[str], np.ndarray]:
    """Bring the seeds' questions (names, (Q_s, M) values) together by name; average over the seeds that have each."""
    if len(keys) == 1:
        return keys[0], values[0]
    place: dict[str, int] = {}
    for names in keys:
        for name in names:
            place.setdefault(name, len(place))
    cube = np.full((len(keys), len(place), values[0].shape[1]), np.nan)
    for seed, (names, rows) in enumerate(zip(keys, values, strict=True)):
        cube[seed, [place[name] for name in names]] = rows
    return list(place), mean_of_known(cube)
