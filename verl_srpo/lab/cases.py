"""The study's cases: which variants its three parts compare, and the clip ranges that each is tried at."""

from dataclasses import dataclass, replace

from .game import Game
from .training import Variant

COMMON_CLIP = 0.2
CLIPS = (0.02, 0.06, 0.2, 0.6, 2.0)
PARTS = {
    "a": "cardinality norms",
    "b": "event and token reduction",
    "c": "what is clipped, and response lengths",
}


@dataclass(frozen=True)
class Case:
    """One variant of a part; ``variant.clip`` is the common clip range. label: what tables and figures call it."""

    part: str
    label: str
    variant: Variant

    def at(self, clip: float) -> Variant:
        """The variant at another clip range."""
        return replace(self.variant, clip=clip)


def cases(parts: str = "abc", *, steps: int = 60) -> list[Case]:
    """All cases of the parts. Everything that a part does not compare is equal in it."""
    base = Variant(clip=COMMON_CLIP, steps=steps)
    built = []

    def add(part: str, label: str, game: Game, **options) -> None:
        if part in parts:
            built.append(Case(part, label, replace(base, game=game, **options)))

    add("a", "K = 1", Game((1,)))
    for norm in ("none", "mean", "sqrt"):
        add("a", f"K = 5, {norm}", Game((5,)), cardinality_norm=norm)
    varied = Game((1, 2, 4, 8), lengths=(2, 10))
    for norm in ("none", "mean", "sqrt"):
        add("a", f"K = 1 to 8, {norm}", varied, cardinality_norm=norm)
    for reduction in ("event_mean", "token_mean"):
        add("b", reduction, varied, reduction=reduction)
    for size in (1, 2, 4, 8):
        for unit in ("set", "member", "token"):
            add("c", f"K = {size}, {unit}", Game((size,)), unit=unit)
    lengths = Game((4,), lengths=(2, 10))
    for unit in ("set", "member"):
        for norm in ("sum", "mean"):
            add("c", f"lengths 2 to 10, {unit}, {norm}", lengths, unit=unit, member_norm=norm)
    add("c", "lengths 2 to 10, token", lengths, unit="token")
    return built
