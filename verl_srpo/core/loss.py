"""The clipped objective: clip once a set, average over sets (eq. 7), exact whatever the layout of the rows."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from verl_srpo.core.arguments import check_floating, check_ids, check_like, check_number, check_option
from verl_srpo.core.ratio import (
    CARDINALITY_NORMS,
    MEMBER_NORMS,
    cardinality_coefficient,
    check_token_arguments,
    joint_log_ratio,
    masked_log_ratio,
)
from verl_srpo.core.sets import (
    SetRows,
    check_equal_within_sets,
    check_finite,
    group_rows,
    set_size,
    set_sum,
)
from verl_srpo.core.terms import STATISTICS, Clip, Terms, member_terms, set_terms, token_terms
from verl_srpo.core.tokens import check_mask, count_tokens

UNITS = ("set", "member", "token")


def srpo_loss(
    log_prob: Tensor,
    old_log_prob: Tensor,
    response_mask: Tensor,
    set_ids: Tensor,
    advantages: Tensor,
    *,
    clip_low: float = 0.2,
    clip_high: float = 0.2,
    unit: str = "set",
    member_norm: str = "sum",
    cardinality_norm: str = "sqrt",
    weights: Tensor | None = None,
    set_log_ratios: Tensor | None = None,
    set_sizes: Tensor | None = None,
    set_tokens: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """Loss sum_S w_S loss_S with loss_S = -min(rho_S A_S, clip(rho_S, 1 - clip_low, 1 + clip_high) A_S) (eq. 7).

    Args:
        log_prob, old_log_prob, response_mask: (N, T) as for `member_log_ratio`. Only `log_prob` is differentiable.
        set_ids: (N,) integers, equal for the rows of one set, negative for padding rows, which contribute exactly 0.
        advantages: (N,) A_S, equal within a set.
        clip_low, clip_high: distances of the clip range from 1.
        unit: what has a ratio and a clip of its own. "set": eq. 7. "member": each row; a set's loss is the mean over
            its members. "token": each response token; a set's loss is the mean over its response tokens, and the two
            norms play no part.
        member_norm, cardinality_norm: as for `member_log_ratio` and `set_log_ratio`.
        weights: (N,) w_S on each row, from `event_weights` over the whole mini-batch. None: 1 / (sets in this call).
        set_log_ratios, set_sizes, set_tokens: (N,) numbers of the whole set on each of its rows, for sets that are not
            whole in this call: L_S (a constant), K, and the response tokens. `unit="set"` needs the first two
            together, "member" the second, "token" the third. None: every set is whole in this call.

    Returns:
        loss: scalar. The gradient is that of the joint expression over whole sets, and the values of the calls that
            share a set sum to the whole.
        metrics: floats: `loss`; `sets`, `rows`, `padding_rows`, `empty_members` (rows of a set without a response
            token: l_j = 0); `log_ratio_mean`, `ratio_mean`, `clip_fraction_low`, `clip_fraction_high`, means of the
            unit over sets, where a clip counts if it decides the loss. With `set_sizes` a row counts 1/K.

    Raises:
        ValueError: unknown option, wrong shape or type, arguments on different devices, numbers of a set that differ
            within it or are not finite, a `set_sizes` below the rows present, a missing number of the whole set.

    >>> log_prob = torch.tensor([[-1.0, -1.0], [-1.0, -1.0]], requires_grad=True)
    >>> old_log_prob, mask = log_prob.detach().clone(), torch.ones(2, 2)
    >>> loss, metrics = srpo_loss(log_prob, old_log_prob, mask, torch.tensor([5, 5]), torch.tensor([2.0, 2.0]))
    >>> loss.item(), metrics["sets"]
    (-2.0, 1.0)
    >>> loss.backward()
    >>> [round(g, 4) for g in log_prob.grad[0].tolist()]  # -A K^(-1/2)
    [-1.4142, -1.4142]
    """
    check_option("unit", unit, UNITS)
    check_option("member_norm", member_norm, MEMBER_NORMS)
    check_option("cardinality_norm", cardinality_norm, CARDINALITY_NORMS)
    check_number("clip_low", clip_low, low=0.0, high=1.0)
    check_number("clip_high", clip_high, low=0.0)
    check_token_arguments(log_prob, old_log_prob, response_mask)
    check_ids("set_ids", set_ids)
    check_floating("advantages", advantages)
    optional = {
        "weights": weights,
        "set_log_ratios": set_log_ratios,
        "set_sizes": set_sizes,
        "set_tokens": set_tokens,
    }
    columns = {"advantages": advantages, **{name: given for name, given in optional.items() if given is not None}}
    for name, column in {"set_ids": set_ids, **columns}.items():
        check_like(name, column, "log_prob", log_prob, dims=1)
    _check_whole_set_numbers(unit, set_log_ratios, set_sizes, set_tokens)

    rows = group_rows(set_ids)
    lengths, mask_valid = count_tokens(response_mask)
    size = _Count.of("set_sizes", "rows", set_size(rows), set_sizes, rows)
    counts = [size]
    clip = Clip(torch.where(rows.present, advantages, 0.0).detach(), clip_low, clip_high)
    if unit == "token":
        tokens = _Count.of("set_tokens", "response tokens", set_sum(lengths, rows), set_tokens, rows)
        counts.append(tokens)
        kept = response_mask.bool() & rows.present[:, None]
        terms = token_terms(log_prob, old_log_prob, kept, tokens.whole, clip)
    else:
        member = masked_log_ratio(log_prob, old_log_prob, response_mask, lengths, member_norm)
        member = torch.where(rows.present, member, 0.0)
        if unit == "member":
            terms = member_terms(member, size.whole, clip)
        else:
            coefficients = cardinality_coefficient(size.whole, cardinality_norm, member.dtype)
            if set_log_ratios is None:
                whole = coefficients * set_sum(member.detach(), rows)
            else:
                whole = torch.where(rows.present, set_log_ratios.to(member.dtype), 0.0)
            terms = set_terms(joint_log_ratio(whole, member, coefficients), size.whole, clip)

    if weights is None:
        one = rows.present.double()
        weight = one / (one / size.here).sum().clamp(min=1)
    else:
        weight = torch.where(rows.present, weights.detach(), 0.0)
    loss = (weight.to(terms.loss.dtype) * terms.loss).sum()

    # metrics and the verdicts on contents come to the host together: the one synchronisation
    numbers = [loss.detach()[None], _sums(terms, rows, size.whole, lengths), mask_valid[None]]
    numbers.append(_contents(columns, counts, rows))
    value, sets, present, empty, *sums, mask_is_valid, total, faults = torch.cat(numbers).tolist()  # as float64
    if not mask_is_valid:
        check_mask("response_mask", response_mask, mask_valid)
    if faults or not math.isfinite(total):
        _raise_fault(columns, counts, rows, set_ids)
    metrics = {"loss": value, "sets": sets, "rows": present, "padding_rows": len(set_ids) - present}
    means = {name: total / sets if sets else 0.0 for name, total in zip(STATISTICS, sums, strict=True)}
    return loss, {**metrics, "empty_members": empty, **means}


class _Count(NamedTuple):
    """How many of something each row's set has (N,): in this call, and as a whole (at least 1)."""

    name: str
    noun: str
    here: Tensor
    whole: Tensor
    too_small: Tensor | None  # None: it is what is here

    @classmethod
    def of(cls, name: str, noun: str, here: Tensor, given: Tensor | None, rows: SetRows) -> "_Count":
        if given is None:
            return cls(name, noun, here, here.clamp(min=1), None)
        too_small = rows.present & (given < here)
        return cls(name, noun, here, torch.where(rows.present, given.to(here.dtype), 1).clamp(min=1), too_small)


