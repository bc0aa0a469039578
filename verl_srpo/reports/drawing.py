"""How charts look, and the few kinds of them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .runs import Band, Series

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#8C564B", "#7F7F7F")
_STYLE: dict[Any, Any] = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "figure.constrained_layout.use": True,
    "figure.figsize": (4.8, 3.1),
    "font.size": 10,
    "grid.alpha": 0.3,
    "legend.fontsize": "small",
    "legend.frameon": False,
    "lines.linewidth": 1.4,
    "savefig.dpi": 160,
}


@dataclass(frozen=True)
class Chart:
    """A finished chart. name: of its PNG file, without ending; caption: one or two sentences on how to read it."""

    section: str
    name: str
    title: str
    caption: str
    figure: Any


def pyplot():
    """Matplotlib without a display, in the report's style.

    Raises:
        ValueError: matplotlib is not installed; the message names the extra.
    """
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ValueError('reports need matplotlib: pip install "verl-srpo[plots]"') from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(_STYLE)
    return plt


def colour(number: int) -> str:
    """The colour of the n-th line; they repeat after eight."""
    return COLOURS[number % len(COLOURS)]


def new_axes(ylabel: str = ""):
    """An empty chart over steps: figure and axes."""
    figure, axes = pyplot().subplots()
    from matplotlib.ticker import MaxNLocator

    axes.set_xlabel("step")
    axes.set_ylabel(ylabel)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    return figure, axes


def log_scale(axes) -> None:
    """A logarithmic axis with plain numbers at 1, 2 and 5 of each decade."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def line(axes, band: Band, label: str, shade: str, *, style: str = "-") -> None:
    """A mean with its deviation over seeds; a run of a step or two shows its points."""
    marker = "o" if len(band.steps) < 3 else None
    axes.plot(band.steps, band.mean, style, color=shade, label=label, marker=marker, ms=4)
    if band.deviation.any():
        low, high = band.mean - band.deviation, band.mean + band.deviation
        axes.fill_between(band.steps, low, high, color=shade, alpha=0.18, lw=0)


def finish(axes, *, bottom: float | None = None, top: float | None = None) -> None:
    """Limits of what has been drawn, and a legend where there is something to tell apart; beside the axes when long."""
    axes.set_ylim(bottom=bottom, top=top)
    handles, _ = axes.get_legend_handles_labels()
    if 1 < len(handles) <= 5:
        axes.legend()
    elif len(handles) > 5:
        axes.legend(loc="upper left", bbox_to_anchor=(1.0, 1.0))


def mark(axes, series: Series, places: np.ndarray, shade: str) -> None:
    """Circles around single values of a series, at indices ``places``."""
    if len(places):
        axes.plot(series.steps[places], series.values[places], "o", color=shade, mfc="none", ms=7)


def stack(axes, steps: np.ndarray, layers: dict[str, np.ndarray]) -> None:
    """Layers on top of each other, the first at the bottom."""
    axes.stackplot(
        steps,
        list(layers.values()),
        labels=list(layers),
        colors=[colour(i) for i in range(len(layers))],
        alpha=0.85,
        lw=0,
    )


def bars(axes, groups: Sequence[str], parts: Mapping[str, Sequence[float]]) -> None:
    """One horizontal bar a group, cut into named parts."""
    left = np.zeros(len(groups))
    for number, (name, widths) in enumerate(parts.items()):
        axes.barh(range(len(groups)), widths, left=left, color=colour(number), label=name, height=0.6)
        left += np.asarray(widths)
    axes.set_yticks(range(len(groups)), groups)
    axes.invert_yaxis()
    axes.grid(axis="y", visible=False)
