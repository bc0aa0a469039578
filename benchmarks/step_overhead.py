"""Time of a whole training step with the plugin against verl's stock GRPO, on the same rows.

    VERL_PLATFORM=cpu python benchmarks/step_overhead.py [--steps 10] [--json]

Two real `main_ppo` jobs on the CPU, one after the other and twice: stock GRPO with verl's single-turn loop, and
`adv_estimator=srpo` over the same loop (`srpo.workflow=null`: each row a set of its own), the same tasks in the same
order and the same seed; with a learning rate of 0, since policies that move apart answer at different lengths. Compared
are medians over steps, the first two left out.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
VARIANTS = {
    "stock grpo": ["algorithm.adv_estimator=grpo"],
    "plugin": ["algorithm.adv_estimator=srpo", "+srpo=grpo", "srpo.workflow=null"],
}
WARM_UP = 2
TOTAL = "step without rollout"


PHASES = {
    "log-probs": lambda step: step["timing_s/old_log_prob"],
    "advantages": lambda step: step["timing_s/adv"],
    "actor update": lambda step: step["timing_s/update_actor"],
    "weight sync": lambda step: step["timing_s/update_weights"],
    TOTAL: lambda step: step["timing_s/step"] - step["timing_s/gen"],
    "whole step": lambda step: step["timing_s/step"],
}


def measure(steps: int, rounds: int) -> dict[str, list[dict]]:
    """verl's metrics of each step, by variant."""
    sys.path.insert(0, str(ROOT))
    os.environ.setdefault("VERL_PLATFORM", "cpu")
    from tests.e2e.jobs import ACTOR, ROLLOUT, run
    from tests.e2e.toy import make_data, make_model

    measured: dict[str, list[dict]] = {variant: [] for variant in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        toy = Path(folder) / "toy"
        toy.mkdir()
        make_model(toy)
        make_data(toy)
        for number in range(rounds):
            for variant, overrides in VARIANTS.items():
                job = run(
                    Path(folder) / f"{variant.replace(' ', '_')}_{number}",
                    toy,
                    *overrides,
                    "data.train_batch_size=16",
                    f"{ACTOR}.ppo_mini_batch_size=16",
                    f"{ACTOR}.optim.lr=0",
                    f"{ROLLOUT}.n=8",
                    "data.max_prompt_length=128",
                    "data.max_response_length=256",
                    f"trainer.total_training_steps={steps}",
                )
                measured[variant] += job.steps[WARM_UP:]
    return measured


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    measured = measure(args.steps, args.rounds)
    medians = {
        phase: {variant: statistics.median(map(seconds, steps)) for variant, steps in measured.items()}
        for phase, seconds in PHASES.items()
    }
    if args.json:
        print(json.dumps({"benchmark": "step_overhead", "median_s": medians}))
        return
    from rich.console import Console
    from rich.table import Table

    lengths = {v: statistics.fmean(step["response_length/mean"] for step in steps) for v, steps in measured.items()}
    table = Table(title=f"Seconds of a step, 128 rows, medians of {len(measured['plugin'])}")
    for heading in ("", *VARIANTS, "ratio"):
        table.add_column(heading, justify="right" if heading else "left")
    for phase, of in medians.items():
        stock, plugin = (of[variant] for variant in VARIANTS)
        aim = " (aim: 1.05)" if phase == TOTAL else ""
        table.add_row(phase, f"{stock:.3f}", f"{plugin:.3f}", f"{plugin / stock:.3f}{aim}")
    table.add_row("tokens of a response", *(f"{length:.1f}" for length in lengths.values()))
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
