"""Packing of a global batch: time, and how even the ranks are, against verl's own partition of the same rows.

python benchmarks/packing.py [--rows 1000 10000 100000] [--rounds 5] [--json FILE]

Lengths are log-normal and cut at 4,096 tokens, as responses are; sets have 1 to the given number of members; tasks have
about twelve rows. Imbalance is the heaviest rank's tokens over the mean. verl's partition moves single rows and does
not know sets or mini-batches; ours moves whole sets, for each mini-batch.
"""

import argparse
import json
import os
import platform
import statistics
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions

from verl_srpo.core import pack_micro_batches, pack_mini_batches

LONGEST = 4096
CASES = ((1, 2, 1), (4, 8, 1), (4, 8, 4), (8, 64, 8))  # largest set, ranks, mini-batches


@dataclass
class Packing:
    rows: int
    largest_set: int
    ranks: int
    mini_batches: int
    seconds: float
    verl_seconds: float
    micro_batch_seconds: float
    padding_rows: int
    imbalance: float
    mini_batch_imbalance: float
    verl_imbalance: float
    imbalance_ratio: float


def draw_rows(rows: int, largest_set: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(set_ids, tokens, task_ids) in random order."""
    rng = np.random.default_rng(0)
    set_ids = np.repeat(np.arange(rows), rng.integers(1, largest_set + 1, rows))[:rows]
    tokens = np.minimum(rng.lognormal(6.0, 0.8, rows).astype(np.int64) + 1, LONGEST)
    order = rng.permutation(rows)
    return set_ids[order], tokens[order], set_ids[order] * (largest_set + 1) // 24


def timed(call, rounds: int):
    times = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return result, statistics.median(times)


def measure(rows: int, largest_set: int, ranks: int, mini_batches: int, rounds: int) -> Packing:
    set_ids, tokens, tasks = draw_rows(rows, largest_set)
    options = {"ranks": ranks, "mini_batches": mini_batches, "task_ids": tasks}
    layout, seconds = timed(lambda: pack_mini_batches(set_ids, tokens, **options), rounds)
    real = layout.order >= 0
    load = np.zeros((mini_batches, ranks))
    np.add.at(load, (layout.mini_batch_of()[real], layout.rank_of()[real]), tokens[layout.order[real]])
    imbalance = load.sum(0).max() / load.sum(0).mean()

    equal = tokens[: rows // ranks * ranks]  # verl pads the batch to a multiple of the ranks
    parts, verl_seconds = timed(lambda: get_seqlen_balanced_partitions(equal.tolist(), ranks, equal_size=True), 1)
    verl_load = np.array([equal[part].sum() for part in parts])
    verl_imbalance = verl_load.max() / verl_load.mean()

    mine = layout.order[: layout.rows_per_mini]
    mine = mine[mine >= 0]
    _, micro = timed(lambda: pack_micro_batches(set_ids[mine], tokens[mine], max_tokens=32_768), rounds)
    return Packing(
        rows,
        largest_set,
        ranks,
        mini_batches,
        seconds,
        verl_seconds,
        micro,
        int((~real).sum()),
        imbalance,
        (load.max(1) / load.mean(1)).max(),
        verl_imbalance,
        imbalance / verl_imbalance,
    )


def show(packings: list[Packing], machine: str) -> None:
    table = Table(title=f"Packing into mini-batches and ranks, {machine}")
    headings = ("rows", "sets up to", "ranks", "mini-batches", "ours, s", "verl, s", "micro, s", "padding")
    for heading in (*headings, "imbalance", "a mini-batch", "verl", "ours / verl"):
        table.add_column(heading, justify="right")
    for one in packings:
        figures = (one.imbalance, one.mini_batch_imbalance, one.verl_imbalance)
        table.add_row(
            f"{one.rows:,}",
            str(one.largest_set),
            str(one.ranks),
            str(one.mini_batches),
            *(f"{figure:.3f}" for figure in (one.seconds, one.verl_seconds, one.micro_batch_seconds)),
            str(one.padding_rows),
            *(f"{figure:.6f}" for figure in (*figures, one.imbalance_ratio)),
        )
    Console(width=140).print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000, 10_000, 100_000])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    packings = [measure(rows, *case, args.rounds) for rows in args.rows for case in CASES]
    machine = f"{platform.machine()} CPU, one of {os.cpu_count()} cores"
    show(packings, machine)
    if args.json:
        args.json.write_text(
            json.dumps({"machine": machine, "packings": [asdict(one) for one in packings]}, indent=1) + "\n"
        )


if __name__ == "__main__":
    main()
