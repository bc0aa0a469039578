"""The worked example of docs/advantages.md as tensors, and the tables of that page."""

from pathlib import Path

import torch

PAGE = Path(__file__).parents[2] / "docs" / "advantages.md"

SETS = ("A1", "B1", "B2", "B3", "B4", "B5", "C1", "D1")
SET_IDS = torch.arange(8)
TASKS = torch.tensor([0, 0, 0, 0, 0, 0, 1, 1])
EPISODES = torch.tensor([0, 1, 1, 1, 1, 1, 2, 3])
EVENT_INDEX = torch.tensor([0, 0, 1, 2, 3, 4, 0, 0])
AGENTS = torch.zeros(8, dtype=torch.int64)
TOKENS = torch.tensor([100, 40, 40, 40, 40, 40, 60, 40])
RETURNS = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0], dtype=torch.float64)


def table(first_column: str) -> list[dict[str, str]]:
    """Rows of the page's table whose first heading is `first_column`."""
    lines = PAGE.read_text().splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith(f"| {first_column} |"))
    cells = []
    for line in lines[start:]:
        if not line.startswith("|"):
            break
        cells.append([cell.strip().strip("`") for cell in line.strip("|").split("|")])
    return [dict(zip(cells[0], row, strict=True)) for row in cells[2:]]
