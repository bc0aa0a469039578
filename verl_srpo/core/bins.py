"""Packing of units (arrays of row indices) into bins with room for so many tokens and rows."""

import heapq
from bisect import bisect_left, insort

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]


def _sizes(units: list[Ints], lengths: Ints) -> list[tuple[int, int, int]]:
    """(tokens, rows, index) of each unit, largest first."""
    rows = np.array([len(unit) for unit in units])
    tokens = np.add.reduceat(lengths[np.concatenate(units)], np.cumsum(rows) - rows)
    order = np.lexsort((-rows, -tokens))
    return list(zip(tokens[order].tolist(), rows[order].tolist(), order.tolist(), strict=True))


def best_fit(units: list[Ints], lengths: Ints, max_tokens: int, max_rows: int) -> list[Ints]:
    """Best-fit decreasing: each unit into the fullest bin that has room."""
    room: list[tuple[int, int, int]] = []  # (tokens left, rows left, bin), ascending
    bins: list[list[Ints]] = []
    for tokens, rows, index in _sizes(units, lengths):
        place = bisect_left(room, (tokens, rows))
        while place < len(room) and room[place][1] < rows:
            place += 1
        if place < len(room):
            tokens_left, rows_left, chosen = room.pop(place)
        else:
            tokens_left, rows_left, chosen = max_tokens, max_rows, len(bins)
            bins.append([])
        bins[chosen].append(units[index])
        if rows_left > rows:
            insort(room, (tokens_left - tokens, rows_left - rows, chosen))
    return [np.concatenate(one) for one in bins]


def least_loaded(units: list[Ints], lengths: Ints, count: int, max_tokens: int, max_rows: int) -> list[Ints] | None:
    """Each unit, largest first, to the bin with least tokens that has room; None where one finds no room."""
    bins: list[list[Ints]] = [[] for _ in range(count)]
    heap = [(0, 0, i) for i in range(count)]
    for tokens, rows, index in _sizes(units, lengths):
        passed = []
        while heap and (heap[0][0] + tokens > max_tokens or heap[0][1] + rows > max_rows):
            if heap[0][0] + tokens > max_tokens:
                return None
            full = heapq.heappop(heap)
            if full[1] < max_rows:
                passed.append(full)
        if not heap:
            return None
        load, used, chosen = heap[0]
        bins[chosen].append(units[index])
        heapq.heapreplace(heap, (load + tokens, used + rows, chosen))
        for full in passed:
            heapq.heappush(heap, full)
    return [np.concatenate(one) for one in bins]


def split_to(units: list[Ints], lengths: Ints, count: int) -> list[Ints]:
    """Halve the units with most tokens that have more than one row until there are `count`."""
    if len(units) >= count:
        return units
    done = [u for u in units if len(u) == 1]
    heap = [(-int(lengths[u].sum()), i, u) for i, u in enumerate(units) if len(u) > 1]
    heapq.heapify(heap)
    serial = len(units)
    while len(done) + len(heap) < count:
        _, _, rows = heapq.heappop(heap)
        rows = rows[np.argsort(-lengths[rows], kind="stable")]
        for half in (rows[0::2], rows[1::2]):
            serial += 1
            if len(half) > 1:
                heapq.heappush(heap, (-int(lengths[half].sum()), serial, half))
            else:
                done.append(half)
    return done + [u for _, _, u in heap]
