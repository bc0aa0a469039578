"""What the driver hands to the loss: advantages, weights and importance of whole sets, on each of their rows."""

import math

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict

from tests.trainer.test_rows import make_rows
from verl_srpo.config import SRPOSettings
from verl_srpo.core.packing import Layout
from verl_srpo.trainer import estimators, register_set_advantage
from verl_srpo.trainer.objective import Objective

LENGTHS = [2, 1, 3, 2, 2, 1]
"""Response tokens of two episodes' rows: sets of 2 and 1 each. The log-ratio pi_old / pi_rollout is GAP a token."""
GAP = [0.1, 0.4, 0.2, -0.3, 0.0, -0.5]


def make_objective(bypass=False, **settings):
    config = {
        "actor_rollout_ref": {"actor": {"clip_ratio": 0.2, "clip_ratio_low": 0.1, "clip_ratio_high": None}},
        "algorithm": {"rollout_correction": {"bypass_mode": bypass}},
    }
    return Objective(OmegaConf.create(config), SRPOSettings(**settings))


def jagged(rows):
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def make_data(lengths=LENGTHS, gap=GAP, *, padding=0, log_probs=True):
    """Jagged columns of the rows; padding rows are clones of the first one with nothing in their mask."""
    lengths, gap = [*lengths, *[lengths[0]] * padding], [*gap, *[7.0] * padding]
    masks = [torch.ones(n, dtype=torch.int64) for n in lengths]
    for mask in masks[len(masks) - padding :]:
        mask.zero_()
    columns = {"response_mask": jagged(masks)}
    if log_probs:
        columns["rollout_log_probs"] = jagged([torch.full((n,), -1.0) for n in lengths])
        columns["old_log_probs"] = jagged([torch.full((n,), -1.0 + g) for n, g in zip(lengths, gap, strict=True)])
    return TensorDict(columns, batch_size=len(lengths))


def columns_of(objective, rows=None, *, padding=0, **data):
    order = np.concatenate([np.arange(6), np.full(padding, -1)])
    rows = (rows or make_rows(event_return=[1, 1, 1, 0, 0, 0], episode_return=[1, 1, 1, 0, 0, 0])).take(order)
    return objective.columns(rows, Layout(order, 1, 1, len(order)), make_data(padding=padding, **data))


SETS = [[0, 1], [2], [3, 4], [5]]
LOG_RATIOS = [(0.2 + 0.4) / math.sqrt(2), 0.6, (-0.6 + 0.0) / math.sqrt(2), -0.5]
"""L_S between pi_old and the rollout: token gaps summed over members, over sqrt(K)."""


@pytest.mark.parametrize("padding", [0, 2])
def test_the_importance_weight_is_the_whole_sets_and_truncated(padding):
    columns, metrics = columns_of(make_objective(set_importance_threshold=1.6), padding=padding)
    for rows, log_ratio in zip(SETS, LOG_RATIOS, strict=True):
        expected = min(math.exp(log_ratio), 1.6)
        assert columns["srpo_importance"][rows].tolist() == pytest.approx([expected] * len(rows), rel=1e-6)
    assert columns["srpo_importance"][6:].tolist() == [1.0] * padding
    # each set once, however many members it has; padding not at all
    assert metrics["srpo/set_importance/mean"] == pytest.approx(sum(map(math.exp, LOG_RATIOS)) / 4)
    assert metrics["srpo/set_importance/truncated_fraction"] == 1 / 4
    assert metrics["srpo/set_importance/log_ratio_extreme"] == pytest.approx(0.6)


def test_the_importance_weight_leaves_the_weight_of_entropy_and_kl_alone():
    columns, _ = columns_of(make_objective(set_importance_threshold=1.6))
    assert columns["srpo_weight"].tolist() == [0.25] * 6
    assert columns_of(make_objective())[0]["srpo_importance"].tolist() == [1.0] * 6


def test_the_norms_of_the_importance_weight_are_those_of_the_ratio():
    settings = {"member_norm": "mean", "cardinality_norm": "mean", "set_importance_threshold": 9.0}
    columns, _ = columns_of(make_objective(**settings))
    expected = [math.exp(x) for x in (0.25, 0.25, 0.2, -0.15, -0.15, -0.5)]
    assert columns["srpo_importance"].tolist() == pytest.approx(expected, rel=1e-6)


