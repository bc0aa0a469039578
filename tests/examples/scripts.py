"""Runs an example script with a stand-in for `python` that only notes what it was asked to run."""

import os
import subprocess
from pathlib import Path

from hydra import compose, initialize_config_module
from omegaconf import DictConfig

ROOT = Path(__file__).resolve().parents[2]
MATH = ("team", "debate", "solver_verifier", "single_agent")
SEARCH = ("team", "hierarchical", "parallel")
SCRIPTS = [*(f"math/{name}" for name in MATH), *(f"search/{name}" for name in SEARCH)]

_NOTE = '#!/usr/bin/env bash\nprintf "%s\\n" "$@" > "$ASKED"\n'


def ask(script: str, folder: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess:
    """Runs examples/<script>.sh; what `python` was given stands, one argument a line, in folder/asked."""
    (folder / "bin").mkdir(exist_ok=True)
    stand_in = folder / "bin" / "python"
    stand_in.write_text(_NOTE)
    stand_in.chmod(0o755)
    data = folder / "data"
    data.mkdir(exist_ok=True)
    (data / "train.parquet").touch()
    environment = {
        "PATH": f"{folder / 'bin'}:{os.environ['PATH']}",
        "HOME": os.environ.get("HOME", str(folder)),
        "ASKED": str(folder / "asked"),
        "DATA": str(data),
        "RUN": str(folder / "run"),
        **variables,
    }
    command = ["bash", str(ROOT / "examples" / f"{script}.sh"), *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder)


def configuration(script: str, folder: Path, *arguments: str, **variables: str) -> DictConfig:
    """The configuration that main_ppo would get from the script."""
    done = ask(script, folder, *arguments, **variables)
    assert done.returncode == 0, done.stderr
    asked = (folder / "asked").read_text().splitlines()
    assert asked[:4] == ["-m", "verl.trainer.main_ppo", "--config-name", "srpo_trainer"]
    overrides = [argument for argument in asked[4:] if not argument.startswith("hydra.")]
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("srpo_trainer", overrides=overrides)
