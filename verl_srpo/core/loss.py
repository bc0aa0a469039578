"""The clipped objective: clip once a set, average over sets (eq. 7), exact whatever the layout of the rows."""

from typing import NamedTuple

import torch
from torch import Tensor

from verl_srpo.core.arguments import check_floating, check_ids, check_like, check_number, check_option
from verl_srpo.core.ratio import (
    CARDINALITY_NORMS,
    LOG_RATIO_LIMIT,
    MEMBER_NORMS,
    cardinality_coefficient,
    check_token_arguments,
    joint_log_ratio,
    masked_log_ratio,
    whole_set_log_ratio,
)
from verl_srpo.core.sets import (
    SetRows,
    check_equal_within_sets,
    check_finite,
    differing_rows,
    group_rows,
    set_size,
    set_sum,
)
from verl_srpo.core.tokens import check_mask, read_mask
from verl_srpo.core.weights import normalised_weights

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
    check_like("set_ids", set_ids, "log_prob", log_prob, dims=1)
    columns = {"advantages": advantages}
    whole_set = {"set_log_ratios": set_log_ratios, "set_sizes": set_sizes, "set_tokens": set_tokens}
    for name, column in {"weights": weights, **whole_set}.items():
        if column is not None:
            columns[name] = column
    for name, column in columns.items():
        check_like(name, column, "log_prob", log_prob, dims=1)
    check_floating("advantages", advantages)
    _check_whole_set_numbers(unit, set_log_ratios, set_sizes, set_tokens)

    rows = group_rows(set_ids)
    mask, lengths, valid = read_mask(response_mask)
    here = set_size(rows)
    size = here if set_sizes is None else torch.where(rows.present, set_sizes.to(here.dtype), 1)
    clip = _Clip(torch.where(rows.present, advantages, 0.0).detach(), clip_low, clip_high)

    if unit == "token":
        tokens = set_sum(lengths.double(), rows) if set_tokens is None else torch.where(rows.present, set_tokens, 0)
        terms = _token_terms(log_prob, old_log_prob, mask & rows.present[:, None], tokens, clip)
    else:
        member = masked_log_ratio(log_prob, old_log_prob, mask, lengths, member_norm)
        member = torch.where(rows.present, member, torch.zeros_like(member))
        if unit == "member":
            terms = _member_terms(member, size, clip)
        else:
            whole = member.detach()
            if set_log_ratios is None:
                whole = whole_set_log_ratio(whole, rows, size, cardinality_norm)
            else:
                whole = torch.where(rows.present, set_log_ratios.to(whole.dtype), 0.0)
            coefficient = cardinality_coefficient(size, cardinality_norm, whole.dtype)
            terms = _set_terms(joint_log_ratio(whole, member, coefficient), size, clip)

    if weights is None:
        weight = normalised_weights(torch.ones_like(set_ids, dtype=torch.float64), rows)
    else:
        weight = torch.where(rows.present, weights.detach(), 0.0)
    loss = (weight.to(terms.loss.dtype) * terms.loss).sum()
    metrics, mask_valid, columns_valid = _metrics(loss, terms, rows, size, here, lengths, columns, valid)
    if not mask_valid:
        check_mask("response_mask", response_mask, valid)
    if not columns_valid:
        _raise_fault(columns, size, here, rows, set_ids)
    return loss, metrics


class _Clip(NamedTuple):
    """A_S on each row and the clip range."""

    advantage: Tensor
    low: float
    high: float

    def __call__(self, log_ratio: Tensor, advantage: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(loss, ratio, clipped low, clipped high) of each entry of `log_ratio`."""
        ratio = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
        advantage = advantage.to(ratio.dtype)
        loss = -torch.minimum(ratio * advantage, ratio.clamp(1 - self.low, 1 + self.high) * advantage)
        ratio = ratio.detach()
        low = ((ratio < 1 - self.low) & (advantage < 0)).to(ratio.dtype)
        high = ((ratio > 1 + self.high) & (advantage > 0)).to(ratio.dtype)
        return loss, ratio, low, high


class _Terms(NamedTuple):
    """Each row's part (N,) of its set's loss and of its set's metrics: the parts of a set sum to the set's number."""

    loss: Tensor
    log_ratio: Tensor
    ratio: Tensor
    clipped_low: Tensor
    clipped_high: Tensor


def _set_terms(log_ratio: Tensor, size: Tensor, clip: _Clip) -> _Terms:
    loss, ratio, low, high = clip(log_ratio, clip.advantage)
    # value: 1/K of the set's loss on each of its K rows. Gradient: whole, each row has that by its own l_j alone
    loss = loss.detach() / size + (loss - loss.detach())
    return _Terms(loss, log_ratio.detach() / size, ratio / size, low / size, high / size)


def _member_terms(log_ratio: Tensor, size: Tensor, clip: _Clip) -> _Terms:
    loss, ratio, low, high = clip(log_ratio, clip.advantage)
    return _Terms(*(part / size for part in (loss, log_ratio.detach(), ratio, low, high)))


def _token_terms(log_prob: Tensor, old_log_prob: Tensor, mask: Tensor, tokens: Tensor, clip: _Clip) -> _Terms:
    dtype = torch.promote_types(log_prob.dtype, torch.float32)
    zero = torch.zeros((), dtype=dtype, device=log_prob.device)
    # masked before exp: what an excluded position holds must not reach the gradient either
    log_ratio = torch.where(mask, log_prob.to(dtype) - old_log_prob.detach().to(dtype), zero)
    loss, ratio, low, high = clip(log_ratio, clip.advantage[:, None])
    divisor = tokens.to(dtype).clamp(min=1)
    parts = (loss, log_ratio.detach(), ratio, low, high)
    return _Terms(*(torch.where(mask, part, zero).sum(-1) / divisor for part in parts))


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


def _metrics(
    loss: Tensor,
    terms: _Terms,
    rows: SetRows,
    size: Tensor,
    here: Tensor,
    lengths: Tensor,
    columns: dict[str, Tensor],
    mask_valid: Tensor,
) -> tuple[dict[str, float], bool, bool]:
    """(metrics, mask is valid, columns are valid), brought to the host together: the loss's one synchronisation."""
    present = rows.present
    sets = torch.where(present, 1.0 / size.double(), 0.0).sum()
    means = [torch.where(present, column, 0.0).double().sum() / sets.clamp(min=1e-30) for column in terms[1:]]
    counts = [present.sum(), (~present).sum(), (present & (lengths == 0)).sum()]
    wrong = size < here
    for column in columns.values():
        wrong = wrong | differing_rows(column, rows) | (present & ~column.isfinite())
    numbers = (loss, sets, *counts, *means, mask_valid, ~wrong.any())
    host = torch.stack([number.detach().double() for number in numbers]).tolist()
    names = ("loss", "sets", "rows", "padding_rows", "empty_members")
    names += ("log_ratio_mean", "ratio_mean", "clip_fraction_low", "clip_fraction_high")
    return dict(zip(names, host, strict=False)), bool(host[-2]), bool(host[-1])


def _raise_fault(columns: dict[str, Tensor], size: Tensor, here: Tensor, rows: SetRows, set_ids: Tensor) -> None:
    for name, column in columns.items():
        check_finite(name, column, set_ids, rows)
        check_equal_within_sets(name, column, set_ids, rows)
    row = int((size < here).nonzero()[0])
    raise ValueError(
        f"set_sizes={int(size[row])} for set {int(set_ids[row])}, of which {int(here[row])} rows are in this call; "
        "set_sizes is the number of rows of the whole set"
    )
