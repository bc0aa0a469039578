"""Which rows form a set: grouping of rows by identifier, without a host synchronisation where no error is raised."""

from typing import NamedTuple

import torch
from torch import Tensor


class SetRows(NamedTuple):
    """The rows of a batch grouped by `set_ids`; every field has one entry a row.

    present: the row belongs to a set (its identifier is not negative).
    number: dense number of the row's identifier, in [0, N). There are never more sets than rows, so tables of N
        entries indexed by it need no data-dependent size and hence no synchronisation.
    order: row indices sorted by identifier, ties in row order.
    starts: in that order, True where a new identifier begins.
    """

    present: Tensor
    number: Tensor
    order: Tensor
    starts: Tensor


def group_rows(set_ids: Tensor) -> SetRows:
    """Group rows (N,) by identifier."""
    ordered, order = torch.sort(set_ids, stable=True)
    starts = torch.ones_like(ordered, dtype=torch.bool)
    starts[1:] = ordered[1:] != ordered[:-1]
    number = torch.empty_like(order).scatter_(0, order, starts.cumsum(0) - 1)
    return SetRows(set_ids >= 0, number, order, starts)


def set_sum(values: Tensor, rows: SetRows) -> Tensor:
    """Sum of `values` (N,) over each set, on each of the set's rows; 0 on padding rows. Summed in float64."""
    values = torch.where(rows.present, values, 0)
    total = torch.zeros(len(values), dtype=torch.float64, device=values.device)
    return total.index_add(0, rows.number, values.double())[rows.number].to(values.dtype)


def set_size(rows: SetRows) -> Tensor:
    """Number of rows of each set, on each of its rows, int64; 1 on padding rows, so that it can be divided by."""
    total = torch.zeros_like(rows.number).index_add(0, rows.number, torch.ones_like(rows.number))
    return torch.where(rows.present, total[rows.number], 1)


def first_rows(rows: SetRows) -> Tensor:
    """Index of one row a set (S,), sets in ascending order of identifier, padding left out."""
    return rows.order[rows.starts & rows.present[rows.order]]


def differing_rows(column: Tensor, rows: SetRows) -> Tensor:
    """(N,) bool, True on a row whose value is not that of the previous row of its set."""
    ordered = column[rows.order]
    differs = torch.zeros_like(rows.starts)
    differs[1:] = (ordered[1:] != ordered[:-1]) & ~rows.starts[1:]
    return torch.zeros_like(differs).scatter_(0, rows.order, differs) & rows.present


def check_equal_within_sets(name: str, column: Tensor, set_ids: Tensor, rows: SetRows) -> None:
    """Raise ValueError naming the first set on whose rows `column` (N,) is not one value."""
    differs = differing_rows(column, rows)
    if not bool(differs.any()):
        return
    set_id = int(set_ids[differs][0])
    members = (set_ids == set_id).nonzero().flatten()
    shown = ", ".join(f"row {int(i)}: {column[i].item()!r}" for i in members[:8])
    raise ValueError(f"{name} differs within set {set_id} ({shown}); all rows of a set need the same value")


def check_finite(name: str, column: Tensor, set_ids: Tensor, rows: SetRows) -> None:
    """Raise ValueError naming the first row of a set whose `column` (N,) is NaN or infinite."""
    wrong = rows.present & ~column.isfinite()
    if bool(wrong.any()):
        row = int(wrong.nonzero()[0])
        raise ValueError(
            f"{name}={column[row].item()} on row {row} (set {int(set_ids[row])}); finite numbers are needed"
        )


def dense_numbers(*columns: Tensor) -> tuple[Tensor, int]:
    """Number the distinct tuples (column_1[i], column_2[i], ...) densely: ((N,) int64, how many)."""
    numbers = torch.zeros_like(columns[0], dtype=torch.int64)
    count = min(len(numbers), 1)
    for column in columns:
        values, inverse = torch.unique(column, return_inverse=True)
        # both factors are below 2^31 for any batch that fits in memory: the product cannot overflow
        distinct, numbers = torch.unique(numbers * len(values) + inverse, return_inverse=True)
        count = len(distinct)
    return numbers, count


def signatures(agent_ids: Tensor, rows: SetRows) -> Tensor:
    """Number of each set's multiset of agents (S,), sets in the order of `first_rows`.

    Members are sorted by agent within each set; equal multisets then agree position by position, so positions are
    folded in one after the other, over the sets that are long enough: N rows in all.
    """
    present = rows.order[rows.present[rows.order]]
    agents, agent = torch.unique(agent_ids[present], return_inverse=True)
    owner = rows.number[present]
    if len(owner):
        owner = owner - owner[0]  # negative identifiers sort first and took the lowest numbers
    by_agent = torch.argsort(agent, stable=True)
    by_set = by_agent[torch.argsort(owner[by_agent], stable=True)]
    agent = agent[by_set]
    sizes = torch.bincount(owner)
    first = sizes.cumsum(0) - sizes
    signature = torch.zeros_like(sizes)
    for position in range(int(sizes.max()) if len(sizes) else 0):
        longer = (sizes > position).nonzero().flatten()
        folded = signature[longer] * len(agents) + agent[first[longer] + position]
        signature[longer] = torch.unique(folded, return_inverse=True)[1]
    # a number is only comparable among sets of one size
    return dense_numbers(sizes, signature)[0]
