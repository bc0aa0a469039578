"""Runs summarised: per data set, macro and micro; per seed, then mean and deviation; intervals over questions."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from .costs import cost_summary
from .episodes import Episodes
from .intervals import bootstrap_draws, interval_of
from .tables import METRICS, QuestionTable, mean_of_known, over_seeds, question_tables

DRAWS = 5000


@dataclass(frozen=True)
class Estimate:
    """A number: its mean over seeds, the seeds' own values and sample deviation, and a 95% interval over questions.

    ``sd`` is NaN for one seed; ``low`` and ``high`` are NaN where no interval can be given (one question, or a cost).
    """

    mean: float
    low: float = math.nan
    high: float = math.nan
    sd: float = math.nan
    seeds: tuple[float, ...] = ()


@dataclass(frozen=True)
class Summary:
    """Metrics of one data set, or of the macro or micro average. k: samples a question, 0 where data sets differ."""

    questions: int
    episodes: int
    k: int
    metrics: dict[str, Estimate]
    pass_curve: dict[int, Estimate] = field(default_factory=dict)


@dataclass
class Run:
    """A run with one batch of episodes for each seed, and everything computed from it that comparisons use."""

    name: str
    seeds: list[Episodes]
    correct: list[np.ndarray]
    tables: list[dict[str, QuestionTable]]
    notes: list[str] = field(default_factory=list)
    steps: list[int | None] = field(default_factory=list)

    @classmethod
    def of(
        cls, name: str, seeds: Sequence[Episodes], *, metric: str | None = None, threshold: float = 0.5, **fields
    ) -> "Run":
        """Grade the episodes (``Episodes.correct``) and build each seed's question tables."""
        if not seeds or not all(len(episodes) for episodes in seeds):
            raise ValueError(f"run {name!r} has a seed without episodes")
        correct = [episodes.correct(metric, threshold) for episodes in seeds]
        tables = [question_tables(episodes, hits) for episodes, hits in zip(seeds, correct, strict=True)]
        run = cls(name, list(seeds), correct, tables, **fields)
        for seed, by_source in enumerate(tables):
            for source, table in by_source.items():
                if table.incomplete:
                    lacking = int((table.k - table.samples).clip(0).sum())
                    which = f"{name}, seed {seed + 1}" if len(seeds) > 1 else name
                    run.notes.append(
                        f"{which}: {table.incomplete} of {len(table.keys)} questions of {source} have fewer than "
                        f"{table.k} samples ({lacking} missing); averages are over the samples there are"
                    )
        missing = [source for source in run.sources if any(source not in by_source for by_source in tables)]
        if missing:
            run.notes.append(f"{name}: not every seed has {', '.join(missing)}; left out of the averages")
        return run

    @property
    def sources(self) -> list[str]:
        """Data sets that any seed has, sorted."""
        return sorted({source for tables in self.tables for source in tables})

    def tables_of(self, source: str) -> list[QuestionTable]:
        """The tables of one data set, of the seeds that have it."""
        return [tables[source] for tables in self.tables if source in tables]


@dataclass(frozen=True)
class RunSummary:
    """What ``summarise`` returns. costs: by data set and, under "all", over all episodes."""

    name: str
    seeds: int
    steps: list[int | None]
    data_sets: dict[str, Summary]
    macro: Summary
    micro: Summary
    costs: dict[str, dict[str, Estimate]]
    notes: list[str]


