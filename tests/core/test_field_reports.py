"""Faults that users of neighbouring systems reported, and that the core must not have. Names say the situation."""

import math

import pytest
import torch

from tests.core.worked_example import AGENTS, EPISODES, EVENT_INDEX, RETURNS, SET_IDS, TASKS, TOKENS
from verl_srpo.core import (
    event_weights,
    member_log_ratio,
    pack_mini_batches,
    set_log_ratio,
    set_populations,
    set_relative_advantages,
    set_statistics,
    srpo_loss,
)


def advantages(rows=slice(None), **options) -> torch.Tensor:
    columns = (RETURNS[rows], SET_IDS[rows], EPISODES[rows], TASKS[rows])
    return set_relative_advantages(*columns, agent_ids=AGENTS[rows], event_index=EVENT_INDEX[rows], **options)


def gradient(set_ids, of_sets, lengths, **options) -> torch.Tensor:
    """Sum over each row's tokens of the loss's gradient, where all ratios are 1."""
    mask = torch.arange(int(max(lengths))) < torch.tensor(lengths)[:, None]
    log_prob = torch.zeros(mask.shape, dtype=torch.float64, requires_grad=True)
    loss, _ = srpo_loss(log_prob, torch.zeros_like(mask, dtype=torch.float64), mask, set_ids, of_sets, **options)
    return torch.autograd.grad(loss, log_prob)[0].sum(-1)


def test_field_report_01_who_is_compared_and_what_is_counted_are_two_switches():
    # solver and verifier in each of two episodes; the second verifier was asked twice
    set_ids, zeros = torch.arange(5), torch.zeros(5, dtype=torch.int64)
    episodes, agents = torch.tensor([0, 0, 1, 1, 1]), torch.tensor([0, 1, 0, 1, 1])
    events = torch.tensor([0, 1, 0, 1, 2])
    returns = torch.tensor([1.0, 1.0, 0.0, 0.0, 0.0], dtype=torch.float64)
    sizes = {
        (scope, count): set_populations(
            returns, set_ids, episodes, zeros, agent_ids=agents, event_index=events, scope=scope, count=count
        ).size.tolist()
        for scope in ("signature", "task")
        for count in ("episode", "set")
    }
    assert sizes == {
        ("signature", "episode"): [2, 2, 2, 2, 2],
        ("signature", "set"): [2, 3, 2, 3, 3],
        ("task", "episode"): [2, 2, 2, 2, 2],
        ("task", "set"): [5, 5, 5, 5, 5],
    }


def test_field_report_02_unequal_turn_counts_do_not_shift_the_baseline():
    # four rollouts, six rows: the two that called a tool have a second turn
    episodes = torch.tensor([0, 0, 1, 1, 2, 3])
    set_ids, zeros = torch.arange(6), torch.zeros(6, dtype=torch.int64)
    returns = torch.tensor([1.0, 1.0, 1.0, 1.0, 0.0, 0.0], dtype=torch.float64)
    of_sets = set_relative_advantages(returns, set_ids, episodes, zeros, agent_ids=zeros)
    up = 0.5 / (math.sqrt(1 / 3) + 1e-6)
    assert of_sets.tolist() == pytest.approx([up, up, up, up, -up, -up])
    # the baseline is that of the same four rollouts with one turn each
    rows = torch.tensor([0, 2, 4, 5])
    once = set_relative_advantages(returns[rows], set_ids[rows], episodes[rows], zeros[rows], agent_ids=zeros[rows])
    torch.testing.assert_close(of_sets[rows], once, rtol=1e-12, atol=0)


def test_field_report_03_siblings_of_one_and_five_rows():
    # task 0 of the worked example: A has one row, B five
    populations = set_populations(RETURNS, SET_IDS, EPISODES, TASKS, agent_ids=AGENTS)
    assert populations.size.tolist() == [2.0] * 8
    assert populations.mean.tolist() == [0.5] * 8
    assert populations.std.tolist() == pytest.approx([math.sqrt(0.5)] * 8)
    one_turn_each = advantages(torch.tensor([0, 1, 6, 7]))
    torch.testing.assert_close(advantages()[[0, 1, 6, 7]], one_turn_each, rtol=1e-12, atol=0)


