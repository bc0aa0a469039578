"""From outcomes to numbers: intervals over seeds, paired differences, and the verdict on each of the paper's claims."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from verl_srpo.evaluation.intervals import mean_interval

from .results import Result
from .study import Outcome

SUPPORTED, OPPOSITE, UNCLEAR, NOT_TESTABLE = "supported", "contradicted", "not supported", "not testable here"

Quantity = Callable[[Result], float]


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95% Student interval."""

    mean: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Interval":
        return cls(*mean_interval(values))

    def text(self, digits: int = 3, sign: str = "") -> str:
        """``0.512 [0.480, 0.544]``."""
        mean, low, high = (f"{round(x, digits) + 0.0:{sign}.{digits}f}" for x in (self.mean, self.low, self.high))
        return f"{mean} [{low}, {high}]"


def interval(results: Sequence[Result], quantity: Quantity) -> Interval:
    """A quantity's interval over a variant's seeds."""
    return Interval.of([quantity(result) for result in results])


def difference(first: Sequence[Result], second: Sequence[Result], quantity: Quantity) -> Interval:
    """First minus second, seed by seed: the two share each seed's first policy and its stream of tasks."""
    return Interval.of([quantity(a) - quantity(b) for a, b in zip(first, second, strict=True)])


@dataclass(frozen=True)
class Claim:
    """One of the paper's statements, its own figure for it, what came out here, and the verdict."""

    statement: str
    paper: str
    here: str
    verdict: str
    figure: str = ""


def final(result: Result) -> float:
    return result.final


def claims(outcomes: Sequence[Outcome]) -> list[Claim]:
    """The paper's claims in the light of the outcomes; a claim whose part was not run is left out."""
    found = {(outcome.case.part, outcome.case.label): outcome for outcome in outcomes}
    parts = {outcome.case.part for outcome in outcomes}
    built = []
    if "a" in parts:
        norms = {norm: found["a", f"K = 5, {norm}"] for norm in ("sqrt", "none", "mean")}
        for other, name, paper in (
            ("none", "no normalisation (joint sum)", "40.1 against 38.6 (Avg@16, search, 3B)"),
            ("mean", "the mean (joint mean)", "40.1 against 34.7 (Avg@16, search, 3B)"),
        ):
            statement = f"At K = 5 the square-root normalisation ends better than {name}."
            built.append(_better(statement, paper, norms["sqrt"], norms[other], "lab-cardinality.png"))
    if "b" in parts:
        event, token = found["b", "event_mean"], found["b", "token_mean"]
        built.append(_steadier(event, token))
        built.append(
            _better(
                "The token-reduced run ends better than the event-reduced one.",
                "58.5 against 53.2 (validation, math, 8B)",
                token,
                event,
                "lab-reductions.png",
            )
        )
        built.append(_scale_of_one(event))
    if "c" in parts:
        for size in (2, 4, 8):
            for unit in ("member", "token"):
                paper = "no such comparison at equal advantages; 61.3 against 56.8 for shared GRPO (Avg@16, math, 4B)"
                built.append(
                    _better(
                        f"With sets of {size}, one ratio and one clip a set ends better than one a {unit}.",
                        paper if unit == "token" else "no such comparison",
                        found["c", f"K = {size}, set"],
                        found["c", f"K = {size}, {unit}"],
                        "lab-units.png",
                    )
                )
        built.append(
            _better(
                "Responses of different lengths hurt summed log-ratios: their mean ends better (stated as a limit).",
                "no figure",
                found["c", "lengths 2 to 10, set, mean"],
                found["c", "lengths 2 to 10, set, sum"],
                "lab-lengths.png",
            )
        )
    return built + _NOT_TESTABLE


def _better(statement: str, paper: str, first: Outcome, second: Outcome, figure: str) -> Claim:
    """Whether the first ends higher: judged with each at its own best clip range, the common one beside it."""
    own, common = difference(first.own, second.own, final), difference(first.common, second.common, final)
    verdict = _verdict(own)
    if verdict == UNCLEAR and _verdict(common) == SUPPORTED:
        verdict += " (at the common clip range only)"
    if verdict == SUPPORTED and _verdict(common) == OPPOSITE:
        verdict += " (the opposite at the common clip range)"
    soon = difference(first.own, second.own, lambda result: result.average)
    here = (
        f"{own.text(sign='+')} at own clip ranges; {common.text(sign='+')} at the common one. "
        f"Over the whole run, at own: {soon.text(sign='+')}"
    )
    return Claim(statement, paper, here, verdict, figure)


def _verdict(difference: Interval) -> str:
    return SUPPORTED if difference.low > 0 else OPPOSITE if difference.high < 0 else UNCLEAR


def _steadier(event: Outcome, token: Outcome) -> Claim:
    own = difference(token.own, event.own, lambda result: result.gradient_variation)
    local = difference(token.own, event.own, lambda result: result.local_gradient_variation)
    values = [interval(o.own, lambda result: result.gradient_variation).mean for o in (event, token)]
    return Claim(
        "The gradient norm varies less under event reduction than under token reduction.",
        "coefficient of variation 0.107 against 0.142 (math, 8B)",
        f"{values[0]:.3f} against {values[1]:.3f}, difference {own.text(sign='+')}; within windows of ten steps "
        f"{local.text(sign='+')}",
        _verdict(own),
        "lab-reductions.png",
    )


def _scale_of_one(event: Outcome) -> Claim:
    ratios = {size: spread_ratio(event.common, size) for size in event.case.variant.game.set_sizes}
    sizes = [size for size in ratios if size > 1]
    near = all(0.5 <= ratios[size].mean <= 2.0 for size in sizes)
    shown = ", ".join(f"K = {size}: {ratios[size].text(2)}" for size in sizes)
    return Claim(
        "With the square root, the spread of the set log-ratio keeps the scale of one member's, whatever K (eq. 5).",
        "derived for independent members; no figure",
        f"Var(L_S) / Var(l_j), 1 for independent members: {shown}. Without normalisation these are K times as large, "
        "with the mean K times smaller",
        SUPPORTED if near else UNCLEAR + " (members are correlated)",
        "lab-spread.png",
    )


def spread_ratio(results: Sequence[Result], size: int) -> Interval:
    """Variance of the set log-ratio over that of a member's, over seeds; 1 for independent members under sqrt."""
    return interval(results, lambda result: result.curves.spread[size][0] / result.curves.spread[size][1])


_NOT_TESTABLE = [
    Claim(
        "SRPO beats single-agent GRPO, shared GRPO and Dr. MAS on math and search benchmarks.",
        "61.3 against 55.9, 56.8, 59.0 (math, 4B); 40.1 against 32.5, 34.8, 36.7 (search, 3B)",
        "needs the language models and the benchmarks; the scripts in `examples/` run them on GPUs",
        NOT_TESTABLE,
    ),
    Claim(
        "Five workers do better than one.",
        "K = 5 40.1 against K = 1 37.2 (Avg@16, search, 3B)",
        "the game with five agents is another, harder task than with one, so the two scores do not compare",
        NOT_TESTABLE,
    ),
    Claim(
        "A learned router settles at small sets.",
        "mean set size 1.64 with 57.7/69.7 (math)",
        "the game has no router",
        NOT_TESTABLE,
    ),
]
