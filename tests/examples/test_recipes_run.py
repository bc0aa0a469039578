"""DRY_RUN=1: one training step and one validation of every script itself, on the CPU."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.examples.scripts import ROOT, SCRIPTS


@pytest.mark.recipes
@pytest.mark.timeout(600)
@pytest.mark.parametrize("script", SCRIPTS)
def test_dry_run(script, tmp_path):
    environment = {
        **os.environ,
        "DRY_RUN": "1",
        "RUN": str(tmp_path),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    command = ["bash", str(ROOT / "examples" / f"{script}.sh")]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=550)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    steps = [json.loads(line)["data"] for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    (step,) = [step for step in steps if "training/global_step" in step]
    assert any(name.startswith("val-core/") for name in step), "validated"
    if script != "math/single_agent":
        assert step["srpo/sets"] > 0
