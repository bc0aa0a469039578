import math

import pytest
import torch

from tests.core import reference
from tests.core.batches import cardinality_norms, for_all, make_batch, member_norms, seeds
from verl_srpo.core import member_log_ratio, set_log_ratio, tokens

# two rows of one set and one of another, by hand
LOG_PROB = torch.tensor([[-1.0, -1.5, -9.0], [-2.0, -9.0, -9.0], [-0.5, -0.25, -1.0]], dtype=torch.float64)
OLD_LOG_PROB = torch.tensor([[-1.5, -1.0, 0.0], [-3.0, 0.0, 0.0], [-1.0, -1.0, -1.0]], dtype=torch.float64)
MASK = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1]])
SET_IDS = torch.tensor([4, 4, 2])


@pytest.mark.parametrize(("member_norm", "expected"), [("sum", [0.0, 1.0, 1.25]), ("mean", [0.0, 1.0, 1.25 / 3])])
def test_member_log_ratio_by_hand(member_norm, expected):
    ratios = member_log_ratio(LOG_PROB, OLD_LOG_PROB, MASK, member_norm=member_norm)
    torch.testing.assert_close(ratios, torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-15)


@pytest.mark.parametrize(("norm", "pair"), [("sqrt", 1 / math.sqrt(2)), ("none", 1.0), ("mean", 0.5)])
def test_set_log_ratio_by_hand(norm, pair):
    ratios = set_log_ratio(torch.tensor([0.0, 1.0, 1.25], dtype=torch.float64), SET_IDS, cardinality_norm=norm)
    expected = torch.tensor([pair, pair, 1.25], dtype=torch.float64)
    torch.testing.assert_close(ratios, expected, rtol=0, atol=1e-15)


def test_gradient_of_a_set_log_ratio_reaches_every_member():
    ratios = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(set_log_ratio(ratios, SET_IDS)[0], ratios)
    coefficient = 2**-0.5
    expected = torch.tensor([coefficient, coefficient, 0.0], dtype=torch.float64)
    torch.testing.assert_close(slope, expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "mask_type", [torch.bool, torch.uint8, torch.int32, torch.int64, torch.float32, torch.bfloat16]
)
def test_every_type_of_mask_selects_the_same_tokens(mask_type):
    ratios = member_log_ratio(LOG_PROB, OLD_LOG_PROB, MASK.to(mask_type))
    assert ratios.tolist() == [0.0, 1.0, 1.25]


@pytest.mark.parametrize("garbage", [float("nan"), float("inf"), -float("inf"), 6e4])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_excluded_tokens_reach_neither_value_nor_gradient(garbage, dtype):
    log_prob, old = LOG_PROB.to(dtype, copy=True), OLD_LOG_PROB.to(dtype, copy=True)
    log_prob[MASK == 0], old[MASK == 0] = garbage, -garbage
    log_prob.requires_grad_()
    ratios = member_log_ratio(log_prob, old, MASK)
    ratios.sum().backward()
    assert ratios.tolist() == [0.0, 1.0, 1.25]
    assert log_prob.grad is not None
    assert log_prob.grad.tolist() == MASK.to(dtype).tolist()


def test_half_precision_is_summed_in_single_precision():
    log_prob = torch.full((1, 4096), 2.0**-8, dtype=torch.bfloat16)
    ratio = member_log_ratio(log_prob, torch.zeros_like(log_prob), torch.ones(1, 4096))
    assert ratio.dtype == torch.float32
    assert ratio.item() == 16.0  # bfloat16 can not count in steps of 2^-8 beyond 2


@pytest.mark.parametrize(("rows", "length"), [(5, 1), (5, 7), (30, 20_011), (3, 300_000)])
def test_batches_of_any_shape_agree_with_the_sum(rows, length):
    # less than a block of the CPU pass, several blocks of several rows, rows longer than a block
    draw = torch.Generator().manual_seed(0)
    log_prob, old = torch.randn(2, rows, length, generator=draw, dtype=torch.float64)
    mask = torch.rand(rows, length, generator=draw) < 0.5
    log_prob.requires_grad_()
    for mask_type in (torch.bool, torch.int64, torch.float32):
        ratios = member_log_ratio(log_prob, old, mask.to(mask_type), member_norm="mean")
        expected = ((log_prob - old) * mask).sum(-1) / mask.sum(-1).clamp(min=1)
        torch.testing.assert_close(ratios, expected, rtol=1e-12, atol=1e-12)
        slopes = [torch.autograd.grad(value.square().sum(), log_prob)[0] for value in (ratios, expected)]
        torch.testing.assert_close(*slopes, rtol=1e-12, atol=1e-12)


