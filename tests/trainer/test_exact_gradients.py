"""Gradients do not depend on the layout of rows: verl's FSDP2 engine on gloo against one autograd graph."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trainer.engine import make_model

ROOT = Path(__file__).parents[2]
SEEDS = {1: range(0, 30), 2: range(100, 140), 4: range(200, 215)}


@pytest.fixture(scope="module")
def model_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("model")
    make_model(str(folder))
    return folder


def run_cases(folder, ranks):
    seeds = ",".join(map(str, SEEDS[ranks]))
    launcher = ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={ranks}"]
    command = [sys.executable, "-W", "ignore", *launcher, "-m", "tests.trainer.exact_gradients", folder, seeds]
    process = subprocess.run(command, capture_output=True, text=True, timeout=280, cwd=ROOT)
    cases = [json.loads(line[5:]) for line in process.stdout.splitlines() if line.startswith("CASE ")]
    assert process.returncode == 0, process.stdout[-3000:] + process.stderr[-6000:]
    return cases


@pytest.mark.slow
@pytest.mark.parametrize("ranks", SEEDS)
def test_gradients_equal_one_graph(model_folder, ranks):
    """Sets over ranks, mini- and micro-batches, clipped and not, padding rows, every unit and norm, entropy and KL."""
    cases = run_cases(model_folder, ranks)
    assert [case["seed"] for case in cases] == list(SEEDS[ranks])
    for case in cases:
        assert case["worst"] < 1e-5, case
        assert case["loss"] == pytest.approx(case["reference_loss"], rel=1e-5, abs=1e-6), case
        clipped = case["reference_clipped"] if case["unit"] == "token" else []
        assert case["clipped"] == pytest.approx(clipped, rel=1e-5, abs=1e-6), case
    passes = [p for case in cases if case["unit"] == "set" for p in case["extra_pass"]]
    assert 0.0 in passes and 1.0 in passes, "cases must cover both: sets whole in micro-batches, and split ones"
    assert not any(p for case in cases if case["unit"] != "set" for p in case["extra_pass"])
