"""From outcomes to numbers: intervals over seeds, paired differences, and the verdict on each of the paper's claims."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from verl_srpo.evaluation.intervals import mean_interval

from .results import Result
from .study import Outcome

SUPPORTED, OPPOSITE, UNCLEAR, NOT_TESTABLE = "supported", "contradicted", "not supported", "not testable here"

Quantity = Callable[[Result], float]
_CEILING = 0.98  # final reward above which two variants are not told apart by it


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


def average(result: Result) -> float:
    return result.average


def claims(outcomes: Sequence[Outcome]) -> list[Claim]:
    """The paper's claims in the light of the outcomes; a claim whose part was not run is left out."""
    found = {(outcome.case.part, outcome.case.label): outcome for outcome in outcomes}
    parts = {outcome.case.part for outcome in outcomes}
    built = []
    if "a" in parts:
        for other, name, paper in (
            ("none", "no normalisation (joint sum)", "40.1 against 38.6"),
            ("mean", "the mean (joint mean)", "40.1 against 34.7"),
        ):
            for label, where in (("K = 5", "At K = 5"), ("K = 1 to 8", "With sets of 1 to 8 under one clip range")):
                built.append(
                    _better(
                        f"{where}, the square-root normalisation ends better than {name}.",
                        f"{paper} (Avg@16, search, 3B)" if label == "K = 5" else "no such comparison",
                        found["a", f"{label}, sqrt"],
                        found["a", f"{label}, {other}"],
                        "lab-cardinality.png",
                    )
                )
    if "b" in parts:
        event, token = found["b", "event_mean"], found["b", "token_mean"]
        built.append(_scale_of_one(event))
        built.append(_steadier(event, token))
        statement = "The token-reduced run ends better than the event-reduced one."
        paper = "58.5 against 53.2 (validation, math, 8B)"
        built.append(_better(statement, paper, token, event, "lab-reductions.png"))
    if "c" in parts:
        built.append(_same_at_one(found["c", "K = 1, set"], found["c", "K = 1, member"]))
        for size in (2, 4, 8):
            for unit in ("member", "token"):
                built.append(
                    _better(
                        f"With sets of {size}, one ratio and one clip a set ends better than one a {unit}.",
                        "no such comparison",
                        found["c", f"K = {size}, set"],
                        found["c", f"K = {size}, {unit}"],
                        "lab-units.png",
                    )
                )
        built.append(
            _better(
                "Summed log-ratios depend on response length: with lengths of 2 to 10, their mean ends better.",
                "a limit that the authors state, without a figure",
                found["c", "lengths 2 to 10, set, mean"],
                found["c", "lengths 2 to 10, set, sum"],
                "lab-lengths.png",
            )
        )
    return built + _NOT_TESTABLE


def _better(statement: str, paper: str, first: Outcome, second: Outcome, figure: str) -> Claim:
    """Whether the first ends higher: judged with each at its own best clip range, the common one beside it.

    Where both end near the most that there is to win, the end can not tell: then no verdict but who learned sooner.
    """
    own, common = difference(first.own, second.own, final), difference(first.common, second.common, final)
    soon = difference(first.own, second.own, average)
    sooner = {SUPPORTED: ["the first learns sooner"], OPPOSITE: ["the first learns later"], UNCLEAR: []}[_verdict(soon)]
    if min(interval(outcome.own, final).mean for outcome in (first, second)) >= _CEILING:
        verdict, remarks = UNCLEAR, ["both win nearly everything", *(sooner or ["equally soon"])]
    else:
        verdict, at_common = _verdict(own), _verdict(common)
        remarks = [f"{at_common} at the common clip range"] if at_common not in (verdict, UNCLEAR) else []
        remarks += sooner if verdict == UNCLEAR else []
    if remarks:
        verdict += f" ({'; '.join(remarks)})"
    here = (
        f"{own.text(sign='+')} at own clip ranges; {common.text(sign='+')} at the common one; "
        f"over the whole run, at own: {soon.text(sign='+')}"
    )
    return Claim(statement, paper, here, verdict, figure)


def _verdict(difference: Interval) -> str:
    return SUPPORTED if difference.low > 0 else OPPOSITE if difference.high < 0 else UNCLEAR


def _steadier(event: Outcome, token: Outcome) -> Claim:
    """Judged at the common clip range, which both share, and while there is something to learn."""
    learning, whole = (
        (difference(token.common, event.common, of), *(interval(outcome.common, of).mean for outcome in (event, token)))
        for of in (lambda result: result.learning_gradient_variation, lambda result: result.gradient_variation)
    )
    return Claim(
        "The gradient norm varies less under event reduction than under token reduction.",
        "coefficient of variation 0.107 against 0.142 (math, 8B)",
        f"{learning[1]:.3f} against {learning[2]:.3f} until the reward reaches 0.9, difference "
        f"{learning[0].text(sign='+')}; over the whole run {whole[1]:.3f} against {whole[2]:.3f}, where the norm falls "
        "to zero once the game is won",
        _verdict(learning[0]),
        "lab-reductions.png",
    )


def _same_at_one(sets: Outcome, members: Outcome) -> Claim:
    pairs = zip(sets.common + sets.own, members.common + members.own, strict=True)
    apart = max(abs(a - b) for one, other in pairs for a, b in zip(one.curves.reward, other.curves.reward, strict=True))
    return Claim(
        "At K = 1 a set's ratio and clip are its member's.",
        "by definition",
        f"largest difference between the two runs' rewards, over all seeds and steps: {apart:.2g}",
        SUPPORTED if apart < 1e-3 else OPPOSITE,
        "lab-units.png",
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


_BENCHMARKS = (
    ("math, Qwen3-4B", "61.3/77.9", "55.9/70.9", "56.8/70.7", "59.0/73.3 (not shared 61.1/77.7)"),
    ("math, Qwen3-8B", "62.5/77.8", "56.6/70.2", "57.8/72.1", "62.3/77.6 (not shared 60.7/74.2)"),
    ("search, Qwen2.5-3B", "40.1/56.1", "32.5/42.8", "34.8/52.9", "36.7/53.8 (not shared 36.9/53.0)"),
    ("search, Qwen2.5-7B", "45.6/61.6", "42.1/55.6", "41.5/57.0", "42.5/57.7 (not shared 43.8/58.3)"),
)
_NOT_TESTABLE = [
    *(
        Claim(
            f"SRPO beats single-agent GRPO, shared GRPO and Dr. MAS ({task}).",
            f"Avg@16/Pass@16 {srpo} against {single}, {shared}, {dr_mas}",
            "needs the language model and the benchmarks; the scripts in `examples/` train it on GPUs",
            NOT_TESTABLE,
        )
        for task, srpo, single, shared, dr_mas in _BENCHMARKS
    ),
    Claim(
        "Five workers do better than one.",
        "K = 5 40.1/56.1 against K = 1 37.2/52.4 (search, 3B); under the mean 34.7/48.6",
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
