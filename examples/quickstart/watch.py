"""Runs the training command with its console output in train.log, shows how it gets on, one line a step, and leaves
the result in summary.txt."""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from metrics import Metrics, ends

# what verl's output says at the beginning of each phase, in their order
PHASES = {
    "ray init": "starting Ray",
    "(TaskRunner": "building the trainer",
    "(WorkerDict": "loading the model for training",
    "(vLLMHttpServer": "starting vLLM",
    "AgentLoopWorker": "first rollouts",
}


def phase_of(log: str) -> str:
    """The latest phase that the log shows."""
    begun = [phase for mark, phase in PHASES.items() if mark in log]
    return begun[-1] if begun else "starting Python"


def header(metrics: Metrics) -> str:
    """What the columns of `step_line` are; for each set size K: sets, spread of their log-ratios, share clipped."""
    sizes = "".join(f"{f'K={size}: sets':>11} spread clip" for size in metrics.set_sizes())
    return f"{'step':>8} {'reward':>7} {'valid.':>7}{sizes} {'seconds':>8}"


def step_line(metrics: Metrics, step: int, total: int) -> str:
    """One step's figures."""
    values = metrics.by_step[step]
    reward, validation = dict(metrics.reward()).get(step), dict(metrics.validation()).get(step)
    line = f"{f'{step}/{total}':>8} {_number(reward):>7} {_number(validation):>7}"
    for size in metrics.set_sizes():
        count, spread = values.get(f"srpo/k{size}/count"), values.get(f"srpo/k{size}/log_ratio_std")
        clipped = dict(metrics.clip_fraction(size)).get(step)
        line += f"{_number(count, digits=0):>11} {_number(spread):>6} {'' if clipped is None else f'{clipped:.0%}':>4}"
    return f"{line} {_number(values.get('timing_s/step'), digits=1):>8}"


def _number(value: float | None, digits: int = 3) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def summary(metrics: Metrics, seconds: float) -> str:
    """Reward and validation accuracy before and after (or at the only time), in one line."""
    curves = {"reward": (metrics.reward(), 3), "validation accuracy": (metrics.validation(), 1)}
    parts = []
    for name, (curve, width) in curves.items():
        if both := ends(curve, width):
            shown = both if len(curve) > 1 else both[:1]
            parts.append(f"{name} {' -> '.join(f'{value:.2f}' for value in shown)}")
    return f"{', '.join(parts) or 'no metrics'} ({max(metrics.by_step, default=0)} steps, {seconds:.0f} s)"


class Screen:
    """Lines that stay, and on a terminal one below them that is rewritten; elsewhere that one every 15 seconds."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self._last_status = 0.0

    def line(self, text: str) -> None:
        print(f"\r\033[K{text}" if self.live else text, flush=True)

    def clear(self) -> None:
        if self.live:
            print("\r\033[K", end="", flush=True)

    def status(self, text: str) -> None:
        if self.live:
            print(f"\r\033[K{text}", end="", flush=True)
        elif time.monotonic() - self._last_status >= 15:
            self._last_status = time.monotonic()
            print(text, flush=True)


def follow(process: subprocess.Popen, run: Path, total: int) -> None:
    """Show the phases and the steps until the process ends."""
    screen, start, shown, sizes = Screen(), time.monotonic(), -1, None
    while True:
        ended = process.poll() is not None
        metrics = Metrics.read(run / "metrics.jsonl")
        # the last step that has metrics may still get those of its validation, until the next one or the end
        done = [step for step in sorted(metrics.by_step) if step > shown]
        for step in done if ended else done[:-1]:
            if metrics.set_sizes() != sizes:
                sizes = metrics.set_sizes()
                screen.line(header(metrics))
            screen.line(step_line(metrics, step, total))
            shown = step
        if ended:
            break
        if metrics.by_step:
            latest = max(metrics.by_step)
            screen.status(f"step {latest} of {total} done, {time.monotonic() - start:.0f} s")
        else:
            log = (run / "train.log").read_text(errors="replace")
            screen.status(f"{phase_of(log)}, {time.monotonic() - start:.0f} s")
        time.sleep(1)
    screen.clear()


def stop(process: subprocess.Popen) -> None:
    """End the job: an interrupt, so that Ray tidies up, and after ten seconds the whole process group."""
    os.killpg(process.pid, signal.SIGINT)
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path, help="folder of the run")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("command", nargs="+", help="after --")
    arguments = parser.parse_args()

    start = time.monotonic()
    log = arguments.run / "train.log"
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with log.open("w") as output:
        process = subprocess.Popen(
            arguments.command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True
        )
    try:
        follow(process, arguments.run, arguments.steps)
    except (KeyboardInterrupt, SystemExit):
        print(f"\nstopping; the output so far is in {log}", file=sys.stderr)
        stop(process)
        return 130
    if process.returncode != 0:
        tail = log.read_text(errors="replace").splitlines()[-30:]
        print("\n".join(tail), file=sys.stderr)
        print(f"\ntraining ended with status {process.returncode}; its whole output is in {log}", file=sys.stderr)
        return process.returncode
    line = summary(Metrics.read(arguments.run / "metrics.jsonl"), time.monotonic() - start)
    (arguments.run / "summary.txt").write_text(f"{line}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
