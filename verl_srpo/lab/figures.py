"""The study's figures."""

from collections.abc import Callable, Sequence
from pathlib import Path

from .cases import COMMON_CLIP
from .findings import Interval, Quantity, average, final, interval, spread_ratio
from .results import Result
from .study import Outcome

_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00")


def pyplot():
    """Matplotlib without a display, in the figures' common style."""
    try:
        import matplotlib
    except ModuleNotFoundError:
        raise ValueError('figures need matplotlib: pip install "verl-srpo[plots]"') from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update(
        {
            "axes.grid": True,
            "axes.spines.right": False,
            "axes.spines.top": False,
            "axes.titlesize": "medium",
            "axes.titlelocation": "left",
            "figure.constrained_layout.use": True,
            "font.size": 10,
            "grid.alpha": 0.3,
            "legend.frameon": False,
            "savefig.dpi": 110,
        }
    )
    return plt


def draw_figures(outcomes: Sequence[Outcome], folder: Path) -> list[Path]:
    """Draw the figures of the parts that were run; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    by_part = {part: [o for o in outcomes if o.case.part == part] for part in "abc"}
    units = [o for o in by_part["c"] if o.case.label.startswith("K")]
    lengths = [o for o in by_part["c"] if o.case.label.startswith("lengths")]
    drawn: list[tuple[str, Callable, list[Outcome]]] = [
        ("lab-cardinality.png", _cardinality, by_part["a"]),
        ("lab-reductions.png", _reductions, by_part["b"]),
        ("lab-spread.png", _spread, by_part["b"]),
        ("lab-units.png", _units, units),
        ("lab-lengths.png", _lengths, lengths),
        ("lab-clips.png", _clips, list(outcomes)),
    ]
    plt = pyplot()
    paths = []
    for name, draw, chosen in drawn:
        if chosen:
            figure = draw(plt, chosen)
            save(figure, folder / name)
            plt.close(figure)
            paths.append(folder / name)
    return paths


def save(figure, path: Path) -> None:
    """Write a PNG with a palette of 64 colours, a third of the size of one with true colours."""
    import io

    from PIL import Image

    raw = io.BytesIO()
    figure.savefig(raw, format="png")
    Image.open(raw).convert("RGB").quantize(64, dither=Image.Dither.NONE).save(path, optimize=True)


def _cardinality(plt, outcomes: list[Outcome]):
    return _end_and_whole(plt, outcomes, 3.9)


def _lengths(plt, outcomes: list[Outcome]):
    return _end_and_whole(plt, outcomes, 3.2)


def _reductions(plt, outcomes: list[Outcome]):
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.4))
    for number, outcome in enumerate(outcomes):
        for axis, curve in zip(axes, (lambda r: r.curves.reward, lambda r: r.curves.gradient_norm), strict=True):
            _band(axis, outcome.common, curve, outcome.case.label, _COLOURS[number])
    axes[0].set(title=f"reward at clip {COMMON_CLIP}", xlabel="step", ylim=(0, 1.02))
    axes[1].set(title=f"gradient norm at clip {COMMON_CLIP}", xlabel="step", ylim=(0, None))
    axes[0].legend(fontsize="small")
    return figure


def _spread(plt, outcomes: list[Outcome]):
    figure, axis = plt.subplots(figsize=(5.2, 3.6))
    outcome = next(o for o in outcomes if o.case.label == "event_mean")
    sizes = outcome.case.variant.game.set_sizes
    ratios = [spread_ratio(outcome.common, size) for size in sizes]
    _points(axis, range(len(sizes)), ratios, "square root, measured", _COLOURS[0])
    for name, factor, style in (("none", lambda k: k, "--"), ("mean", lambda k: 1 / k, ":")):
        values = [ratio.mean * factor(size) for ratio, size in zip(ratios, sizes, strict=True)]
        axis.plot(range(len(sizes)), values, style, color="0.4", label=f"the same sets under {name}")
    axis.axhline(1.0, color="0.7", lw=0.8)
    axis.set(title="Var(L_S) / Var(l_j)", xlabel="set size K", yscale="log")
    axis.set_xticks(range(len(sizes)), map(str, sizes))
    axis.legend(fontsize="small")
    return figure


def _units(plt, outcomes: list[Outcome]):
    figure, axes = plt.subplots(1, 2, figsize=(9, 3.6), sharey=True)
    sizes = sorted({o.case.variant.game.largest_set for o in outcomes})
    for axis, own in zip(axes, (False, True), strict=True):
        for number, unit in enumerate(("set", "member", "token")):
            chosen = [o for o in outcomes if o.case.variant.unit == unit]
            points = [interval(o.own if own else o.common, final) for o in chosen]
            _points(axis, range(len(sizes)), points, unit, _COLOURS[number], line=True, shift=0.06 * (number - 1))
        axis.set_xticks(range(len(sizes)), map(str, sizes))
        axis.set(xlabel="set size K", ylim=(0, 1.02))
        axis.set_title("final reward, each at its own best clip" if own else f"final reward at clip {COMMON_CLIP}")
    axes[0].legend(fontsize="small", title="what is clipped")
    return figure


def _clips(plt, outcomes: list[Outcome]):
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        head, _, _ = outcome.case.label.partition(", ")
        groups.setdefault(f"({outcome.case.part}) {head if outcome.case.part != 'b' else 'reductions'}", []).append(
            outcome
        )
    groups = {title: chosen for title, chosen in groups.items() if len(chosen) > 1}
    columns = min(4, len(groups))
    rows = -(-len(groups) // columns)
    figure, axes = plt.subplots(rows, columns, figsize=(2.9 * columns, 2.5 * rows), sharey=True, squeeze=False)
    for axis, (title, chosen) in zip(axes.flat, groups.items(), strict=False):
        for number, outcome in enumerate(chosen):
            clips, scores = zip(*sorted(outcome.sweep.items()), strict=True)
            label = outcome.case.label.partition(", ")[2] or outcome.case.label
            axis.plot(clips, scores, "o-", ms=3, lw=1.2, color=_COLOURS[number % len(_COLOURS)], label=label)
        axis.axvline(COMMON_CLIP, color="0.6", lw=0.8, ls=":")
        axis.set(title=title, xscale="log", ylim=(0, 1.04))
        axis.set_xticks(clips, [f"{clip:g}" for clip in clips])
        axis.minorticks_off()
        axis.legend(fontsize="x-small")
    for axis in axes.flat[len(groups) :]:
        axis.set_visible(False)
    figure.supxlabel(f"clip range (dotted: the common one, {COMMON_CLIP})", fontsize="medium")
    figure.supylabel("final reward, tuning seeds", fontsize="medium")
    return figure


def _end_and_whole(plt, outcomes: list[Outcome], height: float):
    """Final reward, and the reward over the whole run, of each case."""
    figure, axes = plt.subplots(1, 2, figsize=(9, height), sharey=True)
    _scores(axes[0], outcomes, final)
    _scores(axes[1], outcomes, average)
    axes[0].set_title("final reward")
    axes[1].set_title("mean reward over the run")
    axes[0].legend(fontsize="small", loc="lower left")
    return figure


def _scores(axis, outcomes: list[Outcome], quantity: Quantity) -> None:
    """Points with intervals, one row a case: hollow at the common clip range, full at its own best."""
    colour = _COLOURS[0]
    for row, outcome in enumerate(outcomes):
        for results, face, shift, label in (
            (outcome.common, "white", 0.14, f"at clip {COMMON_CLIP}"),
            (outcome.own, colour, -0.14, "at its own best"),
        ):
            point = interval(results, quantity)
            bars = [[point.mean - point.low], [point.high - point.mean]]
            label = label if row == 0 else None
            axis.errorbar(
                point.mean, -row + shift, xerr=bars, fmt="o", color=colour, mfc=face, ms=5, capsize=2, label=label
            )
    axis.set_yticks([-row for row in range(len(outcomes))], [o.case.label for o in outcomes])
    axis.set_xlim(0, 1.02)


def _points(axis, x, points: Sequence[Interval], label: str, colour: str, *, line: bool = False, shift: float = 0.0):
    """Means with their intervals at places along the axis."""
    means = [point.mean for point in points]
    bars = [[point.mean - point.low for point in points], [point.high - point.mean for point in points]]
    places = [place + shift for place in x]
    axis.errorbar(
        places, means, yerr=bars, fmt="o-" if line else "o", color=colour, ms=4, lw=1.2, capsize=2, label=label
    )


def _band(axis, results: Sequence[Result], curve: Callable[[Result], list[float]], label: str, colour: str) -> None:
    """Mean over seeds with its interval, step by step."""
    steps = range(1, len(curve(results[0])) + 1)
    quantities: list[Quantity] = [lambda result, i=i: curve(result)[i] for i in range(len(steps))]
    points = [interval(results, quantity) for quantity in quantities]
    axis.plot(steps, [point.mean for point in points], color=colour, lw=1.4, label=label)
    axis.fill_between(steps, [p.low for p in points], [p.high for p in points], color=colour, alpha=0.18, lw=0)
