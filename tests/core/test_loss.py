"""Closed forms and degenerate batches of the loss."""

import math

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from tests.core.batches import make_batch
from verl_srpo.core import event_weights, srpo_loss

# two members with l = 0.3 and 0.1, and one set of a single member with l = -0.4
LOG_PROB = torch.tensor([[-0.7, -1.0], [-1.9, 0.0], [-1.2, -1.2]], dtype=torch.float64)
OLD_LOG_PROB = torch.tensor([[-0.9, -1.1], [-2.0, 0.0], [-1.0, -1.0]], dtype=torch.float64)
MASK = torch.tensor([[1, 1], [1, 0], [1, 1]])
SET_IDS = torch.tensor([8, 8, 3])
ROOT = math.sqrt(2)
LENGTH_FREE = math.exp((0.3 / 2 + 0.1) / ROOT)


def loss_and_gradient(advantages, **options):
    log_prob = LOG_PROB.clone().requires_grad_()
    advantages = torch.tensor(advantages, dtype=torch.float64)
    loss, metrics = srpo_loss(log_prob, OLD_LOG_PROB, MASK, SET_IDS, advantages, **options)
    (gradient,) = torch.autograd.grad(loss, log_prob)
    return loss.item(), gradient, metrics


@pytest.mark.parametrize(
    ("options", "pair", "slopes"),
    [
        # (L_S, c_K): value exp(L_S), slope by each member's l_j
        ({}, math.exp(0.4 / ROOT), [math.exp(0.4 / ROOT) / ROOT] * 2),
        ({"cardinality_norm": "none"}, math.exp(0.4), [math.exp(0.4)] * 2),
        ({"cardinality_norm": "mean"}, math.exp(0.2), [math.exp(0.2) / 2] * 2),
        ({"unit": "member"}, (math.exp(0.3) + math.exp(0.1)) / 2, [math.exp(0.3) / 2, math.exp(0.1) / 2]),
        (
            {"member_norm": "mean"},
            math.exp(0.25 / ROOT),
            [math.exp(0.25 / ROOT) / ROOT / 2, math.exp(0.25 / ROOT) / ROOT],
        ),
    ],
)
def test_value_and_gradient_by_hand(options, pair, slopes):
    # a wide clip range that decides nothing
    loss, gradient, _ = loss_and_gradient([2.0, 2.0, -1.5], clip_low=0.9, clip_high=9.0, **options)
    single = -0.2 if options.get("member_norm") == "mean" else -0.4
    assert loss == pytest.approx(0.5 * -2.0 * pair + 0.5 * 1.5 * math.exp(single), rel=1e-14)
    of_single = 1.5 * math.exp(single) * (0.5 if options.get("member_norm") == "mean" else 1.0)
    expected = 0.5 * torch.tensor([[-2 * slopes[0]] * 2, [-2 * slopes[1], 0], [of_single] * 2], dtype=torch.float64)
    torch.testing.assert_close(gradient, expected, rtol=1e-13, atol=0)


def test_token_unit_by_hand():
    loss, gradient, _ = loss_and_gradient([2.0, 2.0, -1.5], unit="token", clip_low=0.9, clip_high=9.0)
    up, down = [math.exp(0.2), math.exp(0.1), math.exp(0.1)], math.exp(-0.2)
    assert loss == pytest.approx(0.5 * -2.0 * sum(up) / 3 + 0.5 * 1.5 * down, rel=1e-14)
    a, b, c = (-2.0 * ratio / 6 for ratio in up)
    expected = torch.tensor([[a, b], [c, 0.0], [1.5 * down / 4] * 2], dtype=torch.float64)
    torch.testing.assert_close(gradient, expected, rtol=1e-13, atol=0)


