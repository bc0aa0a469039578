"""Field report 19: what is dropped is counted by reason, and a batch of which nothing is left says so."""

import re
from types import SimpleNamespace

import numpy as np
import pytest

from tests.trainer.test_rows import make_rows
from verl_srpo.config import SRPOSettings
from verl_srpo.trainer import metrics as srpo_metrics
from verl_srpo.trainer.trainers import SRPOTrainer


class Manager:
    def drain_statistics(self, partition):
        assert partition == "train"
        return {"episodes": 4.0, "dropped_episodes/timeout": 3.0, "failed_calls/timeout": 5.0, "dropped/timeout": 2.0}


def trainer():
    stand_in = SRPOTrainer.__new__(SRPOTrainer)
    stand_in.agent_loop_manager, stand_in.global_steps = Manager(), 7
    return stand_in


REASONS = r"step 7: dropped_episodes/timeout=3, failed_calls/timeout=5, dropped/timeout=2\."


def test_field_report_19_an_empty_batch_is_an_error_with_the_reasons():
    with pytest.raises(RuntimeError, match=f"no complete set is left to train on in {REASONS} .*srpo.failure=refill"):
        trainer()._balance_batch([], {})


def test_field_report_19_verls_own_error_gets_the_reasons(monkeypatch):
    class Stock:
        def _step_once(self, *args):
            raise RuntimeError("Sync replay buffer selected terminal groups with no materializable trajectories.")

    class Trainer(SRPOTrainer, Stock):
        pass

    stand_in = Trainer.__new__(Trainer)
    stand_in.agent_loop_manager, stand_in.global_steps = Manager(), 7
    with pytest.raises(RuntimeError, match=REASONS):
        stand_in._step_once({}, {}, 4)


def test_field_report_19_incomplete_sets_are_counted():
    rows = make_rows(set_size=[3, 3, 1, 2, 2, 1])
    complete = np.array([False, False, True, True, True, True])
    counted = srpo_metrics.batch_metrics(rows, complete, padding_rows=2)
    assert counted["srpo/dropped/incomplete"] == 1
    assert (counted["srpo/sets"], counted["srpo/rows"], counted["srpo/padding_rows"]) == (3, 6, 2)


class Batch:
    """As much of a KVBatchMeta as `_balance_batch` needs; padding rows are clones of the first one."""

    partition_id = "train"

    def __init__(self, keys):
        self.keys = keys
        self.tags = [{"seq_len": 3, "min_global_steps": 1, "max_global_steps": 1} for _ in keys]

    def __len__(self):
        return len(self.keys)

    def reorder(self, order):
        self.keys, self.tags = [self.keys[i] for i in order], [self.tags[i] for i in order]


def balanced(monkeypatch, rows, **settings):
    """A trainer after `_balance_batch` of these rows on two ranks, and its metrics."""
    from verl_srpo.trainer import trainers

    stand_in = trainer()
    stand_in.settings, stand_in.tokenizer, stand_in._said_untagged = (
        SRPOSettings(**settings),
        SimpleNamespace(eos_token_id=0),
        False,
    )
    for name, value in (("_data_parallel_size", 2), ("_num_mini_batches", 1), ("_row_multiple", 1)):
        monkeypatch.setattr(stand_in, name, lambda value=value: value)
    monkeypatch.setattr(trainers, "read_rows", lambda batch: rows)
    monkeypatch.setattr(
        trainers,
        "upsample_batch_to_divisible_size",
        lambda batch, size, eos: Batch([*batch.keys, *batch.keys[:1] * (-len(batch) % size)]),
    )
    written = {}

    def kv_batch_put(keys, partition_id, fields):
        written.update(fields)
        return SimpleNamespace(fields=["input_ids", "set_id", "outcome_reward", "sampling_temperature"])

    monkeypatch.setattr(trainers.tq, "kv_batch_put", kv_batch_put)
    metrics = {}
    batch = stand_in._balance_batch(Batch([f"t_{e}_{i}" for e in (0, 1) for i in range(3)]), metrics)
    assert batch.fields == ["input_ids", "set_id", "sampling_temperature"], "what workers fetch"
    assert written["set_id"].tolist() == stand_in.rows.set_id.tolist()
    return stand_in, metrics


@pytest.mark.parametrize(("active_set", "sets"), [("event", 3), ("output", 4)])
def test_a_missing_member_removes_its_whole_event_also_where_outputs_are_taken_apart(monkeypatch, active_set, sets):
    """Field report 10, for baselines too: else they would train on rows that SRPO does not."""
    rows = make_rows(set_size=[3, 3, 1, 2, 2, 1])
    stand_in, metrics = balanced(monkeypatch, rows, active_set=active_set)
    kept = stand_in.rows.set_id >= 0
    assert sorted(stand_in.rows.agent_id[kept].tolist()) == [0, 1, 2, 2]
    assert len(np.unique(stand_in.rows.set_id[kept])) == metrics["srpo/sets"] == sets
    assert len(np.unique(stand_in.rows.set_id)) == sets + (~kept).sum(), "removed and padding rows share no identifier"


