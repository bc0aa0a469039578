"""The retrieval server is killed in the middle of a training run, and started again once episodes have failed of it.

`bash tests/run.sh -m recipes tests/e2e/test_retriever_restart.py -s` prints what was lost in which step.
"""

import json
from collections import Counter
from pathlib import Path

import pytest

from tests.e2e.jobs import srpo, start
from tests.e2e.searching_team import SEARCHES
from tests.e2e.toy import TASKS, question
from tests.retrieval.serving import ServerProcess

pytestmark = [pytest.mark.recipes, pytest.mark.timeout(900)]

STEPS, TASKS_A_STEP, ROLLOUTS = 5, 4, 3
WORKFLOW = Path(__file__).with_name("searching_team.py")


def searches(folder: Path) -> list[dict]:
    path = folder / SEARCHES
    lines = path.read_text().splitlines() if path.is_file() else []
    return [search for line in lines if not (search := json.loads(line))["validate"]]


@pytest.fixture(scope="module")
def job(toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp("restart")
    corpus = folder / "corpus.jsonl"
    documents = ({"id": str(i), "contents": f'"Task {i}"\n{question(i)}'} for i in range(TASKS))
    corpus.write_text("".join(json.dumps(document) + "\n" for document in documents))
    server = ServerProcess(corpus)
    try:
        job = start(
            folder,
            toy,
            *srpo(
                f"srpo.workflow={WORKFLOW}:SearchingTeam",
                f"+srpo.workflow_kwargs.retriever={server.url}",
                f"+srpo.workflow_kwargs.folder={folder}",
                f"trainer.total_training_steps={STEPS}",
            ),
        )
        # searches of step 2 have begun: the server dies with calls in its hands, or before the next ones
        job.wait_for(lambda: len(searches(folder)) > TASKS_A_STEP * ROLLOUTS)
        server.kill()
        job.wait_for(lambda: any("error" in search for search in searches(folder)))
        server = ServerProcess(corpus, port=server.port)
        job.wait(timeout=600)
    finally:
        server.kill()
    return job


def test_the_run_goes_on_to_its_last_step(job):
    assert [step["training/global_step"] for step in job.steps] == list(range(1, STEPS + 1))
    for step in job.steps:
        assert step["srpo/k2/count"] == step["srpo/k1/count"] == step["srpo/rollout/episodes_kept"] > 0
        assert step["training/rollout_probs_diff_max"] < 1e-5


def test_failed_episodes_are_counted_and_not_trained_on(job):
    lost = [int(step.get("srpo/dropped_episodes/tool_error", 0)) for step in job.steps]
    kept = [int(step["srpo/rollout/episodes_kept"]) for step in job.steps]
    failed = [search for search in searches(job.folder) if "error" in search]
    print(f"\nepisodes kept in each step: {kept}; lost to the retriever: {lost}; {failed[0]['error']}")
    assert sum(lost) == len(failed) > 0
    assert [a + b for a, b in zip(kept, lost, strict=True)] == [TASKS_A_STEP * ROLLOUTS] * STEPS
    assert lost[0] == 0 and lost[-1] == 0, "before the kill and after the restart nothing is lost"
    for step, number in zip(job.steps, kept, strict=True):
        assert step["srpo/rows"] == 3 * number


def test_who_is_patient_loses_nothing(job):
    patient = Counter("error" in search for search in searches(job.folder) if search["patient"])
    assert patient == {False: STEPS * TASKS_A_STEP}


def test_no_error_became_an_observation(job):
    for search in searches(job.folder):
        assert "error" in search or len(search["found"]) == 2
