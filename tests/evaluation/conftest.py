"""Generation files in the form that verl's validation writes."""

import json
from pathlib import Path

import pytest


def verl_rows(task: str, session: int, score: float, outputs=("out",), *, question="q", gts="42", step=10, **extra):
    """The rows of one episode: each carries the episode's score and numbers, as verl's dump does."""
    return [
        {
            "input": question if index == 0 else f"{question}, and what the others said",
            "output": output,
            "gts": gts,
            "score": score,
            "step": step,
            **extra,
            "uid": f"{task}_{session}_{index}",
        }
        for index, output in enumerate(outputs)
    ]


@pytest.fixture
def write(tmp_path):
    """Write dicts (or raw strings) as lines of a file below a temporary folder; returns its path."""

    def write_lines(name: str, lines) -> Path:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join((line if isinstance(line, str) else json.dumps(line) + "\n") for line in lines))
        return path

    return write_lines
