"""The report's charts: each function turns groups of runs into charts, into none where the log lacks the numbers."""

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from . import drawing
from .drawing import Chart, colour
from .runs import Band, Group
from .signals import MACRO, REWARDS, spikes, totals, validations, variation

LEARNING, SETS, OPTIMISATION, ROLLOUT, TIME = "Learning", "Sets", "Optimisation", "Rollout", "Time"
_PHASES = ("gen", "reward", "old_log_prob", "ref", "values", "adv", "update_critic", "update_actor", "update_weights")
_STYLES = ("-", "--", ":", "-.")

Groups = Sequence[Group]


def all_charts(groups: Groups) -> Iterator[Chart]:
    """Every chart that the runs have numbers for, in reading order; a figure is open until it is drawn."""
    for panel in PANELS:
        yield from panel(groups)


def _one_line_a_group(
    groups: Groups,
    section: str,
    name: str,
    title: str,
    caption: str,
    find: Callable[[Group], Band | None],
    **limits: float,
) -> Iterator[Chart]:
    """A chart with one line a group; nothing when no group has it."""
    bands = [(number, group.name, find(group)) for number, group in enumerate(groups)]
    if all(band is None for _, _, band in bands):
        return
    figure, axes = drawing.new_axes()
    for number, label, band in bands:
        if band is not None:
            drawing.line(axes, band, label, colour(number))
    drawing.finish(axes, **limits)
    yield Chart(section, name, title, caption, figure)


def reward(groups: Groups) -> Iterator[Chart]:
    yield from _one_line_a_group(
        groups, LEARNING, "reward", "Training reward", "Mean outcome reward of the step's episodes.", _reward
    )


def _reward(group: Group) -> Band | None:
    found = group.first_of(*REWARDS)
    return found[1] if found else None


def validation(groups: Groups) -> Iterator[Chart]:
    found = [validations(group) for group in groups]
    names = sorted({name for bands in found for name in bands}, key=lambda name: (name != MACRO, name))
    for number, name in enumerate(names):
        yield from _one_line_a_group(
            groups,
            LEARNING,
            f"validation-{number}",
            f"Validation: {name}",
            "Unweighted mean over the data sets." if name == MACRO else "Mean score of the validation samples.",
            lambda group, name=name: found[groups.index(group)].get(name),
        )


def cost(groups: Groups) -> Iterator[Chart]:
    yield from _one_line_a_group(
        groups,
        LEARNING,
        "cost",
        "Validation: team tokens an episode",
        "Tokens that the whole team generates for one answer.",
        lambda group: group.band("val-srpo/cost/team_tokens"),
        bottom=0,
    )


def set_ratios(groups: Groups) -> Iterator[Chart]:
    for group in groups:
        means, deviations = (group.matching(rf"srpo/k(\d+)/log_ratio_{part}") for part in ("mean", "std"))
        extremes = group.matching(r"srpo/k(\d+)/log_ratio_extreme")
        if not means:
            continue
        figure, axes = drawing.new_axes(ylabel="set log-ratio")
        for number, (size, mean) in enumerate(means.items()):
            shade = colour(number)
            axes.plot(mean.steps, mean.mean, color=shade, label=f"K = {size}")
            if size in deviations and len(deviations[size].steps) == len(mean.steps):
                spread = deviations[size].mean
                axes.fill_between(mean.steps, mean.mean - spread, mean.mean + spread, color=shade, alpha=0.2, lw=0)
            if size in extremes:
                axes.plot(extremes[size].steps, extremes[size].mean, ".", color=shade, ms=3)
        drawing.finish(axes)
        yield Chart(
            SETS,
            f"set-ratios-{_slug(group)}",
            _titled("Set log-ratio by set size", group, groups),
            "Mean, one standard deviation over the sets (shaded), and the set farthest from zero (dots).",
            figure,
        )


def clipping(groups: Groups) -> Iterator[Chart]:
    for group in groups:
        sides = {side: group.matching(rf"srpo/k(\d+)/clip_{side}") for side in ("high", "low")}
        if not any(sides.values()):
            continue
        figure, axes = drawing.new_axes(ylabel="share of sets")
        for side, style in (("high", "-"), ("low", "--")):
            for number, (size, band) in enumerate(sides[side].items()):
                drawing.line(axes, band, f"K = {size}" if side == "high" else "_", colour(number), style=style)
        drawing.finish(axes, bottom=0)
        yield Chart(
            SETS,
            f"clipping-{_slug(group)}",
            _titled("Clip fraction by set size", group, groups),
            "Share of sets whose clip decides their loss: above (full lines) and below (dashed).",
            figure,
        )


