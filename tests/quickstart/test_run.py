"""The quickstart as a user runs it, with a model of one's own and few, small steps."""

import os
import re
import subprocess

import pytest
from metrics import Metrics

from tests.e2e.toy import make_model
from tests.quickstart.conftest import QUICKSTART

SMALL = (
    "data.train_batch_size=4",
    "data.max_response_length=16",
    "data.val_max_samples=8",
    "actor_rollout_ref.rollout.n=3",
    "actor_rollout_ref.rollout.max_model_len=500",
    "actor_rollout_ref.actor.ppo_mini_batch_size=2",
)


def run(*overrides: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        ["bash", str(QUICKSTART / "run.sh"), *overrides],
        capture_output=True,
        text=True,
        env={**os.environ, **environment},
        timeout=550,
    )


def test_a_model_folder_that_is_none_is_named_at_once(tmp_path):
    done = run(MODEL=str(tmp_path), RUN=str(tmp_path / "run"))
    assert done.returncode == 1
    assert f"MODEL={tmp_path} is not a Hugging Face model folder" in done.stderr


@pytest.mark.e2e
@pytest.mark.timeout(600)
def test_two_steps_leave_metrics_checkpoint_plot_and_one_line_with_the_result(tmp_path):
    make_model(tmp_path / "model")
    folder = tmp_path / "run"
    done = run(*SMALL, MODEL=str(tmp_path / "model"), STEPS="2", RUN=str(folder))
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]
    assert re.fullmatch(
        r"reward 0\.\d\d -> 0\.\d\d, validation accuracy 0\.\d\d -> 0\.\d\d \(2 steps, \d+ s\); plot: "
        + re.escape(f"{folder}/training.png"),
        done.stdout.splitlines()[-1],
    )
    assert (folder / "training.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "checkpoints/global_step_2/actor").is_dir()
    metrics = Metrics.read(folder / "metrics.jsonl")
    assert [step for step, _ in metrics.validation()] == [0, 2]
    for step in (1, 2):
        values = metrics.by_step[step]
        assert values["training/rollout_probs_diff_max"] < 1e-5
        assert values["srpo/k1/count"] == values["srpo/k2/count"] == 4 * 3
        assert values["srpo/rows"] == 2 * values["srpo/k2/count"] + values["srpo/k1/count"]
        assert values["srpo/k2/log_ratio_std"] > 0  # the second mini-batch's ratios are of a changed policy
