"""SRPO through verl's main_ppo: real Ray, FSDP2, vLLM and TransferQueue on the CPU."""

import json
import re
from collections import Counter, defaultdict

import pytest

from tests.e2e.jobs import ACTOR, ROLLOUT, run, srpo, start

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def check_step(step, *, rows_of):
    """What holds in every step of a debate: sets of two and of one, the weight sync, nothing lost."""
    pairs, singles = step["srpo/k2/count"], step["srpo/k1/count"]
    assert pairs > 0 and singles > 0
    assert step["srpo/sets"] == pairs + singles
    assert step["srpo/rows"] == 2 * pairs + singles == rows_of
    assert step["training/rollout_probs_diff_max"] < 1e-5
    assert step["actor/grad_norm"] > 0


@pytest.fixture(scope="module")
def killed_and_resumed(toy, tmp_path_factory):
    """Two ranks, two mini-batches, two epochs; killed in the middle of step 3, then started again."""
    folder = tmp_path_factory.mktemp("resume")
    overrides = srpo(
        "trainer.n_gpus_per_node=2",
        f"{ACTOR}.ppo_mini_batch_size=2",
        f"{ACTOR}.ppo_epochs=2",
        f"{ACTOR}.use_kl_loss=True",
        f"{ACTOR}.kl_loss_coef=0.01",
        f"{ACTOR}.entropy_coeff=0.001",
        f"{ACTOR}.ppo_max_token_len_per_gpu=512",
        "trainer.total_training_steps=5",
        "trainer.save_freq=2",
        "trainer.test_freq=5",
        f"trainer.rollout_data_dir={folder}/rollouts",
        f"trainer.validation_data_dir={folder}/validation",
    )
    first = start(folder, toy, *overrides)
    first.wait_for(lambda: len(first.steps) == 2 and "training/global_step" in first.steps[-1])
    first.kill()
    return run(folder, toy, *overrides)


def test_every_step_is_logged_once_across_the_kill(killed_and_resumed):
    assert [step["training/global_step"] for step in killed_and_resumed.steps] == [1, 2, 3, 4, 5]


def test_sets_of_two_and_of_one_in_every_step(killed_and_resumed):
    for step in killed_and_resumed.steps:
        check_step(step, rows_of=4 * 3 * 3)


def test_no_task_is_trained_twice_or_skipped(killed_and_resumed):
    seen = Counter()
    for path in sorted((killed_and_resumed.folder / "rollouts").glob("*.jsonl")):
        prompts = [json.loads(line)["input"] for line in path.read_text().splitlines()]
        seen.update({int(number) for p in prompts for number in re.findall(r"Task (\d+):", p)})
    assert len(seen) == 5 * 4 and set(seen.values()) == {1}


def test_the_number_of_updates_is_the_configured_one(killed_and_resumed):
    """Field report 8: two mini-batches and two epochs, whatever number of rows the agents made."""
    assert "2 optimizer steps x 2 epochs a step" in killed_and_resumed.log
    for step in killed_and_resumed.steps:
        assert step["srpo/extra_pass"] in (0.0, 0.25, 0.5, 0.75)  # never before the first of four updates


def test_kl_and_entropy_are_there(killed_and_resumed):
    for step in killed_and_resumed.steps:
        assert step["actor/kl_loss"] >= 0
        assert step["actor/entropy_loss"] > 0
        assert step["srpo/agent/judge/entropy"] > 0


def test_validation_ran_the_same_workflow(killed_and_resumed):
    """Field report 28: a workflow that fails in evaluation only."""
    last = killed_and_resumed.steps[-1]
    assert last["val-aux/srpo/rollout/episodes_kept"] == 8
    lines = [json.loads(x) for x in (killed_and_resumed.folder / "validation" / "5.jsonl").read_text().splitlines()]
    assert len(lines) == 8 * 3
    assert {"uid", "score", "acc", "team_tokens", "calls"} <= set(lines[0])


def test_the_switch_is_announced_once(killed_and_resumed):
    assert killed_and_resumed.log.count("[SRPO] preset srpo: workflow math/debate") == 2  # once a start


