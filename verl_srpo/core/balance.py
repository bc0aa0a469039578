"""Assignment of units to mini-batches by rows, and of sets to ranks by tokens."""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def assign_units(rows: Ints, tokens: Ints, bins: int) -> Ints:
    """Bin of each unit (U,): equal numbers of rows first, then of tokens; largest unit first to the least bin."""
    chosen = np.zeros(len(rows), dtype=np.int64)
    if bins == 1:
        return chosen
    heap = [(0, 0, i) for i in range(bins)]
    order = np.lexsort((-tokens, -rows))
    for unit, unit_rows, unit_tokens in zip(order.tolist(), rows[order].tolist(), tokens[order].tolist(), strict=True):
        bin_rows, bin_tokens, least = heap[0]
        chosen[unit] = least
        heapq.heapreplace(heap, (bin_rows + unit_rows, bin_tokens + unit_tokens, least))
    return chosen


def deal_sets(sets: Ints, tokens: Ints, ranks: int, capacity: int) -> list[Ints]:
    """Deal the rows of a mini-batch to ranks that take up to `capacity` rows each: whole sets, balanced by tokens.

    How many sets of each size a rank gets is settled by rows alone. The sets of one size are then dealt in rounds of
    neighbours in token order, one to each rank, the longest to the rank with least tokens. Exchanges of sets of equal
    size even out the rest. A set that fits nowhere whole is split.

    Args:
        sets: (n,) number of each row's set; the rows of a set are neighbours.
        tokens: (n,) tokens of each row.

    Returns:
        Indices into the n rows for each rank.
    """
    starts = np.flatnonzero(np.concatenate([[True], sets[1:] != sets[:-1]])) if len(sets) else np.zeros(0, np.int64)
    sizes = np.diff(np.append(starts, len(sets)))
    set_tokens = np.add.reduceat(tokens, starts) if len(starts) else np.zeros(0, np.int64)
    by_size = np.lexsort((-set_tokens, -sizes))
    counts, used = _count_sets(sizes, ranks, capacity)

    rank_of_set = np.full(len(starts), -1, dtype=np.int64)
    load = [0] * ranks
    tokens_of_set = set_tokens.tolist()
    for members, participants in _rounds(by_size, counts):
        for index, rank in zip(members, sorted(participants, key=load.__getitem__), strict=True):
            rank_of_set[index] = rank
            load[rank] += tokens_of_set[index]
    loads = np.array(load, dtype=np.int64)
    _exchange(rank_of_set, sizes, set_tokens, loads)

    rank_of_row = np.repeat(rank_of_set, sizes)
    _place_single_rows(rank_of_row, tokens, loads, used, capacity)
    order = np.argsort(rank_of_row, kind="stable")
    return np.split(order, np.cumsum(np.bincount(rank_of_row, minlength=ranks))[:-1])


class _Counts(NamedTuple):
    """Sets of one size, largest size first: how many there are, and how many each rank takes."""

    size: int
    sets: int
    of_rank: Ints


def _count_sets(sizes: Ints, ranks: int, capacity: int) -> tuple[list[_Counts], Ints]:
    """Numbers of sets a rank by size, evening out the rows; and the rows that each rank then holds."""
    used = np.zeros(ranks, dtype=np.int64)
    counts = []
    for size, sets in zip(*(column[::-1].tolist() for column in np.unique(sizes, return_counts=True)), strict=True):
        of_rank = np.zeros(ranks, dtype=np.int64)
        # whole rounds at once while the ranks are within a set of each other; single sets, least rank first, otherwise
        left = sets
        while left:
            rounds = min(left // ranks, (capacity - int(used.max())) // size)
            if rounds > 0 and used.max() - used.min() <= size:
                of_rank += rounds
                used += rounds * size
                left -= rounds * ranks
                continue
            least = int(used.argmin())
            if used[least] + size > capacity:
                break
            of_rank[least] += 1
            used[least] += size
            left -= 1
        counts.append(_Counts(size, sets, of_rank))
    return counts, used


def _rounds(by_size: Ints, counts: list[_Counts]) -> Iterator[tuple[list[int], list[int]]]:
    """(sets, the longest first; the ranks that get one each) of every round, the largest sets first."""
    start = 0
    for _, sets, of_rank in counts:
        group = by_size[start : start + sets]
        start += sets
        everyone = list(range(len(of_rank)))
        full = int(of_rank.min())
        dealt = full * len(everyone)
        for members in group[:dealt].reshape(full, len(everyone)).tolist():
            yield members, everyone
        for turn in range(full, int(of_rank.max())):
            participants = np.flatnonzero(of_rank > turn).tolist()
            yield group[dealt : dealt + len(participants)].tolist(), participants
            dealt += len(participants)


def _exchange(rank_of_set: Ints, sizes: Ints, set_tokens: Ints, loads: Ints) -> None:
    """Exchange sets of equal size between the heaviest rank and a light one while that evens them out, in place."""
    ranks = len(loads)
    for _ in range(4 * ranks + 32):
        heavy = int(loads.argmax())
        for light in np.argsort(loads, kind="stable")[: min(4, ranks - 1)].tolist():
            pair = _best_exchange(rank_of_set, sizes, set_tokens, heavy, light, int(loads[heavy] - loads[light]))
            if pair is not None:
                break
        else:
            return
        given, taken, gain = pair
        rank_of_set[given], rank_of_set[taken] = light, heavy
        loads[heavy] -= gain
        loads[light] += gain


def _best_exchange(
    rank_of_set: Ints, sizes: Ints, set_tokens: Ints, heavy: int, light: int, gap: int
) -> tuple[int, int, int] | None:
    """(set to give, set to take, difference) with the difference strictly inside (0, gap) and closest to gap / 2."""
    if gap < 2:
        return None
    ours, theirs = np.flatnonzero(rank_of_set == heavy), np.flatnonzero(rank_of_set == light)
    # one sorted axis for all sizes: tokens shifted by the size, farther than any difference that is looked for
    shift = int(set_tokens.max()) + gap + 1
    key = sizes * shift + set_tokens
    theirs = theirs[np.argsort(key[theirs], kind="stable")]
    if not len(ours) or not len(theirs):
        return None
    place = np.searchsorted(key[theirs], key[ours] - gap // 2)
    best = None
    for offset in (-1, 0):
        candidate = theirs[np.clip(place + offset, 0, len(theirs) - 1)]
        gain = key[ours] - key[candidate]
        distance = np.where((gain > 0) & (gain < gap), np.abs(2 * gain - gap), gap)
        index = int(distance.argmin())
        if distance[index] < gap and (best is None or distance[index] < best[0]):
            best = int(distance[index]), int(ours[index]), int(candidate[index]), int(gain[index])
    return None if best is None else best[1:]


def _place_single_rows(rank_of_row: Ints, tokens: Ints, loads: Ints, used: Ints, capacity: int) -> None:
    """Rows of sets that fit nowhere whole, longest first, each to the lightest rank that has room; in place."""
    rows = np.flatnonzero(rank_of_row < 0)
    for row in rows[np.argsort(-tokens[rows], kind="stable")].tolist():
        rank = int(np.where(used < capacity, loads, np.iinfo(np.int64).max).argmin())
        rank_of_row[row] = rank
        loads[rank] += tokens[row]
        used[rank] += 1
