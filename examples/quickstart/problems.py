"""The quickstart's tasks: seeded additions of two two-digit numbers."""

from __future__ import annotations

import random
from dataclasses import dataclass

DATA_SOURCE = "arithmetic"
CARRY_SHARE = 0.8
"""Share of the problems in which the units carry: the harder ones, by far the fewer if drawn evenly."""


@dataclass(frozen=True)
class Problem:
    left: int
    right: int

    @property
    def question(self) -> str:
        return f"What is {self.left} + {self.right}? Put the answer in \\boxed{{}}."

    @property
    def answer(self) -> int:
        return self.left + self.right

    @property
    def carries(self) -> bool:
        return self.left % 10 + self.right % 10 >= 10


def split(seed: int, test_size: int) -> tuple[list[Problem], list[Problem]]:
    """Every problem that there is, as a training and a test part that share none, not even with the numbers swapped.

    Both are shuffled, and `CARRY_SHARE` of any longer stretch of either carries.
    """
    rng = random.Random(seed)
    pairs = [(low, high) for low in range(10, 100) for high in range(low, 100)]
    rng.shuffle(pairs)
    problems = [Problem(*rng.sample(pair, 2)) for pair in pairs]
    carrying = [problem for problem in problems if problem.carries]
    plain = [problem for problem in problems if not problem.carries]
    plain = plain[: round(len(carrying) * (1 - CARRY_SHARE) / CARRY_SHARE)]
    test_carrying = round(test_size * CARRY_SHARE)
    test = carrying[:test_carrying] + plain[: test_size - test_carrying]
    train = carrying[test_carrying:] + plain[test_size - test_carrying :]
    rng.shuffle(test)
    rng.shuffle(train)
    return train, test
