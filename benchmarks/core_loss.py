"""Forward and backward of srpo_loss against verl's gspo loss on the same tensors: time and peak memory.

python benchmarks/core_loss.py [--device cuda] [--set-sizes 1 2 4 8] [--rounds 15] [--json FILE]

Responses have random lengths; the mask is int64, as verl hands it over. The two take turns, so that whatever else the
machine does falls on both, and each begins with memory given back to the system: freeing what the other has left would
be timed otherwise. Memory is what each allocates on top of its arguments, gradient included.
"""

import argparse
import ctypes
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.workers.config import FSDPActorConfig

from verl_srpo.core import srpo_loss

SHAPES = ((1024, 1024), (4096, 2048))
TARGET = 0.15


@dataclass
class Comparison:
    rows: int
    tokens: int
    set_size: int
    gspo_ms: float
    srpo_ms: float
    time_ratio: float
    gspo_mib: float
    srpo_mib: float


class Batch:
    def __init__(self, rows: int, tokens: int, set_size: int, device: str):
        draw = torch.Generator().manual_seed(0)
        self.old_log_prob = (-1.0 + 0.5 * torch.randn(rows, tokens, generator=draw)).to(device)
        step = 1e-3 * torch.randn(rows, tokens, generator=draw).to(device)
        self.log_prob = (self.old_log_prob + step).requires_grad_()
        lengths = torch.randint(tokens // 8, tokens + 1, (rows, 1), generator=draw)
        self.response_mask = (torch.arange(tokens) < lengths).long().to(device)
        self.set_ids = (torch.arange(rows) // set_size).to(device)
        self.advantages = (
            torch.randn(-(-rows // set_size), generator=draw).repeat_interleave(set_size)[:rows].to(device)
        )
        self.token_advantages = self.advantages[:, None].expand(rows, tokens).contiguous()
        self.config = FSDPActorConfig(strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1)
        self.gspo_loss = get_policy_loss_fn("gspo")

    def gspo(self) -> None:
        tensors = (self.old_log_prob, self.log_prob, self.token_advantages, self.response_mask)
        self.gspo_loss(*tensors, "seq-mean-token-mean", self.config)[0].backward()

    def srpo(self) -> None:
        tensors = (self.log_prob, self.old_log_prob, self.response_mask, self.set_ids, self.advantages)
        srpo_loss(*tensors)[0].backward()

    def forget(self) -> None:
        """Gives all memory of earlier steps back."""
        self.log_prob.grad = None
        if self.log_prob.device.type == "cpu" and sys.platform == "linux":
            ctypes.CDLL(None).malloc_trim(0)


def seconds(step: Callable[[], None], batch: Batch, device: str) -> float:
    batch.forget()
    synchronize(device)
    start = time.perf_counter()
    step()
    synchronize(device)
    return time.perf_counter() - start


def synchronize(device: str) -> None:
    if device == "cuda":
        torch.cuda.synchronize()


def peak_mib(step: Callable[[], None], batch: Batch, device: str) -> float:
    """Most memory that a step holds at once beyond what was allocated before it."""
    batch.forget()
    if device == "cuda":
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        step()
        torch.cuda.synchronize()
        return (torch.cuda.max_memory_allocated() - before) / 2**20
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as recorded:
        step()
    events = [event for event in recorded.profiler.kineto_results.events() if event.name() == "[memory]"]
    held = peak = 0
    for event in sorted(events, key=lambda one: one.start_ns()):
        held += event.nbytes()
        peak = max(peak, held)
    return peak / 2**20


def compare(rows: int, tokens: int, set_size: int, device: str, rounds: int) -> Comparison:
    batch = Batch(rows, tokens, set_size, device)
    for _ in range(5):
        batch.gspo()
        batch.srpo()
    times: dict[str, list[float]] = {"gspo": [], "srpo": []}
    for _ in range(rounds):
        times["gspo"].append(seconds(batch.gspo, batch, device))
        times["srpo"].append(seconds(batch.srpo, batch, device))
    gspo, srpo = (1000 * statistics.median(times[name]) for name in ("gspo", "srpo"))
    memory = [peak_mib(step, batch, device) for step in (batch.gspo, batch.srpo)]
    return Comparison(rows, tokens, set_size, gspo, srpo, srpo / gspo, *memory)


def show(comparisons: list[Comparison], machine: str) -> None:
    table = Table(title=f"Forward and backward, {machine}; time ratio at most {TARGET}, memory no higher")
    for heading in ("rows x tokens", "set size", "gspo, ms", "srpo, ms", "ratio", "gspo, MiB", "srpo, MiB"):
        table.add_column(heading, justify="right")
    for one in comparisons:
        reached = one.time_ratio <= TARGET and one.srpo_mib <= one.gspo_mib
        table.add_row(
            f"{one.rows} x {one.tokens}",
            str(one.set_size),
            f"{one.gspo_ms:.2f}",
            f"{one.srpo_ms:.2f}",
            f"[{'green' if reached else 'red'}]{one.time_ratio:.3f}[/]",
            f"{one.gspo_mib:.0f}",
            f"{one.srpo_mib:.0f}",
        )
    Console(width=100).print(table)


def machine_of(device: str) -> str:
    if device == "cuda":
        return torch.cuda.get_device_name()
    return f"{platform.machine()} CPU, {torch.get_num_threads()} threads of {os.cpu_count()} cores"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--set-sizes", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, help="CPU threads (default: torch's)")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    args = parser.parse_args()
    if args.device == "cuda" and not torch.cuda.is_available():
        parser.error("--device cuda: torch sees no CUDA device here")
    if args.threads:
        torch.set_num_threads(args.threads)
    comparisons = [
        compare(rows, tokens, set_size, args.device, args.rounds)
        for rows, tokens in SHAPES
        for set_size in args.set_sizes
    ]
    machine = machine_of(args.device)
    show(comparisons, machine)
    if args.json:
        record = {"machine": machine, "torch": torch.__version__, "comparisons": [asdict(one) for one in comparisons]}
        args.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