def test_verls_own_metrics_of_the_gap_count_tokens_of_complete_sets_only():
    rows = make_rows(event_return=[1, 1, 1, 0, 0, 0], episode_return=[1, 1, 1, 0, 0, 0])
    rows.set_id[5] = -1  # removed
    _, metrics = columns_of(make_objective(), rows, padding=2)
    tokens = [-gap for n, gap in zip(LENGTHS[:5], GAP[:5], strict=True) for _ in range(n)]
    assert metrics["rollout_corr/kl"] == pytest.approx(sum(tokens) / len(tokens), rel=1e-5)
    assert metrics["rollout_corr/log_ppl_diff"] == pytest.approx(-sum(GAP[:5]) / 5, rel=1e-4)


def test_without_rollout_log_probs_or_in_bypass_mode_there_is_no_such_metric():
    for metrics in (columns_of(make_objective(), log_probs=False)[1], columns_of(make_objective(bypass=True))[1]):
        assert not [name for name in metrics if name.startswith("rollout_corr/")]


def test_advantages_and_sizes_reach_every_row_of_a_set():
    columns, metrics = columns_of(make_objective(), padding=1)
    up = 0.5 / math.sqrt(0.5)
    assert columns["srpo_advantage"].tolist() == pytest.approx([up] * 3 + [-up] * 3 + [0.0], abs=1e-5)
    assert columns["srpo_set_size"].tolist() == [2, 2, 1, 2, 2, 1, 1]
    assert columns["srpo_set_tokens"].tolist() == [3, 3, 3, 4, 4, 1, 0]
    per_token = columns["advantages"].unbind()
    assert [len(row) for row in per_token] == [*LENGTHS, LENGTHS[0]]
    assert per_token[2].tolist() == pytest.approx([up] * 3, abs=1e-5)
    assert per_token[6].tolist() == [0.0, 0.0]
    assert metrics["srpo/lonely_fraction"] == 0.0
    assert metrics["srpo/empty_responses"] == 0  # the padding row's empty mask is no output


@pytest.mark.parametrize("reduction", ["event_mean", "token_mean", "episode_mean", "task_mean"])
def test_weights_sum_to_one_over_the_sets_of_each_mini_batch(reduction):
    rows = make_rows(set_id=[10, 10, 11, 20, 20, 21])
    order = np.array([0, 1, -1, 2, -1, -1, 3, 4, 5, -1, -1, -1])
    layout = Layout(order, 2, 2, 3)  # mini-batch 0: rows 0, 1 and 3, 4, 5; mini-batch 1: row 2
    data = make_data([LENGTHS[i] for i in np.maximum(order, 0)], [0.0] * 12)
    columns, _ = make_objective(event_reduction=reduction).columns(rows.take(order), layout, data)
    weight = columns["srpo_weight"]
    assert (weight[torch.from_numpy(order < 0)] == 0).all()
    assert weight[3] == 1.0  # alone in its mini-batch
    expected = {"token_mean": [3 / 8, 4 / 8, 1 / 8], "episode_mean": [1 / 2, 1 / 4, 1 / 4]}
    assert weight[[0, 6, 8]].tolist() == pytest.approx(expected.get(reduction, [1 / 3] * 3))


def test_the_clip_range_is_verls():
    options = make_objective().worker_options(first_is_old=True)
    assert (options["clip_low"], options["clip_high"], options["first_is_old"]) == (0.1, 0.2, True)
    assert make_objective(bypass=True).worker_options(first_is_old=True)["first_is_old"] is False


@pytest.mark.parametrize(
    ("advantages", "said"),
    [
        (lambda ids: torch.arange(len(ids)).float(), r"differs within set 10 \(row 0: 0.0, row 1: 1.0\)"),
        (lambda ids: torch.zeros(4), r"has shape \(4,\); \(7,\) is needed"),
        (lambda ids: torch.full((len(ids),), torch.nan), r"=nan on row 0 \(set 10\); finite"),
        (lambda ids: [0.0] * len(ids), "is a list; a torch.Tensor is needed"),
    ],
)
def test_what_a_registered_estimator_returns_is_checked(advantages, said, monkeypatch):
    monkeypatch.setattr(estimators, "_ESTIMATORS", {})
    register_set_advantage("mine")(lambda returns, ids, *others, **columns: advantages(ids))
    with pytest.raises(ValueError, match=f"the result of srpo.advantage=mine.*{said}"):
        columns_of(make_objective(advantage="mine"), padding=1)


def test_a_registered_estimator_says_nothing_about_padding_rows(monkeypatch):
    monkeypatch.setattr(estimators, "_ESTIMATORS", {})
    register_set_advantage("mine")(lambda returns, ids, *others, **columns: torch.where(ids < 0, torch.nan, 2.0))
    columns, _ = columns_of(make_objective(advantage="mine"), padding=1)
    assert columns["srpo_advantage"].tolist() == [2.0] * 6 + [0.0]
    assert columns["advantages"].values().isfinite().all()
