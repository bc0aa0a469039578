"""What to log about sets: spread of log-ratios, the two terms of eq. 5, clipping; apart for each set size."""

from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from verl_srpo.core.arguments import check_floating, check_ids, check_like, check_number, check_option
from verl_srpo.core.loss import UNITS
from verl_srpo.core.ratio import CARDINALITY_NORMS, LOG_RATIO_LIMIT, cardinality_coefficient
from verl_srpo.core.sets import group_rows, set_size, set_sum


@dataclass(frozen=True)
class SetStatistics:
    """Statistics of the sets of one size K over a global mini-batch.

    count: number of sets.
    log_ratio_mean, log_ratio_std: of L_S over the sets (the variance divides by the count).
    log_ratio_extreme: the signed L_S of largest magnitude.
    member_variance: v, the variance of l_j about its mean over all members of these sets.
    pair_covariance: mean over sets and pairs i < j of (l_i - mean)(l_j - mean); 0 for K = 1. With
        `cardinality_norm="sqrt"`, log_ratio_std^2 = member_variance + (K - 1) pair_covariance exactly (eq. 5).
    clip_low, clip_high: share of the sets (with `unit="member"`: of the members) where the clip at 1 - clip_low or
        1 + clip_high decides the loss. None with `unit="token"`, which clips neither.
    advantage_mean: of A_S over the sets.
    """

    count: int
    log_ratio_mean: float
    log_ratio_std: float
    log_ratio_extreme: float
    member_variance: float
    pair_covariance: float
    clip_low: float | None
    clip_high: float | None
    advantage_mean: float


def set_statistics(
    member_log_ratios: Tensor,
    set_ids: Tensor,
    advantages: Tensor,
    *,
    unit: str = "set",
    cardinality_norm: str = "sqrt",
    clip_low: float = 0.2,
    clip_high: float = 0.2,
) -> dict[int, SetStatistics]:
    """Statistics of the sets of each size K, from the rows of a whole global mini-batch.

    Args:
        member_log_ratios: (N,) l_j from `member_log_ratio`.
        set_ids: (N,) integers, negative for padding rows, which enter nothing.
        advantages: (N,) A_S.
        unit, cardinality_norm, clip_low, clip_high: as for `srpo_loss`.

    Returns:
        {K: SetStatistics} for every K present, ascending.

    Raises:
        ValueError: unknown option, wrong shape or type, arguments on different devices.
    """
    check_option("unit", unit, UNITS)
    check_option("cardinality_norm", cardinality_norm, CARDINALITY_NORMS)
    check_number("clip_low", clip_low, low=0.0, high=1.0)
    check_number("clip_high", clip_high, low=0.0)
    check_ids("set_ids", set_ids)
    for name, column in (("member_log_ratios", member_log_ratios), ("advantages", advantages)):
        check_floating(name, column)
        check_like(name, column, "set_ids", set_ids, dims=1)

    rows = group_rows(set_ids)
    members = torch.where(rows.present, member_log_ratios.detach().double(), 0.0)
    advantage = torch.where(rows.present, advantages.detach().double(), 0.0)
    size = set_size(rows)
    set_ratio = cardinality_coefficient(size, cardinality_norm, members.dtype) * set_sum(members, rows)
    low, high = _clipped(members if unit == "member" else set_ratio, advantage, clip_low, clip_high)

    kinds, kind = torch.unique(torch.where(rows.present, size, 0), return_inverse=True)

    def total(values: Tensor) -> Tensor:
        return torch.zeros(len(kinds), dtype=torch.float64, device=values.device).index_add(0, kind, values)

    share = torch.where(rows.present, 1.0 / size, 0.0).double()  # a row's share of its set
    count = total(share).clamp(min=1)
    mean = total(share * set_ratio) / count
    spread = (total(share * (set_ratio - mean[kind]).square()) / count).sqrt()
    deviation = torch.where(rows.present, members - (total(share * members) / count)[kind], 0.0)
    squares = deviation.square()
    # the products over ordered pairs i != j of a set sum to (sum d)^2 - sum d^2
    products = set_sum(deviation, rows).square() - set_sum(squares, rows)
    pairs = size * (size - 1)
    covariance = torch.where(pairs > 0, products / pairs.clamp(min=1), 0.0)
    columns = torch.stack(
        [
            total(share),
            mean,
            spread,
            _extreme(set_ratio, kind, len(kinds)),
            total(share * squares) / count,
            total(share * covariance) / count,
            total(share * low) / count,
            total(share * high) / count,
            total(share * advantage) / count,
        ],
        dim=1,
    )
    statistics = {}
    for cardinality, row in zip(kinds.tolist(), columns.tolist(), strict=True):
        if cardinality > 0:
            one = SetStatistics(round(row[0]), *row[1:])
            statistics[cardinality] = replace(one, clip_low=None, clip_high=None) if unit == "token" else one
    return statistics


def as_metrics(statistics: dict[int, SetStatistics], prefix: str = "srpo") -> dict[str, float]:
    """Flat metrics {"srpo/k2/count": ...} of what `set_statistics` returned; entries that are None are left out."""
    return {
        f"{prefix}/k{cardinality}/{name}": float(value)
        for cardinality, one in statistics.items()
        for name, value in asdict(one).items()
        if value is not None
    }


def _clipped(log_ratio: Tensor, advantage: Tensor, clip_low: float, clip_high: float) -> tuple[Tensor, Tensor]:
    ratio = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    low = (ratio < 1 - clip_low) & (advantage < 0)
    high = (ratio > 1 + clip_high) & (advantage > 0)
    return low.double(), high.double()


def _extreme(values: Tensor, kind: Tensor, kinds: int) -> Tensor:
    start = torch.zeros(kinds, dtype=values.dtype, device=values.device)
    highest = start.scatter_reduce(0, kind, values, "amax", include_self=False)
    lowest = start.scatter_reduce(0, kind, values, "amin", include_self=False)
    return torch.where(highest >= -lowest, highest, lowest)
