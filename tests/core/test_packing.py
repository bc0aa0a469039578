"""Layouts over random batches: nothing lost, sets whole, budgets kept, tokens balanced."""

from collections import Counter

import numpy as np
import pytest
from hypothesis import strategies as st
from verl.utils.seqlen_balancing import get_seqlen_balanced_partitions

from tests.core.batches import for_all
from verl_srpo.core import micro_batch_count, pack_micro_batches, pack_mini_batches


def random_rows(
    seed: int, sets: int, largest_set: int = 4, longest: int = 50
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(set_ids, tokens, task_ids) in random row order; tasks of one to five sets."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, largest_set + 1, sets)
    names = draw.choice(10 * sets, sets, replace=False)
    task_of_set = np.repeat(np.arange(sets), draw.integers(1, 6, sets))[:sets]
    order = draw.permutation(sizes.sum())
    set_ids, task_ids = np.repeat(names, sizes)[order], np.repeat(task_of_set, sizes)[order]
    return set_ids, draw.integers(0, longest + 1, sizes.sum()), task_ids


def realistic_rows(seed: int, sets: int, largest_set: int, longest: int = 4096) -> tuple[np.ndarray, np.ndarray]:
    """Log-normal lengths, as responses have, cut at `longest`."""
    draw = np.random.default_rng(seed)
    sizes = draw.integers(1, largest_set + 1, sets)
    tokens = np.minimum(draw.lognormal(6.0, 0.8, sizes.sum()).astype(int) + 1, longest)
    return np.repeat(np.arange(sets), sizes), tokens


layouts = {
    "seed": st.integers(0, 2**31),
    "sets": st.integers(1, 60),
    "ranks": st.integers(1, 5),
    "mini_batches": st.integers(1, 5),
    "multiple": st.sampled_from([1, 1, 2, 4]),
    "by_task": st.booleans(),
}


@for_all(120, **layouts)
def test_mini_batches_hold_every_row_once_and_every_set_and_task_whole(
    seed, sets, ranks, mini_batches, multiple, by_task
):
    set_ids, tokens, tasks = random_rows(seed, sets)
    layout = pack_mini_batches(
        set_ids, tokens, ranks=ranks, mini_batches=mini_batches, task_ids=tasks if by_task else None, multiple=multiple
    )
    per_mini, per_rank = layout.rows_per_mini, layout.rows_per_mini * mini_batches
    assert len(layout.order) == ranks * per_rank
    assert per_mini % multiple == 0
    real = layout.order >= 0
    assert sorted(layout.order[real].tolist()) == list(range(len(set_ids)))
    assert set(layout.order[~real].tolist()) <= {-1}
    # the formula by which verl slices the batch, as loops
    mini_batch, rank = np.empty(len(layout.order), int), np.empty(len(layout.order), int)
    for k in range(mini_batches):
        for r in range(ranks):
            part = slice(r * per_rank + k * per_mini, r * per_rank + (k + 1) * per_mini)
            mini_batch[part], rank[part] = k, r
    assert mini_batch.tolist() == layout.mini_batch_of().tolist()
    assert rank.tolist() == layout.rank_of().tolist()
    whole = [set_ids]
    if by_task and len(set(tasks.tolist())) >= mini_batches:
        whole.append(tasks)
    for ids in whole:
        for name in set(ids.tolist()):
            assert len(set(mini_batch[real][ids[layout.order[real]] == name].tolist())) == 1


@for_all(**layouts)
def test_padding_is_what_uneven_rows_and_the_multiple_ask_for(seed, sets, ranks, mini_batches, multiple, by_task):
    set_ids, tokens, _ = random_rows(seed, sets)
    layout = pack_mini_batches(set_ids, tokens, ranks=ranks, mini_batches=mini_batches, multiple=multiple)
    rows = Counter(layout.mini_batch_of()[layout.order >= 0].tolist())
    largest = Counter(set_ids.tolist()).most_common(1)[0][1]
    # greedy by rows: no mini-batch is more than one set above the average
    assert max(rows.values()) <= len(set_ids) / mini_batches + largest
    assert layout.rows_per_mini * ranks - max(rows.values()) < ranks * multiple


@for_all(**layouts)
def test_sets_stay_on_one_rank_where_they_fit(seed, sets, ranks, mini_batches, multiple, by_task):
    # sets of two and an even number of rows a rank: each fits
    set_ids, tokens = np.repeat(np.arange(sets), 2), np.random.default_rng(seed).integers(1, 50, 2 * sets)
    layout = pack_mini_batches(set_ids, tokens, ranks=ranks, mini_batches=mini_batches, multiple=2 * multiple)
    rank, real = layout.rank_of(), layout.order >= 0
    for name in range(sets):
        assert len(set(rank[real][set_ids[layout.order[real]] == name].tolist())) == 1


def test_small_sets_make_room_for_a_large_one():
    # ranks of two rows: dealing the two single rows out first would leave no rank room for the set of two
    layout = pack_mini_batches([0, 0, 1, 2], [5, 5, 9, 1], ranks=2, mini_batches=1)
    assert sorted(map(sorted, layout.order.reshape(2, 2).tolist())) == [[0, 1], [2, 3]]


def test_set_that_fits_nowhere_is_split_over_ranks():
    # three sets of two rows on two ranks of three
    layout = pack_mini_batches([0, 0, 1, 1, 2, 2], [4] * 6, ranks=2, mini_batches=1)
    assert layout.rows_per_mini == 3
    parts = [Counter(np.array([0, 0, 1, 1, 2, 2])[part].tolist()) for part in layout.order.reshape(2, 3)]
    assert sorted(parts[0].values()) == [1, 2]
    assert sorted((parts[0] + parts[1]).values()) == [2, 2, 2]


def test_fewer_tasks_than_mini_batches_fall_back_to_whole_sets():
    set_ids, tasks = np.repeat(np.arange(6), 2), np.zeros(12, int)
    layout = pack_mini_batches(set_ids, np.ones(12, int), ranks=1, mini_batches=3, task_ids=tasks)
    assert (layout.order >= 0).all()
    assert [len(set(part.tolist())) for part in set_ids[layout.order].reshape(3, 4)] == [2, 2, 2]


def test_rows_with_negative_identifiers_are_units_of_their_own():
    layout = pack_mini_batches([-1, -1, -1, -1], [1, 1, 1, 1], ranks=1, mini_batches=4)
    assert sorted(layout.order.tolist()) == [0, 1, 2, 3]
    assert len(pack_micro_batches([-1, -1, -1, -1], [5] * 4, max_tokens=5)) == 4


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("largest_set", [1, 2, 5])
@pytest.mark.parametrize("seed", range(4))
def test_tokens_are_as_even_over_ranks_as_verls_own_partition(ranks, largest_set, seed):
    set_ids, tokens = realistic_rows(seed, 64 * ranks, largest_set)
    rows = len(tokens) // ranks * ranks
    set_ids, tokens = set_ids[:rows], tokens[:rows]
    layout = pack_mini_batches(set_ids, tokens, ranks=ranks, mini_batches=1)
    real = layout.order >= 0
    ours = np.bincount(layout.rank_of()[real], weights=tokens[layout.order[real]])
    verls = get_seqlen_balanced_partitions(tokens.tolist(), ranks, equal_size=True)
    heaviest = max(sum(int(tokens[i]) for i in part) for part in verls)
    # verl moves single rows, we move whole sets: equal to one part in five thousand
    assert ours.max() <= heaviest * 1.0002
    assert ours.max() / ours.mean() < 1.0005


def test_heavy_shares_of_mini_batches_alternate_over_ranks():
    # each mini-batch: a set of two short rows on one rank, two long rows on the other
    set_ids, tokens = np.array([0, 0, 1, 2, 3, 3, 4, 5]), np.array([1, 1, 10, 10, 1, 1, 10, 10])
    layout = pack_mini_batches(set_ids, tokens, ranks=2, mini_batches=2, task_ids=set_ids // 3)
    assert np.bincount(layout.rank_of(), weights=tokens[layout.order]).tolist() == [22, 22]


def test_ranks_with_room_to_spare_hold_equal_rows():
    layout = pack_mini_batches([0, 0, 1, 2], [5] * 4, ranks=2, mini_batches=1, multiple=4)
    assert (layout.order.reshape(2, 4) >= 0).sum(1).tolist() == [2, 2]


@pytest.mark.parametrize("mini_batches", [2, 4])
def test_every_mini_batch_is_balanced_over_ranks(mini_batches):
    set_ids, tokens = realistic_rows(1, 512, 3)
    layout = pack_mini_batches(set_ids, tokens, ranks=4, mini_batches=mini_batches)
    real = layout.order >= 0
    load = np.zeros((mini_batches, 4))
    np.add.at(load, (layout.mini_batch_of()[real], layout.rank_of()[real]), tokens[layout.order[real]])
    assert (load.max(1) / load.mean(1)).max() < 1.002
    assert load.sum(0).max() / load.sum(0).mean() < 1.001


micro = {
    "seed": st.integers(0, 2**31),
    "sets": st.integers(1, 40),
    "max_tokens": st.sampled_from([None, 50, 120, 400]),
    "max_rows": st.sampled_from([None, 1, 3, 8]),
}


@for_all(120, **micro, extra=st.integers(-3, 12))
def test_micro_batches_hold_every_row_once_within_the_budget(seed, sets, max_tokens, max_rows, extra):
    set_ids, tokens, _ = random_rows(seed, sets)
    budget = {"max_tokens": max_tokens, "max_rows": max_rows}
    needed = micro_batch_count(set_ids, tokens, **budget)
    batches = pack_micro_batches(set_ids, tokens, **budget)
    assert len(batches) == needed
    count = min(max(needed + extra, 1), len(set_ids))
    more = pack_micro_batches(set_ids, tokens, count=count, **budget)
    assert len(more) == max(count, needed)
    for packing in (batches, more):
        assert sorted(row for batch in packing for row in batch.tolist()) == list(range(len(set_ids)))
        for batch in packing:
            assert len(batch) > 0
            assert batch.tolist() == sorted(batch.tolist())
            assert max_tokens is None or tokens[batch].sum() <= max_tokens
            assert max_rows is None or len(batch) <= max_rows


@for_all(**micro)
def test_sets_within_the_budget_stay_whole(seed, sets, max_tokens, max_rows):
    set_ids, tokens, _ = random_rows(seed, sets)
    batches = pack_micro_batches(set_ids, tokens, max_tokens=max_tokens, max_rows=max_rows)
    place = np.empty(len(set_ids), int)
    for index, batch in enumerate(batches):
        place[batch] = index
    for name in set(set_ids.tolist()):
        rows = set_ids == name
        fits = (max_tokens is None or tokens[rows].sum() <= max_tokens) and (max_rows is None or rows.sum() <= max_rows)
        if fits:
            assert len(set(place[rows].tolist())) == 1


@for_all(seed=st.integers(0, 2**31), sets=st.integers(2, 40), count=st.integers(1, 12))
def test_sets_are_split_only_where_there_are_too_few(seed, sets, count):
    set_ids, tokens, _ = random_rows(seed, sets)
    count = min(count, sets)
    for batch_ids in [set_ids[batch] for batch in pack_micro_batches(set_ids, tokens, count=count)]:
        for name in set(batch_ids.tolist()):
            assert (batch_ids == name).sum() == (set_ids == name).sum()


def test_micro_batches_are_balanced_by_tokens():
    set_ids, tokens = realistic_rows(2, 400, 3)
    batches = pack_micro_batches(set_ids, tokens, max_tokens=16_000)
    loads = [tokens[batch].sum() for batch in batches]
    assert len(batches) <= -(-tokens.sum() // 16_000) + 1
    assert max(loads) / np.mean(loads) < 1.01


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: pack_mini_batches([], [], ranks=1, mini_batches=1), "set_ids is empty; at least one row is needed"),
        (lambda: pack_mini_batches([1], [1, 2], ranks=1, mini_batches=1), "tokens has shape (2,) and set_ids (1,)"),
        (
            lambda: pack_mini_batches([1], [-3], ranks=1, mini_batches=1),
            "tokens=-3 on row 0; a number of tokens is at least",
        ),
        (lambda: pack_mini_batches([1.5], [1], ranks=1, mini_batches=1), "set_ids has shape (1,) and type float64"),
        (lambda: pack_mini_batches([1], [1], ranks=0, mini_batches=1), "ranks=0 is not an integer of at least 1"),
        (lambda: pack_mini_batches([1], [1], ranks=1, mini_batches=True), "mini_batches=True is not an integer"),
        (lambda: pack_mini_batches([1], [1], ranks=1, mini_batches=1, multiple=0), "multiple=0 is not an integer"),
        (
            lambda: pack_mini_batches([5, 5], [1, 1], ranks=1, mini_batches=1, task_ids=[3, 4]),
            "set 5 lies in tasks [3, 4]; a set belongs to one task",
        ),
        (
            lambda: pack_mini_batches([5, 5], [1, 1], ranks=1, mini_batches=1, task_ids=[3]),
            "task_ids has shape (1,) and set_ids (2,)",
        ),
        (lambda: pack_micro_batches([1, 2], [9, 3], max_tokens=8), "row 0 has 9 tokens, over max_tokens=8"),
        (lambda: micro_batch_count([1, 2], [9, 3], max_tokens=8), "row 0 has 9 tokens, over max_tokens=8"),
        (lambda: pack_micro_batches([1], [1], max_rows=0), "max_rows=0 is not an integer of at least 1"),
        (lambda: pack_micro_batches([1], [1], count=2), "count=2 micro-batches of 1 rows would leave one empty"),
    ],
)
def test_error_names_argument_value_and_remedy(call, said):
    with pytest.raises(ValueError) as caught:
        call()
    assert said in str(caught.value)