def summarise(run: Run, *, draws: int = DRAWS, level: float = 0.95, seed: int = 0) -> RunSummary:
    """Summarise a run.

    Macro is the unweighted mean over data sets, micro the mean over all questions; a metric that only some data sets
    have is averaged over those. Both are computed for each seed, then averaged over seeds. Intervals resample the
    questions of each data set on its own, with a question's value averaged over the seeds: they say how much another
    draw of *questions* could change the result; ``sd`` says how much another *training seed* does.
    """
    rng = np.random.default_rng(seed)
    data_sets, means, resampled, sizes, costs = {}, [], [], [], {}
    for source in run.sources:
        tables = run.tables_of(source)
        _, values = over_seeds(tables)
        curves = [table.pass_curve() for table in tables]
        lengths = sorted(set.intersection(*(set(curve) for curve in curves)))
        distribution = bootstrap_draws(values, draws=draws, level=level, rng=rng)
        per_seed = np.stack([mean_of_known(table.values) for table in tables])
        data_sets[source] = Summary(
            questions=len(values),
            episodes=int(sum(table.samples.sum() for table in tables)),
            k=tables[0].k if len({table.k for table in tables}) == 1 else 0,
            metrics=_estimates(METRICS, per_seed, distribution, level),
            pass_curve={j: estimate_over_seeds([float(mean_of_known(curve[j])) for curve in curves]) for j in lengths},
        )
        if len(tables) == len(run.tables):
            means.append(per_seed)
            resampled.append(distribution)
            sizes.append((~np.isnan(values)).sum(0))
        costs[source] = _costs(run, source)
    costs["all"] = _costs(run, None)
    totals = {
        "questions": sum(summary.questions for summary in data_sets.values()),
        "episodes": sum(summary.episodes for summary in data_sets.values()),
        "k": next(iter(ks)) if len(ks := {summary.k for summary in data_sets.values()}) == 1 else 0,
    }
    if not means:
        raise ValueError(f"run {run.name!r}: no data set is in every seed, so there is nothing to average")
    seeds_means, seeds_draws = np.stack(means), np.stack(resampled)  # (D, seeds, M), (D, draws, M)
    weight = np.where(np.isnan(seeds_means).any(1), 0.0, np.stack(sizes))  # (D, M)
    macro, micro = (
        Summary(metrics=_averaged(seeds_means, seeds_draws, w, level), **totals) for w in (weight > 0, weight)
    )
    return RunSummary(run.name, len(run.seeds), run.steps, data_sets, macro, micro, costs, run.notes)


def estimate_over_seeds(values: Sequence[float], low: float = math.nan, high: float = math.nan) -> Estimate:
    """Mean and sample standard deviation of the seeds' values."""
    sd = float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
    return Estimate(float(np.mean(values)), low, high, sd, tuple(float(value) for value in values))


def _estimates(names, per_seed: np.ndarray, distribution: np.ndarray, level: float) -> dict[str, Estimate]:
    """per_seed (seeds, M) and bootstrap draws (B, M) to one estimate a metric; all-NaN metrics are left out."""
    low, high = interval_of(distribution, level, (0.0, 1.0))
    return {
        name: estimate_over_seeds(per_seed[:, m].tolist(), float(low[m]), float(high[m]))
        for m, name in enumerate(names)
        if not np.isnan(per_seed[:, m]).any()
    }


def _averaged(means: np.ndarray, draws: np.ndarray, weight: np.ndarray, level: float) -> dict[str, Estimate]:
    """Average (D, seeds, M) and (D, B, M) over data sets with weights (D, M); NaN stands where the weight is zero."""
    with np.errstate(invalid="ignore", divide="ignore"):
        share = (weight / weight.sum(0))[:, None]
        per_seed, distribution = (np.where(share > 0, array * share, 0.0).sum(0) for array in (means, draws))
    absent = weight.sum(0) == 0
    per_seed[:, absent] = np.nan
    return _estimates(METRICS, per_seed, distribution, level)


def _costs(run: Run, source: str | None) -> dict[str, Estimate]:
    """Costs of one data set (None: of all), per seed and averaged over the seeds."""
    per_seed = []
    for episodes, correct in zip(run.seeds, run.correct, strict=True):
        keep = np.ones(len(episodes), dtype=bool)
        if source is not None:
            if source not in episodes.sources:
                continue
            keep = episodes.source == episodes.sources.index(source)
        per_seed.append(cost_summary(episodes.where(keep), correct[keep]))
    shared = [name for name in per_seed[0] if all(name in costs for costs in per_seed)]
    return {name: estimate_over_seeds([costs[name] for costs in per_seed]) for name in shared}
