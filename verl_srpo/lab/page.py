"""The study's page: every number in it comes from the results that it is given."""

import datetime
import platform
from collections.abc import Iterable, Sequence
from pathlib import Path

from .cases import CLIPS, COMMON_CLIP, PARTS
from .figures import draw_figures
from .findings import NOT_TESTABLE, OPPOSITE, SUPPORTED, UNCLEAR, average, claims, final, interval
from .study import Outcome

_INTRODUCTION = """\
# Evidence

What a CPU can say in minutes about SRPO's claims (arXiv 2609.08452), each held against the paper's own figure: first on
a small game, where every comparison has many seeds, then on the real stack. The part on the game is written by
`verl-srpo lab`; no number in it is typed.

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
the last tenth of the steps, brackets are 95% Student intervals over seeds, differences are taken seed by seed.

**Verdicts.** A claim that something ends better counts as supported when the interval of the difference in final
reward, with each variant at its own best clip range, lies above zero, as contradicted when it lies below, and as not
supported when it holds zero, which is no proof that there is no difference. Where both variants end above 0.98 there
is nothing left that could set them apart; then the verdict says which learned sooner, by the mean reward over the whole
run. With this many intervals at 95%, one may miss by chance.
"""
_QUICK = "\n> **A quick try, not evidence**: few seeds and a fifth of the steps.\n"
_REMARK = """\
The paper's own comparison with its baselines rests on figures quoted from others. Its lead over the best of them is 0.2
points in math at both sizes, with a standard deviation of 0.5 over seeds at 4B, and 1.8 to 3.2 points in search.
"""
_TEXTS = {
    "a": """\
The paper's Table 3: one agent, and five under each cardinality norm. With a single set size in the batch a norm only
scales the set log-ratio, and a clip range that is scaled along takes most of that back: at their own best ranges the
three should come close, and what the common range shows is how well it happens to suit each. One clip range can not be
scaled for sets of 1 and for sets of 8 at once; for that the lower rows mix sets of 1, 2, 4 and 8 (with responses of 2
to 10 tokens) under one range.""",
    "b": """\
Sets of 1, 2, 4 and 8 in each batch, responses of 2 to 10 tokens. Event reduction weighs every set alike, token
reduction by its response tokens. Variation is the coefficient of variation of the gradient norm at the common clip
range, without the first tenth of the run: while the game is being learned (until the reward first reaches 0.9), and
over the whole run. The paper's runs never get to where the norm falls to zero, so the first is the one to compare.""",
    "c": """\
One ratio and one clip for the whole set (SRPO), for each member, or for each token; the rest is the same. At K = 1
set and member are the same computation. Below, four agents with responses of 2 to 10 tokens: member log-ratios summed
over tokens (the paper's) and averaged over them.""",
}
_LIMITS = """\
## Limits of the game

A game with a vocabulary of {vocabulary} and a network of a few thousand weights is not a language model: it can show
what an estimator does to learning when credit is joint, not how much of that remains at scale. Learning here has a
plateau that seeds leave at different times, so final rewards spread; the intervals say how much. One learning rate is
used for all. All variants get the same number of episodes, tokens and updates, the comparison at equal compute that the
authors say they did not make. What wins at its own best clip range may need a range that nobody would guess; the sweeps
below show how wide the good ranges are.

![Final reward by clip range](figures/lab-clips.png)

Run again with `verl-srpo lab --docs docs`; it took the figures from {runs} runs. {machine}.
"""
# What examples/study adds to the page, and what a study of the game leaves as it is.
STACK_BEGIN, STACK_END = "<!-- real stack -->", "<!-- end of real stack -->"


def write_page(outcomes: Sequence[Outcome], docs: Path, *, tuning: int, quick: bool = False) -> Path:
    """Write ``evidence.md`` and ``figures/`` below ``docs``; returns the page's path."""
    docs.mkdir(parents=True, exist_ok=True)
    draw_figures(outcomes, docs / "figures")
    page = docs / "evidence.md"
    kept = _stack_section(page.read_text(encoding="utf-8")) if page.exists() else ""
    page.write_text(render(outcomes, tuning=tuning, quick=quick) + kept, encoding="utf-8")
    return page


def _stack_section(text: str) -> str:
    """The part of an earlier page that other runs wrote, with its marks; empty where there is none."""
    begin, end = text.find(STACK_BEGIN), text.find(STACK_END)
    return f"\n{text[begin:end]}{STACK_END}\n" if 0 <= begin < end else ""


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
    parts = [_INTRODUCTION.format(**facts) + (_QUICK if quick else ""), "## Claims\n", _claims(outcomes), _REMARK]
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
    cores = f"{os.cpu_count()} cores ({platform.machine()}), no GPU used"
    return f"{day}, {cores}, Python {platform.python_version()}, torch {torch.__version__}"


def _claims(outcomes: Sequence[Outcome]) -> str:
    found = claims(outcomes)
    rows = [[one.statement, one.paper, one.here, f"**{one.verdict}**" + _link(one.figure)] for one in found]
    counts = ", ".join(
        f"{sum(one.verdict.startswith(verdict) for one in found)} {verdict}"
        for verdict in (SUPPORTED, OPPOSITE, UNCLEAR, NOT_TESTABLE)
    )
    return f"Of {len(found)} claims: {counts}.\n\n" + _markdown(["the claim", "the paper", "here", "verdict"], rows)


def _link(figure: str) -> str:
    return f" ([figure](figures/{figure}))" if figure else ""


def _table(outcomes: Sequence[Outcome]) -> str:
    reductions = outcomes[0].case.part == "b"
    header = ["variant", f"final at {COMMON_CLIP}", "best clip", "final at best", "mean over the run", "clipped"]
    rows = []
    for outcome in outcomes:
        row = [
            outcome.case.label,
            interval(outcome.common, final).text(),
            _clip(outcome),
            interval(outcome.own, final).text(),
            interval(outcome.own, average).text(),
            f"{100 * interval(outcome.own, lambda result: result.clip_fraction).mean:.1f}%",
        ]
        if reductions:
            row.append(interval(outcome.common, lambda result: result.learning_gradient_variation).text())
            row.append(interval(outcome.common, lambda result: result.gradient_variation).text())
        rows.append(row)
    header += ["variation while learning", "over the whole run"] * reductions
    text = _markdown(header, rows)
    if any(outcome.own_clip in (min(CLIPS), max(CLIPS)) for outcome in outcomes):
        text += "\n(e): the best is at an end of what was tried.\n"
    return text


def _clip(outcome: Outcome) -> str:
    return f"{outcome.own_clip:g}" + (" (e)" if outcome.own_clip in (min(CLIPS), max(CLIPS)) else "")


def _images(part: str) -> str:
    names = {
        "a": {"lab-cardinality.png": "Final reward and mean reward over the run by cardinality norm"},
        "b": {
            "lab-reductions.png": "Reward and gradient norm under both reductions",
            "lab-spread.png": "Spread of the set log-ratio by set size",
        },
        "c": {
            "lab-units.png": "Final reward by set size and clipped unit",
            "lab-lengths.png": "Final reward and mean reward over the run with responses of different lengths",
        },
    }
    return "".join(f"![{text}](figures/{name})\n" for name, text in names[part].items())


def _markdown(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(header) + " |", "|" + "---|" * len(header)]
    lines += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(lines) + "\n"