def test_fixed_micro_batches_and_agents_of_different_temperature(toy, tmp_path):
    """Micro-batches of 5 rows split sets; padding fills what verl's log-prob pass needs. Log-probs of each agent's
    rows are recomputed at the temperature that it samples at."""
    job = run(
        tmp_path,
        toy,
        *srpo("+srpo.workflow_kwargs.n=3"),
        f"{ACTOR}.use_dynamic_bsz=False",
        f"{ROLLOUT}.log_prob_use_dynamic_bsz=False",
        f"{ACTOR}.ppo_micro_batch_size_per_gpu=5",
        f"{ROLLOUT}.log_prob_micro_batch_size_per_gpu=5",
        f"{ACTOR}.ppo_epochs=2",
        f"{ACTOR}.optim.lr=0",
        f"{ACTOR}.use_kl_loss=True",
        "actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=5",
        "+srpo.agents.solver2.temperature=0.5",
        "+srpo.agents.judge.temperature=1.7",
    )
    for step in job.steps:
        assert abs(step["actor/kl_loss"]) < 1e-6  # nothing is learned, and the reference sees the same temperatures
        assert step["srpo/k3/count"] == 12 and step["srpo/k1/count"] == 12
        assert step["training/rollout_probs_diff_max"] < 1e-5
        assert step["srpo/rows"] == 48 and step["srpo/padding_rows"] == 2


def test_colocate_async(toy, tmp_path):
    """With the importance weight of whole sets, for rows that an earlier policy sampled."""
    job = run(
        tmp_path,
        toy,
        *srpo("trainer.v1.trainer_mode=colocate_async", "trainer.total_training_steps=4"),
        "srpo.set_importance_threshold=1.0",
    )
    assert len(job.steps) == 4
    for step in job.steps:
        assert step["srpo/sets"] > 0 and step["srpo/k2/count"] > 0
        assert "srpo/mixed_version_sets" in step and "rollout_corr/kl" in step
        assert step["srpo/set_importance/mean"] > 0 and 0 <= step["srpo/set_importance/truncated_fraction"] <= 1
    # the policy moved on between sampling and training in at least one step
    assert any(abs(step["srpo/set_importance/log_ratio_extreme"]) > 1e-3 for step in job.steps)


def test_filter_groups_judges_episodes(toy, tmp_path):
    """DAPO's filter: a task is replaced where all its episodes have one `acc`, however many rows they have."""
    job = run(
        tmp_path,
        toy,
        *srpo("algorithm.filter_groups.enable=True", "algorithm.filter_groups.metric=acc"),
        f"trainer.rollout_data_dir={tmp_path}/rollouts",
    )
    assert sum(step.get("training/filter_groups/evicted_samples", 0) for step in job.steps) > 0
    for number, step in enumerate(job.steps, 1):
        check_step(step, rows_of=4 * 3 * 3)
        correct = defaultdict(list)
        for line in map(json.loads, (tmp_path / "rollouts" / f"{number}.jsonl").read_text().splitlines()):
            correct[line["uid"].split("_")[0]].append(line["score"] == 1.0)
        assert len(correct) == 4 and all(len(set(one)) == 2 and len(one) == 9 for one in correct.values())


def test_untagged_loops_train_as_sets_of_one(toy, tmp_path):
    """An existing single-agent pipeline under srpo: said once in the log, every row a set of its own."""
    job = run(tmp_path, toy, *srpo("srpo.workflow=null"))
    for step in job.steps:
        assert step["srpo/rows"] == step["srpo/sets"] == step["srpo/k1/count"] == 12
    assert job.log.count("rows come without set tags: every row is an active set of its own") == 1


def test_tags_on_some_rows_only_are_an_error_that_names_them(toy, tmp_path):
    job = start(tmp_path, toy, *srpo("data.shuffle=False", f"data.train_files={toy}/some_other_loop.parquet"))
    assert job.code() != 0
    assert re.search(r"rows have no set tags \(.*_0.*agent_name.*srpo.workflow=null", job.log, re.S)


def test_a_workflow_that_does_not_exist_is_named_with_its_neighbours(toy, tmp_path):
    job = start(tmp_path, toy, *srpo("srpo.workflow=math/debat"))
    assert job.code() != 0
    assert "math/debat" in job.log and "math/debate" in job.log
