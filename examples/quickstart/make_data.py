"""Writes the quickstart's tasks in verl's parquet schema: train.parquet and test.parquet, without a task in common."""

from __future__ import annotations

import argparse
from pathlib import Path

import pandas as pd
from problems import DATA_SOURCE, Problem, split


def rows(problems: list[Problem], part: str) -> list[dict]:
    return [
        {
            "data_source": DATA_SOURCE,
            "prompt": [{"role": "user", "content": problem.question}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(problem.answer)},
            "extra_info": {"split": part, "index": index},
        }
        for index, problem in enumerate(problems)
    ]


def write(folder: Path, *, seed: int, train_size: int, test_size: int) -> None:
    train, test = split(seed, test_size)
    folder.mkdir(parents=True, exist_ok=True)
    pd.DataFrame(rows(train[:train_size], "train")).to_parquet(folder / "train.parquet")
    pd.DataFrame(rows(test, "test")).to_parquet(folder / "test.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--train-size", type=int, default=1500)
    parser.add_argument("--test-size", type=int, default=100)
    arguments = parser.parse_args()
    write(arguments.output, seed=arguments.seed, train_size=arguments.train_size, test_size=arguments.test_size)


if __name__ == "__main__":
    main()
