"""Runs the training command with its console output in a file, and shows how it gets on, one line a step."""

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
HEADER = f"{'step':>9} {'reward':>7} {'valid.':>7}   sets: count, spread of the log-ratio, clipped{'seconds':>22}"


def phase_of(log: str) -> str:
    """The latest phase that the log shows."""
    begun = [phase for mark, phase in PHASES.items() if mark in log]
    return begun[-1] if begun else "starting Python"


def step_line(metrics: Metrics, step: int, total: int) -> str:
    """One step's figures."""
    values = metrics.by_step[step]
    reward, validation = dict(metrics.reward()).get(step), dict(metrics.validation()).get(step)
    sets = "; ".join(
        f"{values[f'srpo/k{size}/count']:.0f} of {size}, {values[f'srpo/k{size}/log_ratio_std']:.3f},"
        f" {dict(metrics.clip_fraction(size)).get(step, 0):.0%}"
        for size in metrics.set_sizes()
        if f"srpo/k{size}/count" in values
    )
    seconds = values.get("timing_s/step")
    return (
        f"{f'{step}/{total}':>9} {_number(reward):>7} {_number(validation):>7}   {sets:<54}"
        f" {f'{seconds:.1f}' if seconds is not None else '':>10}"
    )


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def summary(metrics: Metrics, seconds: float) -> str:
    """Reward and validation accuracy before and after, in one line."""
    reward, validation = ends(metrics.reward(), width=3), ends(metrics.validation())
    parts = []
    if reward:
        parts.append(f"reward {reward[0]:.2f} -> {reward[1]:.2f}")
    if validation:
        parts.append(f"validation accuracy {validation[0]:.2f} -> {validation[1]:.2f}")
    return f"{', '.join(parts) or 'no metrics'} ({max(metrics.by_step, default=0)} steps, {seconds:.0f} s)"


class Screen:
    """Lines that stay, and on a terminal one below them that is rewritten; elsewhere that one every 15 seconds."""

    def __init__(self) -> None:
        self.live = sys.stdout.isatty()
        self._last_status = 0.0

    def line(self, text: str) -> None:
        print(f"\r\033[K{text}" if self.live else text, flush=True)

    def status(self, text: str) -> None:
        if self.live:
            print(f"\r\033[K{text}", end="", flush=True)
        elif time.monotonic() - self._last_status >= 15:
            self._last_status = time.monotonic()
            print(text, flush=True)


def follow(process: subprocess.Popen, run: Path, total: int) -> None:
    """Show the phases and the steps until the process ends."""
    screen, start, shown = Screen(), time.monotonic(), -1
    while True:
        ended = process.poll() is not None
        metrics = Metrics.read(run / "metrics.jsonl")
        # the last step that has metrics may still get those of its validation, until the next one or the end
        done = [step for step in sorted(metrics.by_step) if step > shown]
        for step in done if ended else done[:-1]:
            if shown < 0:
                screen.line(HEADER)
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
    screen.line("")


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
    print(summary(Metrics.read(arguments.run / "metrics.jsonl"), time.monotonic() - start))
    return 0


if __name__ == "__main__":
    sys.exit(main())