@pytest.mark.parametrize(
    ("advantages", "low", "high", "value", "flows"),
    [
        # ratio of the pair exp(0.283) = 1.327, of the single exp(-0.4) = 0.670
        ([1.0, 1.0, 0.0], 0.0, 1.0, -1.2 / 2, [False, False]),  # above the range with A > 0: clipped
        ([-1.0, -1.0, 0.0], 0.0, 0.0, math.exp(0.4 / ROOT) / 2, [True, False]),  # above with A < 0: not
        ([0.0, 0.0, -1.0], 1.0, 0.0, 0.8 / 2, [False, False]),  # below with A < 0: clipped
        ([0.0, 0.0, 1.0], 0.0, 0.0, -math.exp(-0.4) / 2, [False, True]),  # below with A > 0: not
    ],
)
def test_clip_decides_only_where_it_lowers_the_objective(advantages, low, high, value, flows):
    loss, gradient, metrics = loss_and_gradient(advantages)
    assert loss == pytest.approx(value, rel=1e-14)
    assert [bool(gradient[:2].any()), bool(gradient[2].any())] == flows
    assert (metrics["clip_fraction_low"], metrics["clip_fraction_high"]) == (low / 2, high / 2)


def test_metrics_count_each_set_once():
    advantages = torch.tensor([1.0, 1.0, -1.0, 5.0], dtype=torch.float64)
    rows = [0, 1, 2, 2]
    loss, metrics = srpo_loss(
        LOG_PROB[rows],
        OLD_LOG_PROB[rows],
        torch.tensor([[1, 1], [1, 0], [1, 1], [0, 0]]),
        torch.tensor([8, 8, 3, -1]),
        advantages,
    )
    pair, single = 0.4 / ROOT, -0.4
    assert metrics == pytest.approx(
        {
            "loss": (-1.2 + 0.8) / 2,
            "sets": 2.0,
            "rows": 3.0,
            "padding_rows": 1.0,
            "empty_members": 0.0,
            "log_ratio_mean": (pair + single) / 2,
            "ratio_mean": (math.exp(pair) + math.exp(single)) / 2,
            "clip_fraction_low": 0.5,
            "clip_fraction_high": 0.5,
        }
    )
    assert all(type(value) is float for value in metrics.values())
    assert loss.item() == metrics["loss"]


def test_weights_multiply_the_losses_of_sets():
    weights = torch.tensor([0.9, 0.9, 0.1], dtype=torch.float64)
    loss, _, _ = loss_and_gradient([0.5, 0.5, 0.5], weights=weights, clip_low=0.9, clip_high=9.0)
    assert loss == pytest.approx(-0.5 * (0.9 * math.exp(0.4 / ROOT) + 0.1 * math.exp(-0.4)), rel=1e-14)


def test_member_without_response_tokens_counts_as_a_defect_and_leaves_the_rest_exact():
    mask = torch.tensor([[1, 1], [0, 0], [1, 1]])
    log_prob = LOG_PROB.clone().requires_grad_()
    loss, metrics = srpo_loss(log_prob, OLD_LOG_PROB, mask, SET_IDS, torch.tensor([1.0, 1.0, 0.0]), clip_high=9.0)
    loss.backward()
    assert metrics["empty_members"] == 1.0
    assert loss.item() == pytest.approx(-math.exp(0.3 / ROOT) / 2, rel=1e-14)
    assert log_prob.grad is not None
    assert log_prob.grad[1].tolist() == [0.0, 0.0]


@pytest.mark.parametrize("unit", ["set", "member", "token"])
@pytest.mark.parametrize("shift", [-800.0, 800.0])
def test_log_ratios_are_clamped_before_the_exponential(unit, shift):
    log_prob = (OLD_LOG_PROB + shift).requires_grad_()
    advantages = torch.full((3,), -1.0 if shift > 0 else 1.0, dtype=torch.float64)
    loss, _ = srpo_loss(log_prob, OLD_LOG_PROB, MASK, SET_IDS, advantages, unit=unit)
    loss.backward()
    assert loss.item() == pytest.approx(math.exp(20.0) if shift > 0 else -math.exp(-20.0), rel=1e-12)
    assert log_prob.grad is not None
    assert not log_prob.grad.any()


@pytest.mark.parametrize("unit", ["set", "member", "token"])
@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -float("inf")])
def test_garbage_in_excluded_places_reaches_nothing(unit, garbage):
    clean, dirty = make_batch(3, garbage=0.0).with_gradient(), make_batch(3, garbage=garbage).with_gradient()
    dirty.advantages[dirty.set_ids < 0] = garbage
    weights = event_weights(dirty.set_ids).double()
    weights[dirty.set_ids < 0] = garbage
    results = []
    for batch, of_sets in ((clean, None), (dirty, weights)):
        loss, metrics = srpo_loss(*batch.loss_arguments(), unit=unit, weights=of_sets)
        loss.backward()
        results.append((loss, batch.log_prob.grad, torch.tensor(list(metrics.values()))))
    for wanted, got in zip(*results, strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-7, atol=0)


