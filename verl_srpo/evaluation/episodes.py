"""Episodes as columns: the lines of a file, joined to one entry an episode."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from .records import NUMBER_COLUMNS, Record


@dataclass(frozen=True)
class Episodes:
    """Columns over episodes (E) and questions (Q); NaN is an unknown number.

    source (E,): index into ``sources``. question (E,): index into ``pairing``, the questions' names (Q) by which runs
    are compared. score (E,). answer (E,): equal numbers are equal answers, -1 is none. numbers: columns (E,) by name.
    """

    sources: list[str]
    source: np.ndarray
    pairing: list[str]
    question: np.ndarray
    score: np.ndarray
    answer: np.ndarray
    numbers: dict[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.score)

    def where(self, keep: np.ndarray) -> "Episodes":
        """The episodes that ``keep`` (E,) bool selects; questions and sources keep their numbers."""
        return Episodes(
            self.sources,
            self.source[keep],
            self.pairing,
            self.question[keep],
            self.score[keep],
            self.answer[keep],
            {name: column[keep] for name, column in self.numbers.items()},
        )

    def correct(self, metric: str | None = None, threshold: float = 0.5) -> np.ndarray:
        """Which episodes are correct, (E,) float 0/1: the metric is at least ``threshold``.

        metric: ``acc``, ``em``, ``f1`` or ``score``. None takes, for each data set, the first of acc, em and score
        that all of its episodes carry: a score may be shaped (penalties, -1 for wrong), the other two say what they
        mean.
        """
        if metric is not None:
            value = self.score if metric == "score" else self.numbers.get(metric)
            if value is None or np.isnan(value).any():
                missing = len(self) if value is None else int(np.isnan(value).sum())
                raise ValueError(f"metric {metric!r} is missing on {missing} of {len(self)} episodes; take another one")
        else:
            value = self.score.copy()
            for name in ("em", "acc"):
                column = self.numbers.get(name)
                if column is not None:
                    unknown = np.bincount(self.source, weights=np.isnan(column), minlength=len(self.sources))
                    complete = (unknown == 0)[self.source]
                    value[complete] = column[complete]
        return (value >= threshold).astype(np.float64)


def join_records(records: Iterable[Record]) -> Episodes:
    """Join the rows of each episode; a record without a session is an episode of its own.

    All rows of an episode carry the episode's numbers, so the last row (highest index) speaks for it; the first row's
    prompt names the question, since later prompts hold what other agents said. Where the lines do not count calls or
    queries themselves, an episode's rows are its calls and the ``<search>`` tags of their outputs its queries. Its
    evidence held a gold answer if the last prompt names one more often than the first, which holds the question alone.
    """
    last: dict[tuple, Record] = {}
    first: dict[tuple, Record] = {}
    rows: dict[tuple, int] = {}
    searches: dict[tuple, list[str]] = {}
    for number, record in enumerate(records):
        own = record.session if record.session is not None else ("line", number)
        key = (record.source, record.question, own)
        rows[key] = rows.get(key, 0) + 1
        if key not in last or record.index > last[key].index:
            last[key] = record
        if key not in first or record.index < first[key].index:
            first[key] = record
        if record.searches:
            searches.setdefault(key, []).extend(record.searches)
    sources: dict[str, int] = {}
    questions: dict[tuple[str, str], int] = {}
    pairing: list[str] = []
    repeats: dict[tuple[str, str], int] = {}
    answers: dict[str, int] = {}
    source, question, answer = (np.empty(len(last), dtype=np.int64) for _ in range(3))
    for row, (key, record) in enumerate(last.items()):
        source[row] = sources.setdefault(record.source, len(sources))
        name = (record.source, record.question)
        if name not in questions:
            questions[name] = len(questions)
            # the same text twice in a data set is two questions: the occurrence is part of the name
            again = (record.source, first[key].pairing)
            repeats[again] = repeats.get(again, -1) + 1
            pairing.append(f"{first[key].pairing}#{repeats[again]}" if repeats[again] else first[key].pairing)
        question[row] = questions[name]
        answer[row] = -1 if record.answer is None else answers.setdefault(record.answer, len(answers))
    records = list(last.values())
    numbers = {
        name: np.array([record.numbers.get(name, np.nan) for record in records], dtype=np.float64)
        for name in NUMBER_COLUMNS
        if any(name in record.numbers for record in records)
    }
    if "calls" not in numbers and any(record.session is not None for record in records):
        numbers["calls"] = np.array([rows[key] for key in last], dtype=np.float64)
    if searches and "duplicate_queries" not in numbers:
        asked = [searches.get(key, []) for key in last]
        numbers["queries"] = np.array([len(queries) for queries in asked], dtype=np.float64)
        numbers["duplicate_queries"] = np.array(
            [len(queries) - len(set(queries)) for queries in asked], dtype=np.float64
        )
    if searches and "evidence_has_gold" not in numbers:
        pairs = [(first[key].golds_in_input, record.golds_in_input) for key, record in last.items()]
        numbers["evidence_has_gold"] = np.array(
            [np.nan if a is None or b is None else float(b > a) for a, b in pairs], dtype=np.float64
        )
    score = np.array([record.score for record in records], dtype=np.float64)
    return Episodes(list(sources), source, pairing, question, score, answer, numbers)
