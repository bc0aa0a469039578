"""Every built-in workflow through two steps of the real trainer, with a validation before and after them.

`bash tests/run.sh -m recipes tests/e2e/test_workflows.py -s` prints the sets of each step. The model is a small one
that has learned to speak in the agents' tags, so that teams route, search and revise as they do in earnest.
"""

import hashlib
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from tests.e2e.jobs import ACTOR, ROLLOUT, srpo, start

pytestmark = [pytest.mark.recipes, pytest.mark.timeout(1200)]

ROOT = Path(__file__).parents[2]
EPISODES, QUESTIONS = 4 * 4, 8
CASES = {
    "demo-joint": ("demo/joint", {}, {2}),
    "math-debate": ("math/debate", {"n": 3}, {1, 3}),
    "math-solver_verifier": ("math/solver_verifier", {}, {1}),
    "math-team-fixed": ("math/team", {"routing": "fixed"}, {1, 3}),
    "math-team-adaptive": ("math/team", {"routing": "adaptive"}, {1, 2, 3}),
    "search-team-fixed": ("search/team", {"routing": "fixed", "turns": 2, "topk": 1}, {1, 3}),
    "search-team-adaptive": ("search/team", {"routing": "adaptive", "turns": 2, "topk": 1}, {1, 2, 3}),
    "search-hierarchical": ("search/hierarchical", {"turns": 2, "topk": 1}, {1}),
    "search-parallel": ("search/parallel", {"topk": 1}, {1, 3}),
}
"""Workflow, settings, and the sizes of the sets in every batch."""


@pytest.fixture(scope="module")
def speaker(tmp_path_factory):
    """Folder of the model, the tasks and the corpus; made once for the sources that it follows from."""
    script = ROOT / "benchmarks" / "team_model.py"
    sources = [script, *(ROOT / "examples/quickstart").glob("*.py"), *(ROOT / "verl_srpo/workflows").glob("*.py")]
    version = hashlib.sha256(b"".join(path.read_bytes() for path in sorted(sources))).hexdigest()[:12]
    folder = ROOT / "runs" / "cache" / f"team-model-{version}"
    if not folder.is_dir():
        made = tmp_path_factory.mktemp("speaker")
        subprocess.run([sys.executable, script, made], check=True)
        for kind in ("math", "search"):
            tasks = pd.read_parquet(made / f"{kind}.parquet")
            tasks[:16].to_parquet(made / f"{kind}_train.parquet")
            tasks[16 : 16 + QUESTIONS].to_parquet(made / f"{kind}_val.parquet")
        partial = folder.with_name(f"{folder.name}.{made.parent.name}")
        shutil.copytree(made, partial)
        if not folder.is_dir():  # else another run was faster
            partial.rename(folder)
    return folder


@pytest.fixture(scope="module", params=CASES)
def job(request, speaker, tmp_path_factory):
    workflow, settings, sizes = CASES[request.param]
    kind = "search" if workflow.startswith("search/") else "math"
    if kind == "search":
        settings = {**settings, "retriever": speaker / "corpus.jsonl"}
    job = start(
        tmp_path_factory.mktemp(request.param),
        speaker,
        *srpo(
            f"srpo.workflow={workflow}",
            *(f"+srpo.workflow_kwargs.{name}={value}" for name, value in settings.items()),
            f"data.train_files={speaker}/{kind}_train.parquet",
            f"data.val_files={speaker}/{kind}_val.parquet",
            "data.max_prompt_length=440",
            "data.max_response_length=48",
            f"{ROLLOUT}.max_model_len=488",
            f"{ROLLOUT}.n=4",
            f"{ACTOR}.optim.lr=1e-5",
            "trainer.val_before_train=True",
            "trainer.test_freq=2",
        ),
    )
    assert job.code(timeout=900) == 0, job.log[-6000:]
    job.name, job.sizes, job.search = request.param, sizes, kind == "search"
    job.lines = [json.loads(line) for line in (job.folder / "metrics.jsonl").read_text().splitlines()]
    return job


def sets_of(step):
    """Number of sets of each size."""
    counts = {
        name.split("/")[1]: int(v) for name, v in step.items() if name.startswith("srpo/k") and name.endswith("/count")
    }
    return {int(size[1:]): count for size, count in counts.items() if count}


def test_the_sets_of_every_step(job):
    assert len(job.steps) == 2
    for step in job.steps:
        sets = sets_of(step)
        print(f"\n{job.name}: {int(step['srpo/rows'])} rows, sets by size {sets}")
        assert sets.keys() == job.sizes
        assert step["srpo/rows"] == sum(size * count for size, count in sets.items())
        assert step["srpo/rollout/episodes_kept"] == step["srpo/episodes"] == EPISODES
        assert not [name for name in step if name.startswith("srpo/dropped_episodes/")]
        assert step["training/rollout_probs_diff_max"] < 1e-4
        assert step["actor/grad_norm"] > 0


def test_the_agents_speak_in_their_tags_and_the_searchers_search(job):
    for step in job.steps:
        assert step["srpo/invalid_action_fraction"] < 0.3
        assert (step["srpo/rollout/tool_calls"] > 0) == job.search


def test_validated_before_and_after(job):
    validations = [line for line in job.lines if any(name.startswith("val-core/") for name in line["data"])]
    assert [line["step"] for line in validations] == [0, 2]
    for line in validations:
        assert line["data"]["val-aux/srpo/rollout/episodes_kept"] == QUESTIONS
        assert (line["data"]["val-aux/srpo/rollout/tool_calls"] > 0) == job.search
