"""Two runs on the same questions: paired differences, and what each achieves within the same token budget."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from .episodes import Episodes
from .intervals import bootstrap_draws, interval_of, sign_flip_p_value
from .summary import DRAWS, Estimate, Run, estimate_over_seeds
from .tables import METRICS, align, over_seeds

_ORDERS = 100  # random orders of a question's samples that a matched-budget value averages over


@dataclass(frozen=True)
class Difference:
    """Candidate minus baseline on one data set (or their macro average), over the questions that both have.

    better, worse: questions on which the candidate's value is higher and lower; p_value: two-sided sign-flip test.
    """

    questions: int
    baseline: float
    candidate: float
    difference: float
    low: float
    high: float
    p_value: float
    better: int
    worse: int


@dataclass(frozen=True)
class Comparison:
    """``compare``'s result: ``differences[metric][data set]``, with "macro" beside the data sets."""

    baseline: str
    candidate: str
    differences: dict[str, dict[str, Difference]]
    notes: list[str]


def compare(baseline: Run, candidate: Run, *, draws: int = DRAWS, level: float = 0.95, seed: int = 0) -> Comparison:
    """Paired comparison of two runs, question by question; a question's value is its mean over the run's seeds.

    Pairing removes what makes questions easy or hard, so a difference shows with far fewer questions than two separate
    intervals would need. Questions that only one run has are left out and counted in the notes.
    """
    rng = np.random.default_rng(seed)
    paired: dict[str, tuple[np.ndarray, np.ndarray]] = {}
    notes = []
    for source in sorted({*baseline.sources, *candidate.sources}):
        if source not in baseline.sources or source not in candidate.sources:
            has, lacks = (baseline, candidate) if source in baseline.sources else (candidate, baseline)
            notes.append(f"{source}: {lacks.name} does not have it (only {has.name} does); not compared")
            continue
        keys_a, values_a = over_seeds(baseline.tables_of(source))
        keys_b, values_b = over_seeds(candidate.tables_of(source))
        place = {key: row for row, key in enumerate(keys_a)}
        rows = np.array([(place[key], row) for row, key in enumerate(keys_b) if key in place], dtype=np.int64)
        rows = rows.reshape(-1, 2)
        alone = len(keys_a) + len(keys_b) - 2 * len(rows)
        if alone:
            notes.append(
                f"{source}: {len(rows)} questions are in both runs; {len(keys_a) - len(rows)} only in {baseline.name} "
                f"and {len(keys_b) - len(rows)} only in {candidate.name} are left out"
                + ("" if len(rows) else ". Give every line a 'question_id' where the runs' prompts differ")
            )
        if len(rows):
            paired[source] = values_a[rows[:, 0]], values_b[rows[:, 1]]
    distributions = {
        source: bootstrap_draws(b - a, draws=draws, level=level, rng=rng) for source, (a, b) in paired.items()
    }
    differences: dict[str, dict[str, Difference]] = {}
    for m, metric in enumerate(METRICS):
        pairs = {source: (a[:, m], b[:, m]) for source, (a, b) in paired.items()}
        pairs = {s: (a[known], b[known]) for s, (a, b) in pairs.items() if (known := ~np.isnan(a + b)).any()}
        if not pairs:
            continue
        rows = {
            source: _difference({source: pair}, distributions[source][:, m], level, draws, rng)
            for source, pair in pairs.items()
        }
        if len(pairs) > 1:
            macro = np.mean([distributions[source][:, m] for source in pairs], axis=0)
            rows["macro"] = _difference(pairs, macro, level, draws, rng)
        differences[metric] = rows
    return Comparison(baseline.name, candidate.name, differences, notes)


def _difference(pairs: dict, distribution: np.ndarray, level: float, draws: int, rng) -> Difference:
    """Difference of the (macro) means of paired values; distribution: its bootstrap draws (B,)."""
    deltas = [b - a for a, b in pairs.values()]
    low, high = interval_of(distribution, level, (-1.0, 1.0))
    baseline, candidate = (float(np.mean([pair[side].mean() for pair in pairs.values()])) for side in (0, 1))
    return Difference(
        questions=sum(map(len, deltas)),
        baseline=baseline,
        candidate=candidate,
        difference=candidate - baseline,
        low=float(low),
        high=float(high),
        p_value=sign_flip_p_value(deltas, draws=draws, rng=rng),
        better=int(sum((delta > 0).sum() for delta in deltas)),
        worse=int(sum((delta < 0).sum() for delta in deltas)),
    )