def correlation(groups: Groups) -> Iterator[Chart]:
    for group in groups:
        variances = group.matching(r"srpo/k(\d+)/member_variance")
        covariances = group.matching(r"srpo/k(\d+)/pair_covariance")
        if not any(int(size) > 1 for size in covariances):
            continue
        figure, axes = drawing.new_axes()
        for number, (size, band) in enumerate(variances.items()):
            drawing.line(axes, band, f"K = {size}", colour(number))
            if int(size) > 1 and size in covariances:
                drawing.line(axes, covariances[size], "_", colour(number), style="--")
        drawing.finish(axes)
        yield Chart(
            SETS,
            f"correlation-{_slug(group)}",
            _titled("The two terms of the set ratio's variance", group, groups),
            "Variance of member log-ratios (full) and mean covariance of two members of a set (dashed), eq. 5.",
            figure,
        )


def set_size(groups: Groups) -> Iterator[Chart]:
    yield from _one_line_a_group(
        groups,
        SETS,
        "set-size",
        "Mean set size",
        "Outputs that one event consumes, on average.",
        lambda group: group.band("srpo/set_size/mean"),
        bottom=0,
    )


def signal(groups: Groups) -> Iterator[Chart]:
    for group in groups:
        shares = {
            "without a population": group.band("srpo/lonely_fraction"),
            "advantage zero": group.band("srpo/zero_advantage_fraction"),
            "malformed": group.band("srpo/invalid_action_fraction"),
            "cut off": group.band("srpo/truncated_fraction"),
        }
        if all(band is None for band in shares.values()):
            continue
        figure, axes = drawing.new_axes(ylabel="share")
        for number, (label, band) in enumerate(shares.items()):
            if band is not None:
                drawing.line(axes, band, label, colour(number))
        drawing.finish(axes, bottom=0, top=1.02)
        yield Chart(
            SETS,
            f"signal-{_slug(group)}",
            _titled("What does not teach", group, groups),
            "Shares of sets without comparable episodes or without an advantage, and of malformed and cut outputs.",
            figure,
        )


def gradient(groups: Groups) -> Iterator[Chart]:
    if not any(run.series.get("actor/grad_norm") for group in groups for run in group.runs):
        return
    figure, axes = drawing.new_axes()
    for number, group in enumerate(groups):
        band = group.band("actor/grad_norm")
        series = [run.series["actor/grad_norm"] for run in group.runs if "actor/grad_norm" in run.series]
        if band is None:
            continue
        varied = [variation(one.values) for one in series if not np.isnan(variation(one.values))]
        drawing.line(axes, band, group.name + (f", CV {np.mean(varied):.3f}" if varied else ""), colour(number))
        for one in series:
            drawing.mark(axes, one, spikes(one.values), colour(number))
    drawing.log_scale(axes)
    axes.legend()
    yield Chart(
        OPTIMISATION,
        "gradient-norm",
        "Gradient norm",
        "CV: coefficient of variation without the first tenth of the run. Circles: over three times the median of the "
        "twenty steps before.",
        figure,
    )


def divergence(groups: Groups) -> Iterator[Chart]:
    yield from _one_line_a_group(
        groups,
        OPTIMISATION,
        "kl",
        "KL divergence",
        "From the reference policy where there is one (kl_loss), else between updates (ppo_kl).",
        lambda group: (group.first_of("actor/kl_loss", "critic/kl", "actor/ppo_kl") or (None, None))[1],
    )
    yield from _by_agent(groups, OPTIMISATION, "kl", "KL by agent", "Mean over the tokens of each agent.")


def entropy(groups: Groups) -> Iterator[Chart]:
    yield from _one_line_a_group(
        groups,
        OPTIMISATION,
        "entropy",
        "Entropy",
        "Mean entropy of the token distributions.",
        lambda group: group.band("actor/entropy"),
        bottom=0,
    )
    yield from _by_agent(groups, OPTIMISATION, "entropy", "Entropy by agent", "Mean over the tokens of each agent.")