@for_all(10, seed=seeds)
def test_accelerators_whole_passes_agree_with_the_blocks_of_a_cpu(seed):
    batch = make_batch(seed).with_gradient()
    results = []
    for by_blocks in (True, False):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(tokens, "_by_blocks", lambda mask, answer=by_blocks: answer)
            ratios = member_log_ratio(*batch.loss_arguments()[:3])[batch.set_ids >= 0]
            results.append((ratios, torch.autograd.grad(ratios.square().sum(), batch.log_prob)[0]))
    for blocks, whole in zip(*results, strict=True):
        torch.testing.assert_close(whole, blocks, rtol=1e-13, atol=1e-15)


def test_second_derivatives_flow_through_the_masked_sum():
    log_prob = LOG_PROB.clone().requires_grad_()
    square = member_log_ratio(log_prob, OLD_LOG_PROB, MASK).square().sum()
    (slope,) = torch.autograd.grad(square, log_prob, create_graph=True)
    (curvature,) = torch.autograd.grad(slope.sum(), log_prob)
    # d2/dx2 of (sum of m x)^2 summed over the row: 2 m n
    assert curvature.tolist() == [[4.0, 4.0, 0.0], [2.0, 0.0, 0.0], [6.0, 6.0, 6.0]]


def test_strided_arguments_are_read_in_their_own_order():
    ratios = member_log_ratio(LOG_PROB.T.contiguous().T, OLD_LOG_PROB[:, [0, 1, 2]], MASK.T.contiguous().T.bool())
    assert ratios.tolist() == [0.0, 1.0, 1.25]


def test_row_without_response_tokens_has_log_ratio_zero():
    none = torch.zeros(3, 3, dtype=torch.int64)
    for member_norm in ("sum", "mean"):
        assert member_log_ratio(LOG_PROB, OLD_LOG_PROB, none, member_norm=member_norm).tolist() == [0.0, 0.0, 0.0]
        for mask_type in (torch.bool, torch.int64, torch.float32):
            tensors = (LOG_PROB[:, :0], OLD_LOG_PROB[:, :0], none[:, :0].to(mask_type))
            assert member_log_ratio(*tensors, member_norm=member_norm).tolist() == [0.0, 0.0, 0.0]


@for_all(seed=seeds, member_norm=member_norms, cardinality_norm=cardinality_norms)
def test_ratios_agree_with_the_loops(seed, member_norm, cardinality_norm):
    batch = make_batch(seed)
    members = member_log_ratio(batch.log_prob, batch.old_log_prob, batch.response_mask, member_norm=member_norm)
    ratios = set_log_ratio(members, batch.set_ids, cardinality_norm=cardinality_norm)
    expected = torch.zeros_like(members)
    for rows in reference.members_of(batch.set_ids).values():
        tokens = (batch.log_prob, batch.old_log_prob, batch.response_mask)
        of_rows = [reference.member_log_ratio(*tokens, row, member_norm) for row in rows]
        torch.testing.assert_close(members[rows], torch.stack(of_rows), rtol=1e-12, atol=1e-14)
        expected[rows] = reference.joint(of_rows, cardinality_norm)
    torch.testing.assert_close(ratios, expected, rtol=1e-12, atol=1e-14)


@for_all(seed=seeds)
def test_three_cardinality_norms_coincide_on_single_member_sets(seed):
    members = torch.randn(7, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    set_ids = torch.arange(7) * 3
    for norm in ("sqrt", "none", "mean"):
        assert torch.equal(set_log_ratio(members, set_ids, cardinality_norm=norm), members)


@pytest.mark.parametrize("cardinality", [1, 2, 5, 16])
def test_independent_members_keep_the_variance_whatever_the_set_size(cardinality):
    # eq. 5 without covariance: Var(L_S) = v
    sets, variance = 40_000, 0.09
    draw = torch.Generator().manual_seed(cardinality)
    members = variance**0.5 * torch.randn(sets * cardinality, generator=draw, dtype=torch.float64)
    ratios = set_log_ratio(members, torch.arange(sets).repeat_interleave(cardinality))[::cardinality]
    # the sample variance of 40,000 normal numbers has a relative standard error of 0.7 %
    assert ratios.var().item() == pytest.approx(variance, rel=0.04)


def test_padding_rows_have_set_log_ratio_zero():
    ratios = set_log_ratio(torch.tensor([float("nan"), 2.0, float("inf")]), torch.tensor([-1, 3, -7]))
    assert ratios.tolist() == [0.0, 2.0, 0.0]
