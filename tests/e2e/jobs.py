"""Starts verl's own `python -m verl.trainer.main_ppo` as a user does, and reads what it left."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

ACTOR = "actor_rollout_ref.actor"
ROLLOUT = "actor_rollout_ref.rollout"


@dataclass
class Job:
    """One training job; `folder` holds its log, metrics, checkpoints and dumps."""

    folder: Path
    process: subprocess.Popen
    resumed_lines: int = 0

    @property
    def log(self) -> str:
        return (self.folder / "log.txt").read_text(errors="replace")

    @property
    def steps(self) -> list[dict]:
        """Metrics of the training steps so far, in the order of the file."""
        path = self.folder / "metrics.jsonl"
        if not path.is_file():
            return []
        lines = [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
        return [line["data"] for line in lines if "training/global_step" in line["data"]]

    def wait(self, timeout: float = 280) -> Job:
        """Waits for the end; ends the whole job and fails with the end of its log if it takes too long or fails."""
        code = self.code(timeout)
        assert code == 0, f"exit status {code}\n{self.log[-6000:]}"
        return self

    def code(self, timeout: float = 280) -> int:
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"still running after {timeout} s\n{self.log[-6000:]}") from None

    def kill(self) -> None:
        """Kills the job without any chance to tidy up, as a power cut would."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def wait_for(self, condition, timeout: float = 280) -> None:
        """Returns as soon as `condition()` holds; the job must still be running then."""
        end = time.monotonic() + timeout
        while not condition():
            assert self.process.poll() is None, f"ended early\n{self.log[-6000:]}"
            assert time.monotonic() < end, f"not reached in {timeout} s\n{self.log[-6000:]}"
            self.process_pause()

    def process_pause(self) -> None:
        try:
            self.process.wait(0.2)
        except subprocess.TimeoutExpired:
            return


def start(folder: Path, toy: Path, *overrides: str, environment: dict[str, str] | None = None) -> Job:
    """A job of at most three steps on the CPU with the toy model: 4 tasks x 3 rollouts a step unless overridden."""
    folder.mkdir(parents=True, exist_ok=True)
    base = [
        "+backend=cpu",
        f"hydra.run.dir={folder}/hydra",
        f"data.train_files={toy}/train.parquet",
        f"data.val_files={toy}/test.parquet",
        "data.train_batch_size=4",
        "data.max_prompt_length=300",
        "data.max_response_length=12",
        f"actor_rollout_ref.model.path={toy}",
        f"{ACTOR}.optim.lr=1e-3",
        f"{ACTOR}.ppo_mini_batch_size=4",
        f"{ROLLOUT}.n=3",
        f"{ROLLOUT}.max_model_len=400",
        f"{ROLLOUT}.calculate_log_probs=True",
        f"reward.custom_reward_function.path={Path(__file__).with_name('toy_reward.py')}",
        "trainer.total_training_steps=2",
        "trainer.total_epochs=50",
        "trainer.val_before_train=False",
        "trainer.save_freq=-1",
        "trainer.test_freq=-1",
        "trainer.logger=[console,file]",
        f"trainer.default_local_dir={folder}/checkpoints",
        "trainer.resume_mode=auto",
    ]
    variables = {
        **os.environ,
        "VERL_PLATFORM": "cpu",
        "HF_HUB_OFFLINE": "1",
        "HYDRA_FULL_ERROR": "1",
        "VERL_FILE_LOGGER_PATH": str(folder / "metrics.jsonl"),
        **(environment or {}),
    }
    command = [sys.executable, "-W", "ignore", "-m", "verl.trainer.main_ppo", *base, *overrides]
    with (folder / "log.txt").open("a") as log:
        process = subprocess.Popen(
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=variables,
            start_new_session=True,
            stdin=subprocess.DEVNULL,
        )
    return Job(folder, process)


def run(folder: Path, toy: Path, *overrides: str, environment: dict[str, str] | None = None) -> Job:
    """`start`, and wait for the job's success."""
    return start(folder, toy, *overrides, environment=environment).wait()


def srpo(*overrides: str, preset: str = "srpo") -> list[str]:
    """The overrides that switch SRPO on, with a quick look for finished episodes."""
    return ["algorithm.adv_estimator=srpo", f"+srpo={preset}", "srpo.poll_interval=0.1", *overrides]
