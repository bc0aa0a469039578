"""Finished runs on disk, so that a study that was stopped goes on where it stood."""

import hashlib
import json
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

from . import game, policy, training
from .training import Curves, Variant, last_steps

_WON = 0.9  # reward from which on a run has learned the game


@dataclass(frozen=True)
class Result:
    """What is kept of one seed's run; the names are those of ``Curves``."""

    curves: Curves

    @property
    def final(self) -> float:
        """Mean reward over the last tenth of the steps."""
        return statistics.fmean(self.curves.reward[-last_steps(len(self.curves.reward)) :])

    @property
    def average(self) -> float:
        """Mean reward over all steps: how soon it was learned."""
        return statistics.fmean(self.curves.reward)

    @property
    def clip_fraction(self) -> float:
        """Mean over the steps."""
        return statistics.fmean(self.curves.clip_fraction)

    @property
    def gradient_variation(self) -> float:
        """Coefficient of variation of the gradient norm over the run, without its first tenth."""
        return _variation(self.curves.gradient_norm[last_steps(len(self.curves.gradient_norm)) :])

    @property
    def learning_gradient_variation(self) -> float:
        """The same over the steps before the reward first reaches 0.9: once the game is won there is nothing left to
        learn and the norm falls to zero, so that over the whole run its variation says how soon that was."""
        rewards, first = self.curves.reward, last_steps(len(self.curves.reward))
        won = next((step for step, reward in enumerate(rewards) if reward >= _WON), len(rewards))
        return _variation(self.curves.gradient_norm[first : max(won, first + 2)])


def _variation(values: list[float]) -> float:
    mean = statistics.fmean(values)
    return statistics.pstdev(values) / mean if mean > 0 else 0.0


def code_version() -> str:
    """Digest of what decides a run's numbers here: results of other code are not mixed in."""
    digest = hashlib.blake2b(digest_size=6)
    for module in (game, policy, training):
        digest.update(Path(str(module.__file__)).read_bytes())
    return digest.hexdigest()


class Store:
    """A JSON-lines file with one line a finished run, keyed by variant, seed and code version.

    Damaged lines (a study killed while it wrote) are passed over and counted in ``damaged``; their runs are run again.
    """

    def __init__(self, path: Path):
        self.path = path
        self.version = code_version()
        self.damaged = 0
        self._results: dict[tuple[str, int], Result] = {}
        if path.exists():
            for line in path.read_bytes().splitlines():
                self._read(line)

    def _read(self, line: bytes) -> None:
        try:
            entry = json.loads(line)
            fields = entry["curves"]
            for name in ("reward_by_size", "spread"):
                fields[name] = {int(size): value for size, value in fields[name].items()}
            key, version, result = entry["variant"], entry["version"], Result(Curves(**fields))
        except (ValueError, KeyError, TypeError, AttributeError):
            self.damaged += 1
            return
        if version == self.version:
            self._results[json.dumps(key, sort_keys=True), result.curves.seed] = result

    def missing(self, variant: Variant, seeds: Iterable[int]) -> list[int]:
        """The seeds of a variant that have not been run."""
        return [seed for seed in seeds if (_key(variant), seed) not in self._results]

    def results(self, variant: Variant, seeds: Iterable[int]) -> list[Result]:
        """Results of a variant, one for each seed, in their order."""
        return [self._results[_key(variant), seed] for seed in seeds]

    def add(self, variant: Variant, curves: list[Curves]) -> None:
        """Keep finished runs, in memory and on disk."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        whole = not self.path.exists() or self.path.read_bytes()[-1:] in (b"", b"\n")
        with self.path.open("a") as file:
            if not whole:
                file.write("\n")
            for one in curves:
                entry = {"version": self.version, "variant": asdict(variant), "curves": _rounded(asdict(one))}
                file.write(json.dumps(entry) + "\n")
                self._results[_key(variant), one.seed] = Result(one)


def _key(variant: Variant) -> str:
    return json.dumps(asdict(variant), sort_keys=True)


def _rounded(value):
    """Floats to six significant digits, which halves the file; no conclusion needs more."""
    if isinstance(value, float):
        return float(f"{value:.6g}")
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    return {key: _rounded(item) for key, item in value.items()} if isinstance(value, dict) else value
