"""The study's page: every number in it comes from the results that it is given."""

import datetime
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from .cases import CLIPS, COMMON_CLIP, PARTS
from .figures import draw_figures
from .findings import claims, final, interval
from .study import Outcome

_INTRODUCTION = """\
# Evidence

What a CPU can say in minutes about SRPO's claims (arXiv 2609.08452), each held against the paper's own figure. This
page is written by `verl-srpo lab`; no number in it is typed.

**The game.** A task is a number below {vocabulary}; each agent of a set answers it with a few tokens, none sees
another's, and a position is won when the tokens spoken there add up to the number modulo {vocabulary}. The reward is
the share of positions won. As long as one agent speaks at random the sum is random whatever the others do, so that
only agents that settle on a convention together are paid: credit belongs to the joint action. All agents share one
small network, which has been taught such a convention to a token probability of {competence}, as a language model
comes to reinforcement learning with some skill. It is trained with the same functions of `verl_srpo.core` that the
trainer uses: {steps} steps of {tasks} tasks with {rollouts} rollouts, {epochs} updates a step, Adam at
{learning_rate}.

**Fair.** In each comparison sets, advantages, task streams, first policies and learning rate are the same for every
variant; one thing changes at a time. Every variant is shown at the common clip range {common} (ratios in
[1/(1+{common}), 1+{common}]) and at its own best one of {clips}, chosen by the final reward on {tuning} tuning seeds
that are used for nothing else. All other numbers are over {seeds} reporting seeds. "Final" is the mean reward over
the last tenth of the steps, brackets are 95% Student intervals over seeds, differences are taken seed by seed. A
claim counts as supported when the interval of its difference, with each variant at its own best clip range, lies
above zero, as contradicted when it lies below.
"""
_QUICK = "\n> **A quick try, not evidence**: few seeds and a fifth of the steps.\n"
_TEXTS = {
    "a": "The paper's Table 3: one agent, and five under each cardinality norm. At K = 1 the three norms coincide.",
    "b": """\
Sets of 1, 2, 4 and 8 in each batch, responses of 2 to 10 tokens. Event reduction weighs every set alike, token
reduction by its response tokens. Variation is the coefficient of variation of the gradient norm over the run without
its first tenth; local variation is the same within windows of ten steps, without the trend that learning itself gives
the norm.""",
    "c": """\
One ratio and one clip for the whole set (SRPO), for each member, or for each token; the rest is the same. At K = 1
set and member are the same computation. Below, four agents with responses of 2 to 10 tokens: member log-ratios summed
over tokens (the paper's) and averaged over them.""",
}
_LIMITS = """\
## Limits

A game with a vocabulary of {vocabulary} and a network of a few thousand weights is not a language model: it can show
what an estimator does to learning when credit is joint, not how much of that remains at scale. Learning here has a
plateau that seeds leave at different times, so final rewards spread; the intervals say how much. One learning rate is
used for all. What wins at its own best clip range may need a range that nobody would guess; the sweeps below show how
wide the good ranges are.

![Final reward by clip range](figures/lab-clips.png)

Run again with `verl-srpo lab --docs docs`; it took the figures from {runs} runs. {machine}.
"""


def write_page(outcomes: Sequence[Outcome], docs: Path, *, tuning: int, quick: bool = False) -> Path:
    """Write ``evidence.md`` and ``figures/`` below ``docs``; returns the page's path."""
    docs.mkdir(parents=True, exist_ok=True)
    draw_figures(outcomes, docs / "figures")
    page = docs / "evidence.md"
    page.write_text(render(outcomes, tuning=tuning, quick=quick), encoding="utf-8")
    return page


def render(outcomes: Sequence[Outcome], *, tuning: int, quick: bool = False) -> str:
    """The page as Markdown."""
    variant = outcomes[0].case.variant
    seeds = len(outcomes[0].common)
    facts = {
        "vocabulary": variant.game.vocabulary,
        "competence": variant.competence,
        "steps": variant.steps,
        "tasks": variant.game.tasks,
        "rollouts": variant.game.rollouts,
        "epochs": variant.epochs,
        "learning_rate": f"{variant.learning_rate:g}",
        "common": COMMON_CLIP,
        "clips": ", ".join(map(str, CLIPS)),
        "tuning": tuning,
        "seeds": seeds,
        "runs": tuning * len({outcome.case.at(clip) for outcome in outcomes for clip in CLIPS})
        + seeds * len({o.case.at(clip) for o in outcomes for clip in (COMMON_CLIP, o.own_clip)}),
        "machine": _machine(),
    }
    parts = [_INTRODUCTION.format(**facts) + (_QUICK if quick else ""), "## Claims\n", _claims(outcomes)]
    for part, title in PARTS.items():
        chosen = [outcome for outcome in outcomes if outcome.case.part == part]
        if chosen:
            parts += [
                f"## ({part}) {title[0].upper()}{title[1:]}\n",
                _TEXTS[part] + "\n",
                _table(chosen),
                _images(part),
            ]
    parts.append(_LIMITS.format(**facts))
    return "\n".join(parts)


def _machine() -> str:
    import os

    import torch

    day = datetime.date.today().isoformat()
    return f"{day}, {os.cpu_count()} cores, Python {platform.python_version()}, torch {torch.__version__}"


def _claims(outcomes: Sequence[Outcome]) -> str:
    rows = [
        [claim.statement, claim.paper, claim.here, f"**{claim.verdict}**" + _link(claim.figure)]
        for claim in claims(outcomes)
    ]
    return _markdown(["the claim", "the paper", "here", "verdict"], rows)


def _link(figure: str) -> str:
    return f" ([figure](figures/{figure}))" if figure else ""


def _table(outcomes: Sequence[Outcome]) -> str:
    reductions = outcomes[0].case.part == "b"
    header = [
        "variant",
        f"final at {COMMON_CLIP}",
        "best clip",
        "final at best",
        "mean over the run",
        "clipped",
    ] + ["variation", "local variation"] * reductions
    rows = []
    for outcome in outcomes:
        row = [
            outcome.case.label,
            interval(outcome.common, final).text(),
            _clip(outcome),
            interval(outcome.own, final).text(),
            interval(outcome.own, lambda result: result.average).text(),
            f"{100 * interval(outcome.own, lambda result: result.clip_fraction).mean:.1f}%",
        ]
        if reductions:
            row.append(interval(outcome.own, lambda result: result.gradient_variation).text())
            row.append(interval(outcome.own, lambda result: result.local_gradient_variation).text())
        rows.append(row)
    text = _markdown(header, rows)
    if any(outcome.own_clip in (min(CLIPS), max(CLIPS)) for outcome in outcomes):
        text += "\n(e): the best is at an end of what was tried.\n"
    return text


def _clip(outcome: Outcome) -> str:
    return f"{outcome.own_clip:g}" + (" (e)" if outcome.own_clip in (min(CLIPS), max(CLIPS)) else "")


def _images(part: str) -> str:
    names = {
        "a": {"lab-cardinality.png": "Final reward and learning curves by cardinality norm"},
        "b": {
            "lab-reductions.png": "Reward, gradient norm and reward by set size under both reductions",
            "lab-spread.png": "Spread of the set log-ratio by set size",
        },
        "c": {
            "lab-units.png": "Final reward by set size and clipped unit",
            "lab-lengths.png": "Final reward with responses of different lengths",
        },
    }
    return "".join(f"![{text}](figures/{name})\n" for name, text in names[part].items())


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