def _check_whole_set_numbers(
    unit: str, set_log_ratios: Tensor | None, set_sizes: Tensor | None, set_tokens: Tensor | None
) -> None:
    if unit == "set" and (set_log_ratios is None) != (set_sizes is None):
        missing, given = ("set_sizes", "set_log_ratios") if set_sizes is None else ("set_log_ratios", "set_sizes")
        raise ValueError(f"{missing}=None while {given} is given; unit='set' needs both or neither")
    if unit == "member" and set_sizes is None and set_log_ratios is not None:
        raise ValueError("set_sizes=None while set_log_ratios is given; unit='member' needs set_sizes for split sets")
    if unit == "token" and set_tokens is None and (set_sizes is not None or set_log_ratios is not None):
        raise ValueError(
            "set_tokens=None while sets are said to be split; unit='token' needs the sets' response tokens"
        )


def _sums(terms: Terms, rows: SetRows, size: Tensor, lengths: Tensor) -> Tensor:
    """(7,) float64, padding rows left out: sets, rows, rows without a response token, and sums of the statistics."""
    share = size.double().reciprocal()
    columns = torch.cat([torch.stack([share, torch.ones_like(share), lengths == 0]), terms.statistics])
    return torch.where(rows.present, columns, 0.0).sum(1)


def _contents(columns: dict[str, Tensor], counts: list[_Count], rows: SetRows) -> Tensor:
    """(2,) float64 the sum of all numbers of sets, which is finite if each of them is; and how often a
    set has two numbers in a column or less of something than is in this call."""
    numbers = torch.stack([column.detach().double() for column in columns.values()]).where(rows.present, 0.0)
    ordered = numbers[:, rows.order]
    faults = ((ordered[:, 1:] != ordered[:, :-1]) & ~rows.starts[1:]).sum()
    for count in counts:
        if count.too_small is not None:
            faults = faults + count.too_small.sum()
    return torch.stack([numbers.sum(), faults])


def _raise_fault(columns: dict[str, Tensor], counts: list[_Count], rows: SetRows, set_ids: Tensor) -> None:
    for name, column in columns.items():
        check_finite(name, column, set_ids, rows)
        check_equal_within_sets(name, column, set_ids, rows)
    for count in counts:
        if count.too_small is not None and bool(count.too_small.any()):
            row = int(count.too_small.nonzero()[0])
            raise ValueError(
                f"{count.name}={columns[count.name][row].item()} for set {int(set_ids[row])}, of which "
                f"{int(count.here[row])} {count.noun} are in this call; the number of the whole set is needed"
            )
