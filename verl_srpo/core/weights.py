"""w_S: how much each set counts in the loss (the reductions of eq. 7 and its comparisons)."""

import torch
from torch import Tensor

from verl_srpo.core.arguments import check_ids, check_like, check_option
from verl_srpo.core.sets import (
    SetRows,
    check_equal_within_sets,
    dense_numbers,
    first_rows,
    group_rows,
    set_size,
    set_sum,
)

REDUCTIONS = ("event_mean", "token_mean", "episode_mean", "task_mean")


def event_weights(
    set_ids: Tensor,
    *,
    reduction: str = "event_mean",
    episode_ids: Tensor | None = None,
    task_ids: Tensor | None = None,
    response_lengths: Tensor | None = None,
) -> Tensor:
    """Weight w_S of each row's set over a global mini-batch; the weights of the sets sum to 1 (eq. 7).

    Args:
        set_ids: (N,) integers, negative for padding rows. All rows of the mini-batch, over all ranks.
        reduction: what w_S is proportional to.
            "event_mean": 1, the paper's.
            "token_mean": the set's response tokens, the paper's comparison; needs `response_lengths`.
            "episode_mean": 1 / (sets of its episode); needs `episode_ids`.
            "task_mean": 1 / (sets of its task); needs `task_ids`.
        episode_ids: (N,) integers. Where `task_ids` is given too, an episode is the pair, so that numbers that start
            again at 0 for each task are told apart.
        task_ids: (N,) integers.
        response_lengths: (N,) response tokens of each row.

    Returns:
        (N,) w_S on each row of its set (not divided by the set's size), 0 on padding rows, in torch's default dtype.
        All 0 where there is nothing to weigh: no set, or "token_mean" without a token.

    Raises:
        ValueError: unknown option, a missing column, wrong shape or device, a column that differs within a set.

    >>> set_ids = torch.tensor([0, 0, 1, 2, -1])
    >>> event_weights(set_ids, reduction="episode_mean", episode_ids=torch.tensor([0, 0, 0, 1, 0])).tolist()
    [0.25, 0.25, 0.25, 0.5, 0.0]
    """
    check_option("reduction", reduction, REDUCTIONS)
    check_ids("set_ids", set_ids)
    columns = {"episode_ids": episode_ids, "task_ids": task_ids, "response_lengths": response_lengths}
    for name, column in columns.items():
        if column is not None:
            check_like(name, column, "set_ids", set_ids, dims=1)
    needed = {"token_mean": "response_lengths", "episode_mean": "episode_ids", "task_mean": "task_ids"}.get(reduction)
    if needed and columns[needed] is None:
        raise ValueError(f"{needed}=None: reduction={reduction!r} needs it")

    rows = group_rows(set_ids)
    if reduction == "event_mean":
        weight = torch.ones_like(set_ids, dtype=torch.float64)
    elif response_lengths is not None and reduction == "token_mean":
        weight = set_sum(response_lengths.double(), rows)
    else:
        names = ("task_ids",) if reduction == "task_mean" else ("task_ids", "episode_ids")
        owners = {name: column for name in names if (column := columns[name]) is not None}
        for name, column in owners.items():
            check_ids(name, column)
            check_equal_within_sets(name, column, set_ids, rows)
        weight = 1.0 / _sets_of_owner(tuple(owners.values()), rows)
    return normalised_weights(weight, rows, set_size(rows)).to(torch.get_default_dtype())


def normalised_weights(weight: Tensor, rows: SetRows, sizes: Tensor) -> Tensor:
    """Scale `weight` (N,) float64, one value a set on each of its `sizes` rows, to a sum of 1 over sets; padding 0."""
    weight = torch.where(rows.present, weight, 0.0)
    total = (weight / sizes).sum()
    return weight / torch.where(total > 0, total, 1.0)


def _sets_of_owner(owner: tuple[Tensor, ...], rows: SetRows) -> Tensor:
    first = first_rows(rows)
    number, count = dense_numbers(*(column[first] for column in owner))
    sets = torch.bincount(number, minlength=count)[number].double()
    on_number = torch.ones_like(rows.number, dtype=torch.float64)
    on_number[rows.number[first]] = sets
    return on_number[rows.number]
