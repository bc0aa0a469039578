"""Draws training.png: reward, validation accuracy, and by set size the spread of the set ratios and the clipping."""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from metrics import Metrics


def draw(metrics: Metrics, output: Path, title: str = "") -> None:
    figure, ((reward, validation), (spread, clipping)) = pyplot.subplots(2, 2, figsize=(10, 6.4), sharex=True)
    _line(reward, metrics.reward(), color="tab:blue")
    reward.set(title="Training reward", ylabel="mean outcome of an episode")
    _line(validation, metrics.validation(), color="tab:green", marker="o")
    validation.set(title="Validation accuracy", ylabel="share of test tasks")
    for size in metrics.set_sizes():
        label = f"sets of {size}" if size > 1 else "sets of 1"
        _line(spread, metrics.curve(f"srpo/k{size}/log_ratio_std"), label=label)
        _line(clipping, metrics.clip_fraction(size), label=label)
    spread.set(title="Spread of the set log-ratio", ylabel="standard deviation", xlabel="step")
    clipping.set(title="Clipped sets", ylabel="share", xlabel="step")
    for axes in (spread, clipping):
        if axes.lines:
            axes.legend()
    for axes in figure.axes:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    for axes in (reward, validation, clipping):
        axes.set_ylim(0, max(1.0, axes.get_ylim()[1]) if axes is not clipping else None)
    if title:
        figure.suptitle(title)
    figure.tight_layout()
    figure.savefig(output, dpi=120)
    pyplot.close(figure)


def _line(axes, curve, **style) -> None:
    if curve:
        axes.plot(*zip(*curve, strict=True), **style)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("metrics", type=Path, help="metrics.jsonl of a run")
    parser.add_argument("output", type=Path, nargs="?", help="default: training.png beside it")
    parser.add_argument("--title", default="")
    arguments = parser.parse_args()
    metrics = Metrics.read(arguments.metrics)
    if not metrics.by_step:
        parser.error(f"{arguments.metrics} has no metrics yet")
    draw(metrics, arguments.output or arguments.metrics.with_name("training.png"), arguments.title)


if __name__ == "__main__":
    main()
