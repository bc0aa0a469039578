"""Time of an actor update with sets split over two ranks, against the same rows as sets of one.

    python benchmarks/actor_update.py [--repeats 7] [--json]

Starts two gloo ranks with verl's FSDP2 engine and SRPO's training worker. The rows, their order and the micro-batches
are the same in all three variants; only the sets differ:

    singletons    every row a set of its own: no extra pass
    whole         sets of two, both members on the same rank and in the same micro-batch: no extra pass
    split         sets of two, one member on each rank: one pass without gradients before each update
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VARIANTS = ("singletons", "whole", "split")
ROWS, PROMPT, RESPONSE = 32, 96, 96  # rows a rank


def rank_main(folder: str, repeats: int) -> None:
    import torch
    import torch.distributed as dist
    from tensordict import TensorDict
    from verl.utils import tensordict_utils as tu

    from tests.trainer.engine import VOCABULARY, build_worker

    torch.set_num_threads(1)
    worker = build_worker(folder)
    worker.actor_config = argparse.Namespace(entropy_coeff=0.0, use_kl_loss=False)
    worker.engine_config.use_dynamic_bsz = True
    worker.engine_config.max_token_len_per_gpu = 8 * (PROMPT + RESPONSE)
    rank = int(os.environ["RANK"])
    generator = torch.Generator().manual_seed(rank)
    tokens = torch.randint(3, VOCABULARY, (ROWS, PROMPT + RESPONSE), generator=generator)
    jagged = lambda rows: torch.nested.as_nested_tensor(list(rows), layout=torch.jagged)  # noqa: E731
    sets = {
        "singletons": torch.arange(ROWS) + rank * ROWS,
        "whole": torch.arange(ROWS) // 2 + rank * ROWS,
        "split": torch.arange(ROWS),
    }

    def update(variant: str) -> float:
        size = 1 if variant == "singletons" else 2
        columns = {
            "input_ids": jagged(tokens),
            "position_ids": jagged([torch.arange(PROMPT + RESPONSE)] * ROWS),
            "prompts": jagged(tokens[:, :PROMPT]),
            "responses": jagged(tokens[:, PROMPT:]),
            "response_mask": jagged(torch.ones(ROWS, RESPONSE, dtype=torch.long)),
            "loss_mask": jagged(torch.ones(ROWS, RESPONSE, dtype=torch.long)),
            "old_log_probs": jagged(torch.full((ROWS, RESPONSE), -3.9)),
            "set_id": sets[variant],
            "srpo_advantage": torch.ones(ROWS),
            "srpo_weight": torch.full((ROWS,), size / (2 * ROWS)),
            "srpo_importance": torch.ones(ROWS),
            "srpo_set_size": torch.full((ROWS,), size),
            "srpo_set_tokens": torch.full((ROWS,), size * RESPONSE),
        }
        data = TensorDict(columns, batch_size=ROWS)
        options = {"unit": "set", "member_norm": "mean", "cardinality_norm": "sqrt", "clip_low": 0.2, "clip_high": 0.2}
        tu.assign_non_tensor(
            data,
            num_mini_batch=1,
            temperature=1.0,
            global_batch_size=2 * ROWS,
            calculate_entropy=False,
            srpo={**options, "first_is_old": False},
        )
        dist.barrier()
        started = time.perf_counter()
        output = worker.train_mini_batch(data)
        dist.barrier()
        seconds = time.perf_counter() - started
        extra = tu.get(output, "metrics")["srpo/extra_pass"]
        assert bool(extra[0]) == (variant == "split"), (variant, extra)
        return seconds

    for variant in VARIANTS:
        update(variant)  # warm up
    times = {variant: [] for variant in VARIANTS}
    for _ in range(repeats):  # taken in turns, so that a slow phase of the machine meets all of them
        for variant in VARIANTS:
            times[variant].append(update(variant))
    if rank == 0:
        print("TIMES " + json.dumps(times), flush=True)
    dist.destroy_process_group()


def measure(repeats: int) -> dict[str, list[float]]:
    """Seconds of each update, by variant."""
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    from tests.trainer.engine import make_model

    with tempfile.TemporaryDirectory() as folder:
        make_model(folder, hidden=256, layers=4)
        launcher = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
        command = [sys.executable, "-W", "ignore", *launcher, __file__, "--rank", folder, "--repeats", str(repeats)]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        process = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    if process.returncode:
        sys.exit(process.stdout[-2000:] + process.stderr[-4000:])
    (line,) = [line for line in process.stdout.splitlines() if line.startswith("TIMES ")]
    return json.loads(line.removeprefix("TIMES "))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rank", metavar="MODEL", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.rank:
        rank_main(args.rank, args.repeats)
        return
    times = measure(args.repeats)
    medians = {variant: statistics.median(values) for variant, values in times.items()}
    ratios = {variant: medians[variant] / medians["singletons"] for variant in VARIANTS}
    if args.json:
        print(json.dumps({"benchmark": "actor_update", "median_s": medians, "ratio": ratios, "seconds": times}))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"Actor update, 2 gloo ranks, {2 * ROWS} rows, median of {args.repeats}")
    for heading in ("sets", "seconds", "ratio to singletons", "aim"):
        table.add_column(heading)
    aims = {"singletons": "", "whole": "<= 1.03", "split": "<= 1.40"}
    for variant in VARIANTS:
        table.add_row(variant, f"{medians[variant]:.3f}", f"{ratios[variant]:.3f}", aims[variant])
    Console().print(table)


if __name__ == "__main__":
    main()
