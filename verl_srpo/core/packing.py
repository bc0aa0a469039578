"""Where each row of a global batch goes: whole sets into mini-batches, ranks and micro-batches, balanced by tokens."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from verl_srpo.core.balance import assign_units, deal_sets
from verl_srpo.core.bins import best_fit, least_loaded, split_to

Ints = NDArray[np.int64]


class Layout(NamedTuple):
    """Order of a batch that verl cuts into `ranks` contiguous chunks, and each of them into `mini_batches` slices.

    order: (P,) row index at each position, -1 for a padding row; P = ranks * mini_batches * rows_per_mini. With
    m = rows_per_mini and M = m * mini_batches, mini-batch k is the union over ranks r of positions
    r M + k m ... r M + (k + 1) m.
    """

    order: Ints
    ranks: int
    mini_batches: int
    rows_per_mini: int

    def mini_batch_of(self) -> Ints:
        """(P,) mini-batch of each position."""
        return np.arange(len(self.order)) // self.rows_per_mini % self.mini_batches

    def rank_of(self) -> Ints:
        """(P,) rank of each position."""
        return np.arange(len(self.order)) // (self.rows_per_mini * self.mini_batches)


def pack_mini_batches(
    set_ids: ArrayLike,
    tokens: ArrayLike,
    *,
    ranks: int,
    mini_batches: int,
    task_ids: ArrayLike | None = None,
    multiple: int = 1,
) -> Layout:
    """Lay out a global batch in `mini_batches` mini-batches over `ranks` data-parallel ranks.

    A set lies in one mini-batch, and so does a whole task where there are at least `mini_batches` tasks. Mini-batches
    get equal numbers of rows first, because the difference is padded, then of tokens. Inside a mini-batch a set stays
    on one rank where it fits, and the ranks are balanced by tokens.

    Args:
        set_ids: (N,) integers; a row with a negative identifier is a unit of its own.
        tokens: (N,) tokens of each row.
        ranks, mini_batches: how often verl cuts the batch. The number of optimizer steps is `mini_batches`, whatever
            the number of rows.
        task_ids: (N,) integers, or None to keep sets whole only.
        multiple: what the rows per rank and mini-batch are a multiple of.

    Raises:
        ValueError: no row, wrong shape, a number below 1, negative tokens, a set in two tasks.

    >>> layout = pack_mini_batches([5, 5, 8, 9, 9], [3, 3, 2, 4, 4], ranks=1, mini_batches=2)
    >>> layout.order.tolist(), layout.rows_per_mini
    ([3, 4, -1, 0, 1, 2], 3)
    """
    ids, lengths = _checked_rows(set_ids, tokens)
    for name, number in (("ranks", ranks), ("mini_batches", mini_batches), ("multiple", multiple)):
        _check_count(name, number)
    sets = _set_of_rows(ids)
    set_rows = np.bincount(sets)
    set_tokens = np.bincount(sets, weights=lengths).astype(np.int64)

    unit = _unit_of_sets(ids, sets, task_ids, len(set_rows), mini_batches)
    unit_rows = np.bincount(unit, weights=set_rows).astype(np.int64)
    unit_tokens = np.bincount(unit, weights=set_tokens).astype(np.int64)
    mini_of_set = assign_units(unit_rows, unit_tokens, mini_batches)[unit]

    rows_in_mini = np.bincount(mini_of_set, weights=set_rows, minlength=mini_batches)
    per_rank = -(-int(rows_in_mini.max()) // ranks)
    per_rank = -(-per_rank // multiple) * multiple

    rows_of_set = _Grouped(sets)
    order = np.full((ranks, mini_batches, per_rank), -1, dtype=np.int64)
    sets_of_mini = _Grouped(mini_of_set)
    load = np.zeros(ranks, dtype=np.int64)
    for mini in range(mini_batches):
        rows = rows_of_set.concatenated(sets_of_mini.of(mini))
        shares = deal_sets(sets[rows], lengths[rows], ranks, per_rank)
        share_tokens = np.array([lengths[rows[share]].sum() for share in shares])
        # the heaviest share to the rank that has had the least so far
        for rank, share in zip(np.argsort(load, kind="stable"), np.argsort(-share_tokens, kind="stable"), strict=True):
            chosen = rows[shares[share]]
            order[rank, mini, : len(chosen)] = chosen
            load[rank] += share_tokens[share]
    return Layout(order.reshape(-1), ranks, mini_batches, per_rank)


def micro_batch_count(
    set_ids: ArrayLike, tokens: ArrayLike, *, max_tokens: int | None = None, max_rows: int | None = None
) -> int:
    """Number of micro-batches that `pack_micro_batches` makes of these rows by itself. Ranks agree on the largest."""
    ids, lengths = _checked_rows(set_ids, tokens)
    budget = _Budget.checked(lengths, max_tokens, max_rows)
    return len(best_fit(_units(ids, lengths, budget), lengths, *budget))


def pack_micro_batches(
    set_ids: ArrayLike,
    tokens: ArrayLike,
    *,
    max_tokens: int | None = None,
    max_rows: int | None = None,
    count: int | None = None,
) -> list[Ints]:
    """Split the rows of one rank's mini-batch into micro-batches within the budget, balanced by tokens.

    A set stays in one micro-batch where it fits; one that is over the budget by itself is split, and so are the
    largest where there are fewer sets than micro-batches asked for.

    Args:
        set_ids: (N,) integers; a row with a negative identifier is a unit of its own.
        tokens: (N,) tokens of each row.
        max_tokens, max_rows: most tokens and rows of a micro-batch; None: no limit.
        count: make exactly this many, or as many as the budget needs if that is more (`micro_batch_count`). Ranks that
            must make equally many pass the largest count of any.

    Returns:
        Row indices of each micro-batch, ascending; none is empty, each row is in exactly one.

    Raises:
        ValueError: no row, wrong shape, a limit below 1, a row over the budget by itself, more micro-batches than rows.

    >>> [batch.tolist() for batch in pack_micro_batches([5, 8, 5, 9], [3, 4, 3, 1], max_tokens=6)]
    [[0, 2], [1, 3]]
    """
    ids, lengths = _checked_rows(set_ids, tokens)
    budget = _Budget.checked(lengths, max_tokens, max_rows)
    units = _units(ids, lengths, budget)
    needed = best_fit(units, lengths, *budget)
    wanted = len(needed)
    if count is not None:
        _check_count("count", count)
        if count > len(ids):
            raise ValueError(f"count={count} micro-batches of {len(ids)} rows would leave one empty")
        wanted = max(wanted, count)
    batches = least_loaded(split_to(units, lengths, wanted), lengths, wanted, *budget)
    if batches is None:
        # the balanced packing missed the budget: keep the one that meets it
        batches = split_to(needed, lengths, wanted)
    return [np.sort(batch) for batch in batches]


class _Grouped:
    """Indices 0..N-1 by group number, in ascending order within a group."""

    def __init__(self, group: Ints):
        self.order = np.argsort(group, kind="stable")
        self.sizes = np.bincount(group)
        self.starts = np.concatenate([[0], np.cumsum(self.sizes)])

    def of(self, group: int) -> Ints:
        return self.order[self.starts[group] : self.starts[group + 1]] if group < len(self.sizes) else self.order[:0]

    def concatenated(self, groups: Ints) -> Ints:
        sizes = self.sizes[groups]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return self.order[np.repeat(self.starts[groups], sizes) + within]

    def split(self) -> list[Ints]:
        return np.split(self.order, self.starts[1:-1])


class _Budget(NamedTuple):
    tokens: int
    rows: int

    @classmethod
    def checked(cls, lengths: Ints, max_tokens: int | None, max_rows: int | None) -> "_Budget":
        for name, limit in (("max_tokens", max_tokens), ("max_rows", max_rows)):
            if limit is not None:
                _check_count(name, limit)
        if max_tokens is not None and int(lengths.max()) > max_tokens:
            row = int(lengths.argmax())
            raise ValueError(
                f"row {row} has {int(lengths[row])} tokens, over max_tokens={max_tokens}; raise max_tokens"
            )
        everything = (int(lengths.sum()), len(lengths))
        return cls(max_tokens or max(everything[0], 1), max_rows or everything[1])


def _units(ids: Ints, lengths: Ints, budget: _Budget) -> list[Ints]:
    """Rows of each set; a set over the budget in the fewest pieces that its rows, longest first, make within it."""
    sets = _set_of_rows(ids)
    tokens, rows_of_set = np.bincount(sets, weights=lengths), np.bincount(sets)
    over = (tokens > budget.tokens) | (rows_of_set > budget.rows)
    units = []
    for rows, split in zip(_Grouped(sets).split(), over.tolist(), strict=True):
        units += best_fit(np.split(rows, len(rows)), lengths, *budget) if split else [rows]
    return units


def _checked_rows(set_ids: ArrayLike, tokens: ArrayLike) -> tuple[Ints, Ints]:
    ids, lengths = _integers("set_ids", set_ids), _integers("tokens", tokens)
    if ids.shape != lengths.shape:
        raise ValueError(f"tokens has shape {lengths.shape} and set_ids {ids.shape}; both need one entry a row")
    if len(ids) == 0:
        raise ValueError("set_ids is empty; at least one row is needed")
    if int(lengths.min()) < 0:
        row = int(lengths.argmin())
        raise ValueError(f"tokens={int(lengths[row])} on row {row}; a number of tokens is at least 0")
    return ids, lengths


def _integers(name: str, values: ArrayLike) -> Ints:
    array = np.asarray(values)
    if array.ndim != 1 or (array.size and not np.issubdtype(array.dtype, np.integer)):
        raise ValueError(f"{name} has shape {array.shape} and type {array.dtype}; an integer vector (N,) is needed")
    return array.astype(np.int64)


def _check_count(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise ValueError(f"{name}={value!r} is not an integer of at least 1")


def _set_of_rows(ids: Ints) -> Ints:
    """Dense number of each row's set, each row with a negative identifier a set of its own; in order of appearance."""
    alone = ids < 0
    _, first, number = np.unique(ids, return_index=True, return_inverse=True)
    appearance = np.where(alone, np.arange(len(ids)), first[number])
    return np.unique(appearance, return_inverse=True)[1]


def _unit_of_sets(ids: Ints, sets: Ints, task_ids: ArrayLike | None, count: int, mini_batches: int) -> Ints:
    """What must lie in one mini-batch: the number of each set's task, or of the set where there are too few tasks."""
    if task_ids is None:
        return np.arange(count)
    tasks = _integers("task_ids", task_ids)
    if tasks.shape != sets.shape:
        raise ValueError(f"task_ids has shape {tasks.shape} and set_ids {sets.shape}; both need one entry a row")
    number = np.unique(tasks, return_inverse=True)[1]
    unit = np.empty(count, dtype=np.int64)
    unit[sets] = number
    if (unit[sets] != number).any():
        row = int((unit[sets] != number).argmax())
        others = np.unique(tasks[sets == sets[row]])
        raise ValueError(f"set {ids[row]} lies in tasks {others.tolist()}; a set belongs to one task")
    return unit if int(number.max()) + 1 >= mini_batches else np.arange(count)