def test_no_complete_set_counts_sets(monkeypatch):
    with pytest.raises(RuntimeError, match=r"dropped/incomplete=4\."):
        balanced(monkeypatch, make_rows(set_size=[3, 3, 2, 3, 3, 2]))


def test_field_report_24_event_rewards_and_the_outcome_are_logged_apart():
    rows = make_rows(event_reward=[-0.2, -0.2, 0, 0, 0, 0], outcome_reward=[1, 1, 1, 0, 0, 0])
    counted = srpo_metrics.batch_metrics(rows, np.ones(6, dtype=bool), padding_rows=0)
    assert counted["srpo/outcome_reward/mean"] == 0.5
    assert counted["srpo/event_reward/mean"] == pytest.approx(-0.2 / 4)  # over four sets, not six rows


def test_no_metric_name_is_reduced_by_verl_as_an_extreme():
    """verl takes the maximum of every metric with "max" in its name, and the minimum for "min"."""
    rows = make_rows()
    names = [*srpo_metrics.batch_metrics(rows, np.ones(6, dtype=bool), 0)]
    names += srpo_metrics.signal_metrics(rows, np.zeros(6), np.zeros(6, dtype=bool))
    names += srpo_metrics.agent_metrics(rows, ["a", "b", "judge"], np.ones(6), np.ones(6))
    assert names and not [name for name in names if re.search("max|min", name)]


def test_field_report_21_an_agent_that_took_no_part_is_fine():
    counted = srpo_metrics.agent_metrics(make_rows(), ["a", "b", "c", "never"], np.ones(6), None)
    assert counted["srpo/agent/never/outputs"] == 0
    assert "srpo/agent/never/response_length" not in counted


def test_updates_are_reduced_over_mini_batches_and_epochs():
    reduced = srpo_metrics.reduce_update_metrics(
        {
            "srpo/k2/count": [3, 1, 3, 1],
            "srpo/k2/log_ratio_std": [0.0, 0.4, 0.0, 0.4],
            "srpo/k2/log_ratio_extreme": [0.1, -0.9, 0.3, 0.2],
            "srpo/extra_pass": [0.0, 1.0, 1.0, 1.0],
            "srpo/extra_pass_seconds": [0.0, 0.5, 0.5, 0.5],
        },
        epochs=2,
    )
    assert reduced == {
        "srpo/k2/count": 4.0,
        "srpo/k2/log_ratio_std": pytest.approx(0.1),
        "srpo/k2/log_ratio_extreme": -0.9,
        "srpo/extra_pass": 0.75,
        "srpo/extra_pass_seconds": 1.5,
    }


def test_members_of_different_policy_versions_are_counted():
    set_id = np.array([5, 5, 6, 6, 7, -1])
    oldest = np.array([3, 3, 3, 2, 1, 0])
    newest = np.array([3, 3, 3, 3, 2, 9])
    assert srpo_metrics.mixed_versions(set_id, oldest, newest) == 2
    assert srpo_metrics.mixed_versions(np.array([-1]), np.array([0]), np.array([1])) == 0


def test_describe_is_one_line():
    stand_in = trainer()
    actor = SimpleNamespace(ppo_mini_batch_size=8, ppo_epochs=3)
    stand_in.settings, stand_in.roster, stand_in.parameter_sync_step = SRPOSettings(), ["a", "b"], 1
    stand_in.config = SimpleNamespace(
        data=SimpleNamespace(train_batch_size=32), actor_rollout_ref=SimpleNamespace(actor=actor)
    )
    assert "\n" not in stand_in.describe()
    assert (
        "workflow math/debate (a, b)" in stand_in.describe() and "4 optimizer steps x 3 epochs" in stand_in.describe()
    )


@pytest.mark.parametrize(
    ("overrides", "reference", "multiple"),
    [
        (("actor.use_dynamic_bsz=True",), True, 1),
        (("rollout.log_prob_micro_batch_size_per_gpu=4",), False, 4),
        (("rollout.log_prob_micro_batch_size_per_gpu=4", "ref.log_prob_micro_batch_size_per_gpu=6"), True, 12),
        (("actor.use_dynamic_bsz=True", "ref.log_prob_use_dynamic_bsz=False"), True, 6),
    ],
)
def test_rows_are_padded_for_each_log_prob_pass_by_its_own_setting(overrides, reference, multiple):
    from hydra import compose, initialize_config_module

    stand_in = trainer()
    given = [f"actor_rollout_ref.{one}" for one in ("ref.log_prob_micro_batch_size_per_gpu=6", *overrides)]
    with initialize_config_module("verl.trainer.config", version_base=None):
        stand_in.config = compose("srpo_trainer", given)
    stand_in.use_reference_policy = reference
    assert stand_in._row_multiple() == multiple
