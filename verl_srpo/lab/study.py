"""Run what is missing of the study, on all cores, with progress; then write its page."""

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

from .cases import CLIPS, COMMON_CLIP, Case, cases
from .results import Result, Store
from .training import Curves, Variant, train

_TUNING_BASE = 1000  # tuning seeds are 1000, 1001, ...: a clip is never chosen by the seeds that report it
_BLOCK = 10  # seeds trained side by side in one job


@dataclass(frozen=True)
class Outcome:
    """A case's results over the reporting seeds, at the common clip range and at its own best one.

    sweep: for each clip range its mean final reward over the tuning seeds.
    """

    case: Case
    common: list[Result]
    own: list[Result]
    own_clip: float
    sweep: dict[float, float]


@dataclass(frozen=True)
class Job:
    """One variant to be trained for a few seeds."""

    variant: Variant
    seeds: list[int]


def _run(job: Job) -> tuple[Job, list[Curves]]:
    import torch

    torch.set_num_threads(1)
    return job, train(job.variant, job.seeds)


def run_study(args: argparse.Namespace) -> int:
    """The ``lab`` command: train, tune, train at the tuned clip ranges, write."""
    out = Path(args.out)
    docs = Path(args.docs) if args.docs else out
    steps, seeds, tuning = (12, 3, 2) if args.quick else (60, args.seeds, args.tuning_seeds)
    if seeds < 2 or tuning < 1:
        raise ValueError(f"--seeds {seeds} --tuning-seeds {tuning}: an interval needs 2 seeds, a choice of clip 1")
    parts = "".join(sorted(set(args.part or "abc")))
    store = Store(out / "runs.jsonl")
    if store.damaged:
        print(f"{store.path}: {store.damaged} damaged lines are left out; their runs are run again", file=sys.stderr)
    study = cases(parts, steps=steps)
    report_on = list(range(seeds))
    tune_on = [_TUNING_BASE + seed for seed in range(tuning)]
    workers = args.workers or os.cpu_count() or 1
    work(store, [(case.at(clip), tune_on) for case in study for clip in CLIPS], workers, "choosing clip ranges")
    sweeps = {case: sweep(store, case, tune_on) for case in study}
    wanted = [
        (case.at(clip), report_on) for case in study for clip in dict.fromkeys((COMMON_CLIP, best_clip(sweeps[case])))
    ]
    work(store, wanted, workers, "reporting seeds")
    outcomes = [
        Outcome(
            case,
            store.results(case.at(COMMON_CLIP), report_on),
            store.results(case.at(best_clip(sweeps[case])), report_on),
            best_clip(sweeps[case]),
            {clip: final for clip, (final, _) in sweeps[case].items()},
        )
        for case in study
    ]
    from .page import write_page

    page = write_page(outcomes, docs, tuning=tuning, quick=args.quick)
    print(f"wrote {page}")
    return 0


def sweep(store: Store, case: Case, seeds: list[int]) -> dict[float, tuple[float, float]]:
    """For each clip range the mean over the tuning seeds of the final reward and of the reward over the whole run."""
    results = {clip: store.results(case.at(clip), seeds) for clip in CLIPS}
    return {
        clip: (sum(r.final for r in runs) / len(runs), sum(r.average for r in runs) / len(runs))
        for clip, runs in results.items()
    }


def best_clip(scores: dict[float, tuple[float, float]]) -> float:
    """The clip range with the best final reward; between equal ones (to 0.01) the one that learned soonest."""
    best = max(final for final, _ in scores.values())
    close = [clip for clip, (final, _) in scores.items() if final >= best - 0.01]
    return max(close, key=lambda clip: scores[clip][1])


def work(store: Store, wanted: list[tuple[Variant, list[int]]], workers: int, what: str) -> None:
    """Train every (variant, seeds) that the store lacks; each finished job is stored at once."""
    jobs = list(_jobs(store, wanted))
    if not jobs:
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    context = multiprocessing.get_context("spawn")
    with (
        Progress(*columns, TimeRemainingColumn()) as progress,
        ProcessPoolExecutor(min(workers, len(jobs)), mp_context=context) as pool,
    ):
        bar = progress.add_task(what, total=sum(_cost(job) for job in jobs))
        said = 0
        for future in as_completed([pool.submit(_run, job) for job in jobs]):
            job, curves = future.result()
            store.add(job.variant, curves)
            progress.advance(bar, _cost(job))
            tenths = int(progress.tasks[0].percentage // 10)
            if not progress.console.is_terminal and tenths > said:  # a log file shows no moving bar
                said = tenths
                print(f"{what}: {10 * tenths}%", flush=True)


def _jobs(store: Store, wanted: list[tuple[Variant, list[int]]]) -> Iterator[Job]:
    """Jobs for the missing runs, the longest first, so that no core waits at the end for a late long one."""
    jobs = []
    for variant in dict.fromkeys(variant for variant, _ in wanted):
        seeds = sorted({seed for other, some in wanted if other == variant for seed in some})
        missing = store.missing(variant, seeds)
        jobs += [Job(variant, missing[i : i + _BLOCK]) for i in range(0, len(missing), _BLOCK)]
    return iter(sorted(jobs, key=_cost, reverse=True))


def _cost(job: Job) -> int:
    """Tokens that a job trains on at each step, the measure of its time."""
    game = job.variant.game
    return len(job.seeds) * game.tokens * sum(game.set_sizes) // len(game.set_sizes)