def test_field_report_04_number_of_rows_of_an_episode_does_not_scale_its_gradient():
    # A against B (five rows) under episode_mean and task 0 against task 1 under task_mean: equal and opposite pulls
    of_sets, lengths = advantages(), TOKENS.tolist()
    columns = {"episode_ids": EPISODES, "task_ids": TASKS}
    by_episode = event_weights(SET_IDS, reduction="episode_mean", **columns).double()
    pulls = gradient(SET_IDS, of_sets, lengths, member_norm="mean", weights=by_episode)
    sums = torch.zeros(4, dtype=torch.float64).index_add(0, EPISODES, pulls)
    assert sums.abs().tolist() == pytest.approx([sums[0].abs().item()] * 4)
    by_task = event_weights(SET_IDS, reduction="task_mean", **columns).double()
    total = torch.zeros(2, dtype=torch.float64).index_add(0, TASKS, by_task)
    assert total.tolist() == pytest.approx([0.5, 0.5])
    # a set of three rows weighs as much as one of a single row
    three = event_weights(torch.tensor([1, 1, 1, 2]))
    assert three.tolist() == [0.5] * 4


def test_field_report_05_groups_of_one_are_reported_and_never_get_their_raw_reward():
    # every trajectory under a task of its own
    ids = torch.arange(4)
    rewards = torch.tensor([1.0, 0.0, 1.0, 1.0])
    populations = set_populations(rewards, ids, ids, ids, agent_ids=torch.zeros_like(ids))
    assert populations.lonely.tolist() == [True] * 4
    for lonely in ("task", "zero"):
        of_sets = set_relative_advantages(rewards, ids, ids, ids, agent_ids=torch.zeros_like(ids), lonely=lonely)
        assert of_sets.tolist() == [0.0] * 4


def test_field_report_06_one_scalar_a_set_reaches_the_tokens_of_members_of_any_length():
    # members of 1, 3 and 6 tokens, at different places in the row
    mask = torch.tensor([[0, 0, 0, 0, 0, 1], [1, 1, 1, 0, 0, 0], [1, 1, 1, 1, 1, 1]])
    log_prob = torch.zeros(3, 6, dtype=torch.float64, requires_grad=True)
    of_sets = torch.full((3,), 2.0, dtype=torch.float64)
    loss, _ = srpo_loss(log_prob, torch.zeros_like(log_prob), mask, torch.tensor([4, 4, 4]), of_sets)
    (slope,) = torch.autograd.grad(loss, log_prob)
    torch.testing.assert_close(slope, -2.0 / math.sqrt(3) * mask.double(), rtol=1e-14, atol=0)


def test_field_report_09_padding_copies_enter_no_advantage_no_weight_and_no_metric():
    rows = torch.cat([torch.arange(8), torch.zeros(3, dtype=torch.int64)])
    padded = SET_IDS[rows].clone()
    padded[8:] = torch.tensor([-1, -2, -3])
    with_copies = set_relative_advantages(RETURNS[rows], padded, EPISODES[rows], TASKS[rows], agent_ids=AGENTS[rows])
    assert with_copies.tolist() == [*advantages().tolist(), 0.0, 0.0, 0.0]
    columns = {"reduction": "task_mean", "task_ids": TASKS[rows]}
    assert event_weights(padded, **columns).tolist() == [
        *event_weights(SET_IDS, reduction="task_mean", task_ids=TASKS).tolist(),
        0.0,
        0.0,
        0.0,
    ]
    draw = torch.Generator().manual_seed(0)
    members = torch.randn(8, generator=draw, dtype=torch.float64)[rows]
    assert set_statistics(members, padded, with_copies) == set_statistics(members[:8], SET_IDS, advantages())


def test_field_report_10_dummy_row_of_a_failed_rollout_contributes_exactly_zero():
    # its mask is on and its content is not a number
    draw = torch.Generator().manual_seed(0)
    log_prob, old = torch.randn(2, 4, 5, generator=draw, dtype=torch.float64)
    log_prob[3] = float("nan")
    mask, of_sets = torch.ones(4, 5), torch.tensor([1.0, 1.0, -1.0, 7.0], dtype=torch.float64)
    set_ids = torch.tensor([1, 1, 2, -1])
    members = member_log_ratio(log_prob, old, mask)
    assert set_log_ratio(members, set_ids).isfinite().all()
    results = []
    for rows in ([0, 1, 2], [0, 1, 2, 3]):
        leaf = log_prob[rows].clone().requires_grad_()
        loss, metrics = srpo_loss(leaf, old[rows], mask[rows], set_ids[rows], of_sets[rows])
        results.append((loss, torch.autograd.grad(loss, leaf)[0], metrics))
    (loss, slope, metrics), (loss_with, slope_with, metrics_with) = results
    assert loss_with.item() == loss.item()
    assert torch.equal(slope_with[:3], slope)
    assert slope_with[3].tolist() == [0.0] * 5
    assert metrics_with == {**metrics, "padding_rows": 1.0}


