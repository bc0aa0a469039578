"""Log-ratios of members and sets (eq. 3 and 4), and the identity that makes split sets exact."""

import torch
from torch import Tensor

from verl_srpo.core.arguments import check_floating, check_ids, check_like, check_matrix, check_option
from verl_srpo.core.sets import group_rows, set_size, set_sum
from verl_srpo.core.tokens import check_mask, count_tokens, masked_difference_sum

MEMBER_NORMS = ("sum", "mean")
CARDINALITY_NORMS = ("sqrt", "none", "mean")
LOG_RATIO_LIMIT = 20.0


def member_log_ratio(
    log_prob: Tensor, old_log_prob: Tensor, response_mask: Tensor, *, member_norm: str = "sum"
) -> Tensor:
    """Log-ratio l_j of each row's response, in nats (eq. 3).

    Args:
        log_prob: (N, T) log-probabilities under the current policy. The only differentiable argument.
        old_log_prob: (N, T) log-probabilities under the policy before the update, a constant.
        response_mask: (N, T) bool or 0/1; excluded positions may hold anything, NaN and infinity included.
        member_norm: "sum" (eq. 3) or "mean" (divided by the row's number of response tokens: length-free).

    Returns:
        (N,) l_j; 0 for a row without response tokens. Half precision is raised to float32.

    Raises:
        ValueError: unknown option, wrong shape, a mask that is not 0/1, arguments on different devices.

    >>> log_prob = torch.tensor([[-1.0, -2.0, float("nan")]])
    >>> old_log_prob = torch.tensor([[-1.5, -2.5, 0.0]])
    >>> member_log_ratio(log_prob, old_log_prob, torch.tensor([[1, 1, 0]])).tolist()
    [1.0]
    >>> member_log_ratio(log_prob, old_log_prob, torch.tensor([[1, 1, 0]]), member_norm="mean").tolist()
    [0.5]
    """
    check_option("member_norm", member_norm, MEMBER_NORMS)
    check_token_arguments(log_prob, old_log_prob, response_mask)
    lengths, valid = count_tokens(response_mask)
    check_mask("response_mask", response_mask, valid)
    return masked_log_ratio(log_prob, old_log_prob, response_mask, lengths, member_norm)


def set_log_ratio(member_log_ratios: Tensor, set_ids: Tensor, *, cardinality_norm: str = "sqrt") -> Tensor:
    """Log-ratio L_S of each row's set, in nats (eq. 4): c_K times the sum over the set's K rows.

    Args:
        member_log_ratios: (N,) from `member_log_ratio`; differentiable.
        set_ids: (N,) integers, equal for the rows of one set, negative for padding rows.
        cardinality_norm: "sqrt" (c_K = K^(-1/2), eq. 4), "none" (1: the joint sum), "mean" (1/K: the joint mean).

    Returns:
        (N,) L_S on each of its set's rows; 0 on padding rows.

    Raises:
        ValueError: unknown option, wrong shape or type, arguments on different devices.

    >>> set_log_ratio(torch.tensor([1.0, 3.0, 5.0]), torch.tensor([7, 7, -1]), cardinality_norm="mean").tolist()
    [2.0, 2.0, 0.0]
    """
    check_option("cardinality_norm", cardinality_norm, CARDINALITY_NORMS)
    check_ids("set_ids", set_ids)
    check_floating("member_log_ratios", member_log_ratios)
    check_like("member_log_ratios", member_log_ratios, "set_ids", set_ids, dims=1)
    rows = group_rows(set_ids)
    coefficients = cardinality_coefficient(set_size(rows), cardinality_norm, member_log_ratios.dtype)
    return coefficients * set_sum(member_log_ratios, rows)


def check_token_arguments(log_prob: Tensor, old_log_prob: Tensor, response_mask: Tensor) -> None:
    """Shapes, types and devices of the three (N, T) arguments."""
    check_matrix("log_prob", log_prob)
    check_floating("log_prob", log_prob)
    check_like("old_log_prob", old_log_prob, "log_prob", log_prob, dims=2)
    check_floating("old_log_prob", old_log_prob)
    check_like("response_mask", response_mask, "log_prob", log_prob, dims=2)


def masked_log_ratio(
    log_prob: Tensor, old_log_prob: Tensor, response_mask: Tensor, lengths: Tensor, member_norm: str
) -> Tensor:
    """`member_log_ratio` of checked arguments, with the mask's row sums `lengths` (N,) at hand."""
    total = masked_difference_sum(log_prob, old_log_prob, response_mask)
    return total / lengths.clamp(min=1) if member_norm == "mean" else total


def cardinality_coefficient(sizes: Tensor, cardinality_norm: str, dtype: torch.dtype) -> Tensor:
    """c_K for each K in `sizes`."""
    if cardinality_norm == "none":
        return torch.ones_like(sizes, dtype=dtype)
    return sizes.double().rsqrt().to(dtype) if cardinality_norm == "sqrt" else sizes.double().reciprocal().to(dtype)


def joint_log_ratio(set_log_ratios: Tensor, member_log_ratios: Tensor, coefficients: Tensor) -> Tensor:
    """sg[L_S] + c_K (l_j - sg[l_j]) on each row: the value of L_S, and its derivative by the row's own l_j.

    The other members enter through the number L_S alone, so a set may be split over calls, micro-batches or processes
    and each part still has the gradient of the joint expression.
    """
    return set_log_ratios.detach() + coefficients * (member_log_ratios - member_log_ratios.detach())
