"""What holds for every batch: agreement with the loops, and indifference to how rows are laid out."""

from dataclasses import replace

import torch
from hypothesis import strategies as st

from tests.core import reference
from tests.core.batches import Batch, for_all, loss_options, make_batch, reductions, seeds
from verl_srpo.core import event_weights, member_log_ratio, set_log_ratio, srpo_loss


def loss_and_gradient(batch: Batch, **options) -> tuple[torch.Tensor, torch.Tensor]:
    batch = batch.with_gradient()
    loss, _ = srpo_loss(*batch.loss_arguments(), **options)
    (gradient,) = torch.autograd.grad(loss, batch.log_prob)
    return loss.detach(), gradient


def weights_of(batch: Batch, reduction: str) -> torch.Tensor:
    columns = {"episode_ids": batch.episode_ids, "task_ids": batch.task_ids, "response_lengths": batch.lengths}
    return event_weights(batch.set_ids, reduction=reduction, **columns).double()


def whole_set_numbers(batch: Batch, options: dict) -> dict[str, torch.Tensor]:
    """What a caller hands in for sets that it splits, from one pass without gradients over the mini-batch."""
    with torch.no_grad():
        members = member_log_ratio(*batch.loss_arguments()[:3], member_norm=options["member_norm"])
        ratios = set_log_ratio(members, batch.set_ids, cardinality_norm=options["cardinality_norm"])
    sizes, tokens = torch.ones_like(batch.set_ids), batch.lengths.clone()
    for rows in reference.members_of(batch.set_ids).values():
        sizes[rows] = len(rows)
        tokens[rows] = batch.lengths[rows].sum()
    return {"set_log_ratios": ratios, "set_sizes": sizes, "set_tokens": tokens}


def assert_same(got, wanted):
    torch.testing.assert_close(got[0], wanted[0], rtol=1e-11, atol=1e-13)
    torch.testing.assert_close(got[1], wanted[1], rtol=1e-11, atol=1e-13)


@for_all(seed=seeds, options=loss_options, reduction=reductions)
def test_value_and_gradient_are_those_of_the_joint_expression(seed, options, reduction):
    batch = make_batch(seed)
    weights = weights_of(batch, reduction)
    of_sets = {s: float(weights[rows[0]]) for s, rows in reference.members_of(batch.set_ids).items()}
    leaf = batch.with_gradient()
    expected = reference.loss(*leaf.loss_arguments(), of_sets, **options)
    (slope,) = torch.autograd.grad(expected, leaf.log_prob)
    assert_same(loss_and_gradient(batch, weights=weights, **options), (expected.detach(), slope))


@for_all(seed=seeds, options=loss_options)
def test_default_weights_are_the_mean_over_events(seed, options):
    batch = make_batch(seed)
    weights = torch.full(batch.set_ids.shape, 1.0 / len(reference.members_of(batch.set_ids)), dtype=torch.float64)
    assert_same(loss_and_gradient(batch, **options), loss_and_gradient(batch, weights=weights, **options))


@for_all(seed=seeds, options=loss_options, shuffle=seeds)
def test_row_order_does_not_matter(seed, options, shuffle):
    batch = make_batch(seed)
    order = torch.randperm(len(batch.set_ids), generator=torch.Generator().manual_seed(shuffle))
    loss, gradient = loss_and_gradient(batch, **options)
    assert_same(loss_and_gradient(batch.take(order), **options), (loss, gradient[order]))


@for_all(seed=seeds, options=loss_options, rows=st.integers(0, 5), tokens=st.integers(0, 5))
def test_padding_rows_and_columns_do_not_matter(seed, options, rows, tokens):
    batch = make_batch(seed, padding=0)
    count, length = batch.log_prob.shape
    padded = batch.take(torch.cat([torch.arange(count), torch.zeros(rows, dtype=torch.int64)]))
    padded.set_ids[count:] = -1 - torch.arange(rows)
    widths = {
        name: torch.nn.functional.pad(getattr(padded, name), (0, tokens), value=value)
        for name, value in (("log_prob", float("nan")), ("old_log_prob", 0.0), ("response_mask", False))
    }
    loss, gradient = loss_and_gradient(batch, **options)
    expected = torch.zeros(count + rows, length + tokens, dtype=gradient.dtype)
    expected[:count, :length] = gradient
    assert_same(loss_and_gradient(replace(padded, **widths), **options), (loss, expected))