def test_field_report_11_reordered_rows_give_the_same_loss_and_gradient():
    draw = torch.Generator().manual_seed(1)
    log_prob, old = torch.randn(2, 8, 5, generator=draw, dtype=torch.float64)
    set_ids, of_sets = torch.tensor([3, 3, 3, 1, 1, 9, 9, 5]), torch.tensor([1.0, 1, 1, -2, -2, 0.5, 0.5, 3])
    order = torch.randperm(8, generator=draw)
    loss, slope = None, None
    for rows in (torch.arange(8), order):
        leaf = (old[rows] + 0.1 * log_prob[rows]).requires_grad_()
        value, _ = srpo_loss(leaf, old[rows], torch.ones(8, 5), set_ids[rows], of_sets[rows].double())
        (row_slopes,) = torch.autograd.grad(value, leaf)
        if loss is None or slope is None:
            loss, slope = value, row_slopes
        else:
            torch.testing.assert_close(value, loss, rtol=1e-14, atol=0)
            torch.testing.assert_close(row_slopes, slope[order], rtol=1e-13, atol=0)


def test_field_report_12_loss_ignores_padding_length_and_shows_the_tails_of_long_responses():
    # the same responses in rows of 8 and of 800 positions
    lengths, of_sets = [3, 8, 1], torch.tensor([1.0, 1.0, -1.0], dtype=torch.float64)
    values = []
    for width in (8, 800):
        mask = torch.arange(width) < torch.tensor(lengths)[:, None]
        log_prob = torch.where(mask, -0.9, 0.0).double()
        old = torch.full_like(log_prob, -1.0)
        values.append(srpo_loss(log_prob, old, mask, torch.tensor([0, 0, 1]), of_sets)[0].item())
    assert values[0] == pytest.approx(values[1], rel=1e-12)
    # 10,000 tokens, each less likely by 0.00028 only: a ratio of 0.06, in the log under its set size
    old = torch.zeros(2, 10_000)
    members = member_log_ratio(old - 2.8e-4, old, torch.ones_like(old))
    statistics = set_statistics(members, torch.tensor([0, 1]), torch.tensor([-1.0, 1.0]))
    assert math.exp(statistics[1].log_ratio_extreme) == pytest.approx(0.061, abs=1e-3)
    assert statistics[1].clip_low == 0.5
    per_token = member_log_ratio(old - 2.8e-4, old, torch.ones_like(old), member_norm="mean")
    assert per_token.tolist() == pytest.approx([-2.8e-4] * 2, rel=1e-4)


def test_field_report_08_number_of_mini_batches_does_not_follow_the_number_of_rows():
    for rows in (3509, 640, 7):
        layout = pack_mini_batches(list(range(rows)), [1] * rows, ranks=2, mini_batches=3)
        assert sorted(set(layout.mini_batch_of().tolist())) == [0, 1, 2]
        assert len(layout.order) % 6 == 0
        assert len(layout.order) - rows < 6


@pytest.mark.parametrize("unit", ["set", "member", "token"])
@pytest.mark.parametrize("member_norm", ["sum", "mean"])
def test_field_report_27_all_masked_batch_gives_zero_loss_zero_gradient_and_a_count(unit, member_norm):
    log_prob = torch.zeros(3, 4, requires_grad=True)
    mask, set_ids = torch.zeros(3, 4, dtype=torch.int64), torch.tensor([5, 5, 6])
    weights = event_weights(set_ids, reduction="token_mean", response_lengths=mask.sum(-1))
    loss, metrics = srpo_loss(
        log_prob,
        torch.zeros(3, 4),
        mask,
        set_ids,
        torch.tensor([1.0, 1.0, -1.0]),
        unit=unit,
        member_norm=member_norm,
        weights=weights,
    )
    loss.backward()
    assert loss.item() == 0.0
    assert log_prob.grad is not None
    assert not log_prob.grad.any()
    assert metrics["empty_members"] == 3.0
    assert all(math.isfinite(value) for value in metrics.values())
