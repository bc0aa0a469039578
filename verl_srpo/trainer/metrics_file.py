"""verl's file logger truncates `metrics.jsonl` when a run is resumed; these keep what was logged before."""

from __future__ import annotations

import json
import os
from pathlib import Path


def metrics_path(config) -> Path:
    """Where verl's file logger writes, by its own rules (environment first, then project and experiment name)."""
    if given := os.environ.get("VERL_FILE_LOGGER_PATH"):
        return Path(given)
    root = Path(os.environ.get("VERL_FILE_LOGGER_ROOT", ".")).expanduser()
    return root / config.trainer.project_name / f"{config.trainer.experiment_name}.jsonl"


def lines_until(path: Path, last_step: int) -> list[bytes]:
    """Lines of the steps up to and including `last_step`; a half-written last line is left out.

    Later steps were logged after the checkpoint that is resumed from: they are trained, and logged, again.
    """
    if not path.is_file():
        return []
    kept = []
    for line in path.read_bytes().splitlines(keepends=True):
        try:
            step = json.loads(line)["step"]
        except (json.JSONDecodeError, KeyError, TypeError):
            continue
        if step <= last_step:
            kept.append(line)
    return kept


def write_back(tracking, lines: list[bytes]) -> None:
    """Puts the lines at the start of the file that verl's tracking has just opened."""
    file_logger = tracking.logger.get("file")
    if file_logger is not None and lines:
        file_logger.fp.write(b"".join(lines))
