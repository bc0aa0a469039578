"""Run folders as training leaves them."""

import json
import struct
from pathlib import Path

import pytest


def step_metrics(step: int, *, sizes=(1, 2), reward=0.5) -> dict:
    """What SRPO's trainer logs in a step, as far as the report reads it."""
    metrics = {
        "srpo/outcome_reward/mean": reward,
        "srpo/rows": 96,
        "srpo/sets": 64,
        "srpo/padding_rows": 2,
        "srpo/set_size/mean": 1.5,
        "srpo/lonely_fraction": 0.0,
        "srpo/dropped/incomplete": 0,
        "srpo/dropped/timeout": step % 2,
        "srpo/agent/alice/response_length": 10.0 + step,
        "srpo/agent/alice/entropy": 1.0 / step,
        "actor/grad_norm": 2.0,
        "actor/entropy": 1.0 / step,
        "actor/kl_loss": 0.01,
        "response_length/mean": 12.0,
        "timing_s/gen": 3.0,
        "timing_s/update_actor": 1.0,
        "timing_s/step": 5.0,
    }
    for size in sizes:
        for name in ("log_ratio_mean", "log_ratio_extreme", "pair_covariance"):
            metrics[f"srpo/k{size}/{name}"] = 0.01
        for name in ("log_ratio_std", "member_variance", "clip_low", "clip_high"):
            metrics[f"srpo/k{size}/{name}"] = 0.1
    if step % 2 == 0:
        metrics |= {"val-core/gsm8k/acc/mean@4": reward, "val-core/minerva/acc/mean@4": reward / 2}
        metrics["val-srpo/cost/team_tokens"] = 100.0
    return metrics


def log_lines(steps, **options) -> str:
    """Lines of verl's file logger."""
    return "".join(json.dumps({"step": step, "data": step_metrics(step, **options)}) + "\n" for step in steps)


@pytest.fixture
def make_run(tmp_path):
    """Write a run folder; returns its path."""

    def make(name: str, log: str, config: str | None = None) -> Path:
        folder = tmp_path / name
        (folder / "hydra" / ".hydra").mkdir(parents=True)
        (folder / "metrics.jsonl").write_text(log)
        if config is not None:
            (folder / "hydra" / ".hydra" / "config.yaml").write_text(config)
        return folder

    return make


def event_record(step: int, tag: str, value: float, *, tensor: bool = False) -> bytes:
    """One record of a TensorBoard event file, with checksums of zero."""

    def field(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    number = struct.pack("<f", value)
    scalar = field(8, bytes([8, 1]) + field(4, number)) if tensor else bytes([2 << 3 | 5]) + number
    event = bytes([1 << 3 | 1]) + struct.pack("<d", 1.5e9) + bytes([2 << 3, step])
    event += field(5, field(1, field(1, tag.encode()) + scalar))
    return struct.pack("<Q", len(event)) + bytes(4) + event + bytes(4)