@pytest.mark.parametrize("unit", ["set", "member", "token"])
@pytest.mark.parametrize("rows", [0, 3])
@pytest.mark.parametrize("ids", ["padding", "sets"])
def test_nothing_to_train_on_gives_zero_with_a_graph(unit, rows, ids):
    log_prob = torch.full((rows, 4), float("nan"), requires_grad=True)
    set_ids = torch.full((rows,), -1) if ids == "padding" else torch.arange(rows)
    mask = torch.zeros(rows, 4, dtype=torch.int64) if ids == "sets" else torch.ones(rows, 4, dtype=torch.int64)
    advantages = torch.zeros(rows)
    loss, metrics = srpo_loss(log_prob, torch.zeros(rows, 4), mask, set_ids, advantages, unit=unit)
    loss.backward()
    assert loss.item() == 0.0
    assert log_prob.grad is not None
    assert log_prob.grad.tolist() == [[0.0] * 4] * rows
    assert all(math.isfinite(value) for value in metrics.values())


@pytest.mark.parametrize("unit", ["set", "member", "token"])
def test_zero_advantage_contributes_exactly_nothing(unit):
    batch = make_batch(5, padding=0).with_gradient()
    chosen = int(batch.set_ids[0])
    batch.advantages[batch.set_ids == chosen] = 0.0
    weights = torch.where(batch.set_ids == chosen, 1.0, 0.0).double()
    loss, _ = srpo_loss(*batch.loss_arguments(), unit=unit, weights=weights)
    loss.backward()
    assert loss.item() == 0.0
    assert batch.log_prob.grad is not None
    assert not batch.log_prob.grad.any()


def test_gradient_flows_into_the_current_policy_alone():
    batch = make_batch(1, garbage=0.0).with_gradient()
    constants = [batch.old_log_prob, batch.advantages, event_weights(batch.set_ids).double()]
    for constant in constants:
        constant.requires_grad_()
    for unit in ("set", "member", "token"):
        loss, _ = srpo_loss(*batch.loss_arguments(), unit=unit, weights=constants[2])
        assert torch.autograd.grad(loss, constants, retain_graph=True, allow_unused=True) == (None, None, None)
        assert torch.autograd.grad(loss, batch.log_prob)[0].any()


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_gradient_comes_in_the_type_of_the_log_probabilities(dtype):
    log_prob = LOG_PROB.to(dtype).requires_grad_()
    loss, _ = srpo_loss(log_prob, OLD_LOG_PROB.to(dtype), MASK, SET_IDS, torch.tensor([1.0, 1.0, -1.0]))
    assert loss.dtype == torch.float32
    loss.backward()
    assert log_prob.grad is not None
    assert log_prob.grad.dtype == dtype


class _HostReads(TorchDispatchMode):
    """Records operations whose result decides a shape or a Python value: on an accelerator each waits for it."""

    WAITING = ("_local_scalar_dense", "nonzero", "unique", "masked_select", "equal", "bincount", "is_nonzero", "item")

    def __init__(self):
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func.overloadpacket.__name__
        by_mask = name == "index" and any(i is not None and i.dtype == torch.bool for i in args[1])
        if by_mask or any(waiting in name for waiting in self.WAITING):
            self.seen.append(name)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("unit", ["set", "member", "token"])
def test_loss_reads_nothing_back_before_its_metrics(unit):
    batch = make_batch(2).with_gradient()
    with _HostReads() as reads:
        loss, _ = srpo_loss(*batch.loss_arguments(), unit=unit)
        loss.backward()
    assert reads.seen == []  # the metrics come by one `tolist` of one tensor, which is no operation
    with _HostReads() as reads:
        event_weights(batch.set_ids, reduction="task_mean", task_ids=batch.task_ids)
    assert reads.seen  # the recorder does record
