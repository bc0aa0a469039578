"""Macro averages and costs beside verl's own validation metrics."""

import pytest
from verl.trainer.ppo.v1.trainer_base import PPOTrainer

from verl_srpo.trainer.trainers import SRPOTrainerSync
from verl_srpo.trainer.validation import macro_metrics

# two math questions with two samples each; one search question, of whose three samples one was dropped
SOURCES = ["math"] * 4 + ["hotpotqa"] * 2
UIDS = ["a", "a", "b", "b", "c", "c"]
INFOS = {
    "reward": [1.0, 0.0, 1.0, 1.0, 1.0, -0.5],
    "acc": [1.0, 0.0, 1.0, 1.0, 1.0, 0.0],
    "f1": [None, None, None, None, 1.0, 0.5],
    "pred": ["4", "5", "7", "7", "Paris", "Rome"],
    "data_source": ["math"] * 4 + ["hotpotqa"] * 2,
    "team_tokens": [100.0, 300.0, 200.0, 200.0, 50.0, 150.0],
    "calls": [3.0, 3.0, 3.0, 3.0, 2.0, 2.0],
    "events": [2.0, 2.0, 2.0, 2.0, 2.0, 2.0],
    "mean_set_size": [1.5, 1.5, 1.5, 1.5, 1.0, 1.0],
    "wall_clock_s": [1.0, 2.0, 3.0, 4.0, 5.0, 6.0],
}
EXPECTED = {("math", "a"): 2, ("math", "b"): 2, ("hotpotqa", "c"): 3}


def test_macro_micro_and_costs_by_hand():
    metrics = macro_metrics(SOURCES, UIDS, INFOS, EXPECTED)
    # math: a 1/2, b 1; hotpotqa: c 1/3, as the dropped sample counts as wrong
    assert metrics["val-srpo/macro/avg"] == pytest.approx((3 / 4 + 1 / 3) / 2)
    assert metrics["val-srpo/micro/avg"] == pytest.approx((1 / 2 + 1 + 1 / 3) / 3)
    assert metrics["val-srpo/macro/pass"] == 1.0
    assert metrics["val-srpo/macro/f1"] == pytest.approx((1.0 + 0.5 + 0.0) / 3)  # of search alone
    assert metrics["val-srpo/cost/team_tokens"] == pytest.approx(1000 / 6)
    assert metrics["val-srpo/cost/correct_per_million_tokens"] == pytest.approx(4 / 1000 * 1e6)
    assert metrics["val-srpo/cost/set_size"] == pytest.approx((4 * 3 + 2 * 2) / 12)
    assert (metrics["val-srpo/episodes"], metrics["val-srpo/dropped_episodes"]) == (7.0, 1.0)


def test_a_question_whose_episodes_were_all_dropped_counts_as_wrong():
    metrics = macro_metrics(["math"], ["a"], {"reward": [1.0]}, {("math", "a"): 1, ("math", "b"): 1})
    assert metrics["val-srpo/macro/avg"] == 0.5
    assert metrics["val-srpo/questions"] == 2.0


def test_the_trainer_adds_them_to_verls_own():
    trainer = object.__new__(SRPOTrainerSync)
    arguments = (SOURCES, UIDS, INFOS, [2] * 6)
    verls = PPOTrainer._val_metrics_update(trainer, *arguments, expected_acc_counts=EXPECTED)
    metrics = trainer._val_metrics_update(*arguments, expected_acc_counts=EXPECTED)
    assert metrics == verls | macro_metrics(SOURCES, UIDS, INFOS, EXPECTED)
    own = [metrics[f"val-core/{name}"] for name in ("math/acc/mean@2", "hotpotqa/acc/mean@3")]
    assert sum(own) / 2 == pytest.approx(metrics["val-srpo/macro/avg"])  # the same rule as verl's