@for_all(seed=seeds, options=loss_options, relabel=seeds)
def test_names_of_sets_do_not_matter(seed, options, relabel):
    batch = make_batch(seed)
    names = torch.randint(0, 2**62, (len(batch.set_ids),), generator=torch.Generator().manual_seed(relabel))
    _, number = torch.unique(batch.set_ids, return_inverse=True)
    renamed = torch.where(batch.set_ids >= 0, names[number], batch.set_ids)
    assert_same(loss_and_gradient(replace(batch, set_ids=renamed), **options), loss_and_gradient(batch, **options))


@for_all(seed=seeds, options=loss_options, reduction=reductions, parts=st.integers(1, 6), cut=seeds)
def test_sets_split_over_calls_sum_to_the_whole(seed, options, reduction, parts, cut):
    batch = make_batch(seed)
    weights = weights_of(batch, reduction)
    numbers = whole_set_numbers(batch, options)
    loss, gradient = loss_and_gradient(batch, weights=weights, **options)
    part = torch.randint(0, parts, (len(batch.set_ids),), generator=torch.Generator().manual_seed(cut))
    total, slopes = torch.zeros_like(loss), torch.zeros_like(gradient)
    sets = 0.0
    for index in range(parts):
        rows = (part == index).nonzero().flatten()
        leaf = batch.take(rows).with_gradient()
        of_part = {name: column[rows] for name, column in numbers.items()}
        value, metrics = srpo_loss(*leaf.loss_arguments(), weights=weights[rows], **of_part, **options)
        value.backward()
        total += value.detach()
        slopes[rows] = leaf.log_prob.grad
        sets += metrics["sets"]
    assert_same((total, slopes), (loss, gradient))
    assert round(sets, 9) == len(reference.members_of(batch.set_ids))


@for_all(seed=seeds, options=loss_options)
def test_a_whole_set_needs_no_numbers_but_may_have_them(seed, options):
    batch = make_batch(seed)
    numbers = whole_set_numbers(batch, options)
    assert_same(loss_and_gradient(batch, **numbers, **options), loss_and_gradient(batch, **options))


@for_all(seed=seeds, options=loss_options)
def test_single_member_sets_make_set_and_member_the_same(seed, options):
    batch = make_batch(seed, largest_set=1)
    results = [
        loss_and_gradient(batch, **{**options, "unit": unit, "cardinality_norm": norm})
        for unit, norm in (("set", "sqrt"), ("set", "none"), ("set", "mean"), ("member", "sqrt"))
    ]
    for result in results[1:]:
        assert_same(result, results[0])


@for_all(seed=seeds, options=loss_options)
def test_before_the_first_update_all_ratios_are_one(seed, options):
    # pi_cur = pi_old: loss = -mean A, and no clip decides anything even with an empty range
    batch = make_batch(seed, spread=0.0)
    loss, gradient = loss_and_gradient(batch, **options)
    members = reference.members_of(batch.set_ids)
    tokens = {s: sum(int(batch.lengths[row]) for row in rows) for s, rows in members.items()}
    counted = [s for s in members if options["unit"] != "token" or tokens[s]]
    expected = -sum(batch.advantages[members[s][0]] for s in counted) / len(members)
    torch.testing.assert_close(loss, torch.as_tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-14)
    moving = (batch.set_ids >= 0) & (batch.lengths > 0)
    assert (gradient.abs().sum(-1) > 0).tolist() == moving.tolist()


@for_all(10, seed=seeds, options=loss_options)
def test_gradcheck(seed, options):
    # a clip range that no ratio is close to the edge of, because finite differences straddle the kink
    options = {**options, "clip_low": 0.999, "clip_high": 1e3}
    batch = make_batch(seed, tasks=1, tokens=3, garbage=0.0).with_gradient()

    def value(log_prob):
        return srpo_loss(log_prob, *batch.loss_arguments()[1:], **options)[0]

    assert torch.autograd.gradcheck(value, (batch.log_prob,))