@dataclass(frozen=True)
class BudgetCurves:
    """Macro share of questions solved within a token budget. solved[run][i] and spent[run] go with budgets[i].

    ``spent``: tokens that all samples of a question cost together, averaged; ``notes`` says when a run was left out.
    """

    budgets: list[int]
    solved: dict[str, list[Estimate]]
    spent: dict[str, float]
    notes: list[str]


def matched_budget(
    runs: Sequence[Run], budgets: Sequence[int] | None = None, *, draws: int = DRAWS, level: float = 0.95, seed: int = 0
) -> BudgetCurves:
    """Compare runs at equal spending: how many questions have a correct sample within B generated team tokens.

    A question's samples are taken in random order until the budget is used up; a sample that goes over it does not
    count. The value averages 100 orders, questions, then data sets (macro), then seeds. A team of five agents that
    spends five times the tokens of one agent gets a fifth of the tries. Needs ``team_tokens`` on the episodes.

    budgets: tokens a question. None takes seven steps of two up to the largest budget that 95% of each run's questions
    can spend: above it a curve would only say that the samples ran out.
    """
    notes = []
    able = []
    for run in runs:
        if all("team_tokens" in e.numbers and not np.isnan(e.numbers["team_tokens"]).any() for e in run.seeds):
            able.append(run)
        else:
            notes.append(f"{run.name}: no 'team_tokens' on every episode, so no matched-budget comparison for it")
    if not able:
        return BudgetCurves([], {}, {}, notes)
    totals = {run.name: np.concatenate([_question_tokens(e) for e in run.seeds]) for run in able}
    if budgets is None:
        largest = min(float(np.quantile(total, 0.05)) for total in totals.values())
        budgets = sorted({max(1, round(largest / 2**step)) for step in range(7)})
    rng = np.random.default_rng(seed)
    solved = {run.name: _solved(run, np.asarray(budgets, dtype=np.float64), draws, level, rng) for run in able}
    spent = {name: float(total.mean()) for name, total in totals.items()}
    return BudgetCurves([int(budget) for budget in budgets], solved, spent, notes)


def _question_tokens(episodes: Episodes) -> np.ndarray:
    """Team tokens of all samples of each question, (Q,)."""
    _, question = np.unique(episodes.question, return_inverse=True)
    return np.bincount(question, weights=episodes.numbers["team_tokens"])


def _solved(run: Run, budgets: np.ndarray, draws: int, level: float, rng) -> list[Estimate]:
    """Macro share of questions solved within each budget, per seed and over seeds, with an interval over questions."""
    shares: dict[str, list[np.ndarray]] = {source: [] for source in run.sources}
    for episodes, correct in zip(run.seeds, run.correct, strict=True):
        of_question = _share_of_orders(episodes, correct, budgets, rng)
        _, first = np.unique(episodes.question, return_index=True)
        for number in np.unique(episodes.source):
            shares[episodes.sources[number]].append(of_question[episodes.source[first] == number])
    per_seed, distributions = [], []
    for source, by_seed in shares.items():
        if len(by_seed) < len(run.seeds):
            continue
        _, values = align([table.keys for table in run.tables_of(source)], by_seed)
        distributions.append(bootstrap_draws(values, draws=draws, level=level, rng=rng))
        per_seed.append([values_of_seed.mean(0) for values_of_seed in by_seed])
    low, high = interval_of(np.mean(distributions, axis=0), level, (0.0, 1.0))
    macro = np.mean(per_seed, axis=0)  # (seeds, budgets)
    return [estimate_over_seeds(macro[:, i].tolist(), float(low[i]), float(high[i])) for i in range(len(budgets))]


def _share_of_orders(episodes: Episodes, correct: np.ndarray, budgets: np.ndarray, rng) -> np.ndarray:
    """Share of random sample orders that reach a correct sample within each budget, (Q, budgets)."""
    numbers, question, samples = np.unique(episodes.question, return_inverse=True, return_counts=True)
    tokens = episodes.numbers["team_tokens"]
    starts = np.cumsum(samples) - samples
    shares = np.zeros((len(numbers), len(budgets)))
    for _ in range(_ORDERS):
        order = np.lexsort((rng.random(len(episodes)), question))
        spent = np.cumsum(tokens[order])
        before = spent[starts] - tokens[order][starts]
        spent -= np.repeat(before, samples)
        price = np.where(correct[order] > 0, spent, math.inf)
        cheapest = np.minimum.reduceat(price, starts)
        shares += cheapest[:, None] <= budgets
    return shares / _ORDERS
