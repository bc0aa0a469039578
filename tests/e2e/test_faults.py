"""Ten steps of the real trainer under each failure policy while one call in ten fails.

`bash tests/run.sh -m recipes tests/e2e/test_faults.py -s` prints what was injected and what was left.
"""

import json
from collections import Counter, defaultdict
from pathlib import Path

import pytest

from tests.e2e.faulty_debate import FAULTS, SETS
from tests.e2e.jobs import srpo, start

pytestmark = [pytest.mark.recipes, pytest.mark.timeout(1200)]

STEPS, TASKS, ROLLOUTS = 10, 4, 3
DOOMED = (3, 17)  # of the 32 tasks, each of which comes once in the first eight steps
SEEDS = {"drop_set": 0, "drop_episode": 2, "refill": 0}  # 0 leaves nothing of step 8 under drop_episode: an error
SOLVERS, JUDGE = {0, 1, 2}, {3}
WORKFLOW = Path(__file__).with_name("faulty_debate.py")


@pytest.fixture(scope="module", params=SEEDS)
def job(request, toy, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param)
    overrides = srpo(
        f"srpo.workflow={WORKFLOW}:FaultyDebate",
        f"+srpo.workflow_kwargs.folder={folder}",
        f"+srpo.workflow_kwargs.seed={SEEDS[request.param]}",
        f"+srpo.workflow_kwargs.doomed={list(DOOMED)}".replace(" ", ""),
        "srpo.advantage=recorded",
        f"srpo.failure={request.param}",
        f"trainer.total_training_steps={STEPS}",
        f"trainer.test_freq={STEPS}",
    )
    job = start(folder, toy, *overrides)
    assert job.code(timeout=1000) == 0, job.log[-6000:]
    job.policy = request.param
    job.faults = [json.loads(line) for line in (folder / FAULTS).read_text().splitlines()]
    job.training = [fault for fault in job.faults if not fault["validate"]]
    return job


def summed(job, prefix):
    """Counters below `srpo/<prefix>/` over all training steps, by reason."""
    counts = Counter()
    for step in job.steps:
        counts.update({k.split("/")[-1]: v for k, v in step.items() if k.startswith(f"srpo/{prefix}/")})
    return {reason: int(count) for reason, count in counts.items() if count}


def total(job, name):
    return int(sum(step[name] for step in job.steps))


def test_the_run_completes_and_its_faults_are_of_every_kind(job):
    assert [step["training/global_step"] for step in job.steps] == list(range(1, STEPS + 1))
    for step in job.steps:
        assert step["training/rollout_probs_diff_max"] < 1e-5
    kinds = Counter(fault["kind"] for fault in job.training)
    assert kinds.keys() == {"server_error", "timeout", "aborted", "log_prob_mismatch", "garbage"}
    names = ("calls", "episodes", "episodes_kept", "refilled_episodes", "events_kept")
    print(f"\n{job.policy}: {dict(kinds)}, { ({name: total(job, f'srpo/rollout/{name}') for name in names}) }")


def test_no_partial_set_is_trained_on(job):
    batches = [json.loads(line)["rows"] for line in (job.folder / SETS).read_text().splitlines()]
    assert len(batches) == STEPS
    for step, rows in zip(job.steps, batches, strict=True):
        members = defaultdict(list)
        for set_id, event, agent in rows:
            members[set_id, event].append(agent)
        assert all(sorted(agents) == sorted((SOLVERS, JUDGE)[event]) for (_, event), agents in members.items())
        assert len(members) == step["srpo/sets"] == step["srpo/rollout/events_kept"] > 0
        assert len(rows) == step["srpo/rows"]
        assert step["srpo/dropped/incomplete"] == 0


def test_the_counters_add_up_to_the_faults(job):
    """Failed calls one by one; removed events, dropped and repeated episodes as each policy has it."""
    assert summed(job, "failed_calls") == dict(Counter(fault["kind"] for fault in job.training))
    episodes = {(fault["uid"], fault["session"]) for fault in job.training}
    attempts = {(fault["uid"], fault["session"], fault["attempt"]) for fault in job.training}
    events = {(f["uid"], f["session"], f["attempt"], f["agent"] == "judge") for f in job.training}
    dropped = summed(job, "dropped")
    with_episode, removed = dropped.pop("with_episode", 0), sum(dropped.values())
    assert removed == len(events)
    assert total(job, "srpo/rollout/events") == total(job, "srpo/rollout/events_kept") + removed + with_episode
    lost = sum(summed(job, "dropped_episodes").values())
    assert total(job, "srpo/rollout/episodes") == STEPS * TASKS * ROLLOUTS
    assert total(job, "srpo/rollout/episodes_kept") == STEPS * TASKS * ROLLOUTS - lost
    if job.policy == "drop_set":  # lost are those without an answer: no solver, or no judge
        silent = {(f["uid"], f["session"]) for f in job.training if f["agent"] == "judge"}
        solvers = Counter((f["uid"], f["session"]) for f in job.training if f["agent"] != "judge")
        assert lost == len(silent | {episode for episode, failed in solvers.items() if failed == len(SOLVERS)})
    elif job.policy == "drop_episode":
        assert lost == len(episodes)
    else:
        assert lost + total(job, "srpo/rollout/refilled_episodes") == len(attempts)
        assert lost < len(episodes), "most episodes are whole in the end"


def test_a_task_of_which_every_episode_fails_takes_no_part_in_its_step(job):
    doomed = {fault["uid"] for fault in job.training if fault["task"] in DOOMED}
    assert len(doomed) >= len(DOOMED)
    missing = sum(TASKS - step["srpo/tasks"] for step in job.steps)
    assert missing >= len(doomed)
    if job.policy == "refill":
        assert missing == len(doomed)


def test_validation_goes_on_with_what_is_left(job):
    last = job.steps[-1]
    failed = Counter(fault["kind"] for fault in job.faults if fault["validate"])
    assert {k.split("/")[-1]: v for k, v in last.items() if k.startswith("val-aux/srpo/failed_calls/")} == failed
    assert 0 < last["val-aux/srpo/rollout/episodes_kept"] < 8  # task 3 is one of them
    assert any(name.startswith("val-core/") for name in last)
