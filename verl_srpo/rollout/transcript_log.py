"""Writes a worker's share of each step's transcripts (`srpo.transcripts`)."""

from __future__ import annotations

import math
import os
from pathlib import Path
from typing import Any

from verl_srpo.config.settings import SRPOSettings
from verl_srpo.rollout.errors import DefinitionError
from verl_srpo.rollout.transcript import as_line


class TranscriptLog:
    """Chooses the first episodes of a step, before their length is known, and appends them to `<step>.jsonl`.

    Attributes:
        folder: None writes nothing.
        share: episodes that this worker writes a step, one of each task.
    """

    def __init__(self, folder: Path | None, share: int):
        self.folder, self.share = folder, share
        self._step, self._chosen = -1, 0

    def choose(self, step: int, session_id: int) -> bool:
        """Whether the episode that begins now is written. Called once for every episode."""
        if self.folder is None or session_id != 0:
            return False
        if step != self._step:
            self._step, self._chosen = step, 0
        self._chosen += 1
        return self._chosen <= self.share

    def write(self, step: int, record: dict[str, Any]) -> None:
        """Append one transcript to the step's file. Blocks."""
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        # one write in append mode: workers of one machine do not cut into each other's lines
        file = os.open(self.folder / f"{step}.jsonl", os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(file, as_line(record).encode())
        finally:
            os.close(file)


def transcript_logs(settings: SRPOSettings, config: Any) -> dict[str, TranscriptLog]:
    """The logs of training and validation, below verl's `rollout_data_dir` and `validation_data_dir`.

    Raises:
        DefinitionError: transcripts are asked for and there is no folder to write to.
    """
    if not settings.transcripts:
        return {"train": TranscriptLog(None, 0), "val": TranscriptLog(None, 0)}
    trainer = config.get("trainer") or {}
    folders = {"train": trainer.get("rollout_data_dir"), "val": trainer.get("validation_data_dir")}
    if not any(folders.values()):
        raise DefinitionError(
            f"srpo.transcripts={settings.transcripts} has nowhere to write: set trainer.rollout_data_dir (training) or "
            "trainer.validation_data_dir (validation)"
        )
    share = math.ceil(settings.transcripts / max(1, config.actor_rollout_ref.rollout.agent.get("num_workers", 1)))
    return {
        partition: TranscriptLog(Path(folder) / "transcripts" if folder else None, share)
        for partition, folder in folders.items()
    }