def lengths(groups: Groups) -> Iterator[Chart]:
    yield from _one_line_a_group(
        groups,
        ROLLOUT,
        "response-length",
        "Response length",
        "Mean tokens of an output.",
        lambda group: group.band("response_length/mean"),
        bottom=0,
    )
    yield from _by_agent(
        groups, ROLLOUT, "response_length", "Response length by agent", "Mean tokens of an agent's outputs."
    )


def _by_agent(groups: Groups, section: str, quantity: str, title: str, caption: str) -> Iterator[Chart]:
    for group in groups:
        agents = group.matching(rf"srpo/agent/(.+)/{quantity}")
        if not agents:
            continue
        figure, axes = drawing.new_axes()
        for number, (agent, band) in enumerate(agents.items()):
            drawing.line(axes, band, agent, colour(number))
        drawing.finish(axes, bottom=0)
        name = f"{quantity.replace('_', '-')}-agents-{_slug(group)}"
        yield Chart(section, name, _titled(title, group, groups), caption, figure)


def rows_and_sets(groups: Groups) -> Iterator[Chart]:
    if not any(group.band("srpo/sets") for group in groups):
        return
    figure, axes = drawing.new_axes()
    for number, group in enumerate(groups):
        for metric, style in (("rows", "-"), ("sets", "--"), ("padding_rows", ":")):
            if (band := group.band(f"srpo/{metric}")) is not None:
                label = metric.replace("_", " ") if number == 0 else "_"
                drawing.line(axes, band, label, colour(number), style=style)
    drawing.finish(axes, bottom=0)
    caption = "Rows that fill up mini-batches are padding."
    if len(groups) > 1:
        caption += " Colours as in the other charts."
    yield Chart(ROLLOUT, "rows", "Rows and sets a step", caption, figure)


def dropped(groups: Groups) -> Iterator[Chart]:
    for kind, pattern in (("events", r"srpo/dropped/(.+)"), ("episodes", r"srpo/dropped_episodes/(.+)")):
        sums = totals(groups, pattern)
        if not sums:
            continue
        figure, axes = drawing.pyplot().subplots()
        drawing.bars(axes, [group.name for group in groups], sums)
        axes.set_xlabel(kind)
        axes.legend(loc="lower right")
        yield Chart(
            ROLLOUT,
            f"dropped-{kind}",
            f"Dropped {kind} by reason",
            "Over the whole run; none of them was trained on.",
            figure,
        )


def phases(groups: Groups) -> Iterator[Chart]:
    for group in groups:
        whole = group.band("timing_s/step")
        parts = {phase: group.band(f"timing_s/{phase}") for phase in _PHASES}
        layers = {
            phase: np.interp(whole.steps, band.steps, band.mean)
            for phase, band in parts.items()
            if whole is not None and band is not None
        }
        if whole is None or not layers:
            continue
        rest = whole.mean - sum(layers.values())
        layers["rest"] = np.clip(rest, 0, None)
        figure, axes = drawing.new_axes(ylabel="seconds")
        if len(whole.steps) > 1:
            drawing.stack(axes, whole.steps, layers)
        else:
            drawing.bars(axes, [f"step {whole.steps[0]}"], {name: [seconds[0]] for name, seconds in layers.items()})
        axes.set_ylim(0, 1.05 * float(np.quantile(whole.mean, 0.98)) if len(whole.steps) > 20 else None)
        handles, labels = axes.get_legend_handles_labels()
        axes.legend(handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.0, 1.0))
        yield Chart(
            TIME,
            f"phases-{_slug(group)}",
            _titled("Time a step, by phase", group, groups),
            "Validation and checkpoints are in the rest.",
            figure,
        )


def _titled(title: str, group: Group, groups: Groups) -> str:
    return title if len(groups) == 1 else f"{title}: {group.name}"


def _slug(group: Group) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_." else "-" for letter in group.name)


PANELS: tuple[Callable[[Groups], Iterator[Chart]], ...] = (
    reward,
    validation,
    cost,
    set_ratios,
    clipping,
    correlation,
    set_size,
    signal,
    gradient,
    divergence,
    entropy,
    lengths,
    rows_and_sets,
    dropped,
    phases,
)
