import math

import pytest
import torch
from hypothesis import strategies as st

from tests.core import reference
from tests.core.batches import Batch, advantage_options, for_all, make_batch, seeds
from verl_srpo.core import set_populations, set_relative_advantages


def advantages_of(batch: Batch, **options) -> torch.Tensor:
    return set_relative_advantages(*arguments(batch), **columns(batch), **options)


def arguments(batch: Batch) -> tuple[torch.Tensor, ...]:
    return batch.returns, batch.set_ids, batch.episode_ids, batch.task_ids


def columns(batch: Batch) -> dict[str, torch.Tensor]:
    return {"agent_ids": batch.agent_ids, "event_index": batch.event_index}


@for_all(120, seed=seeds, options=advantage_options, given_returns=st.booleans())
def test_advantages_agree_with_the_loops(seed, options, given_returns):
    batch = make_batch(seed, tasks=2, episodes=4)
    more = {}
    if given_returns:
        # one number an episode, different from the return of its first event
        more["episode_returns"] = (batch.episode_ids % 5).double() - 1.3
    got = advantages_of(batch, **options, **more)
    expected = reference.advantages(*arguments(batch), **columns(batch), **options, **more)
    torch.testing.assert_close(got, torch.tensor(expected, dtype=got.dtype), rtol=1e-9, atol=1e-9)


@for_all(seed=seeds, options=advantage_options, shuffle=seeds)
def test_row_order_padding_and_names_do_not_matter(seed, options, shuffle):
    batch = make_batch(seed)
    draw = torch.Generator().manual_seed(shuffle)
    order = torch.randperm(len(batch.set_ids), generator=draw)
    other = batch.take(order)
    _, number = torch.unique(other.set_ids, return_inverse=True)
    names = torch.randperm(1000, generator=draw)
    other.set_ids = torch.where(other.set_ids >= 0, names[number], other.set_ids)
    other.episode_ids, other.task_ids, other.agent_ids = (
        names[column] for column in (other.episode_ids, other.task_ids, other.agent_ids)
    )
    other.returns[other.set_ids < 0] = float("nan")
    kept = batch.take(batch.set_ids >= 0)
    expected = torch.zeros(len(batch.set_ids), dtype=torch.float64)
    expected[batch.set_ids >= 0] = advantages_of(kept, **options)
    torch.testing.assert_close(advantages_of(other, **options), expected[order], rtol=1e-9, atol=1e-12)


@for_all(seed=seeds, options=advantage_options, shift=st.sampled_from([-7.0, 1e3, 1e6]))
def test_shift_of_all_returns_changes_nothing(seed, options, shift):
    batch = make_batch(seed, tasks=2, episodes=4)
    expected = advantages_of(batch, **options)
    batch.returns = batch.returns + shift
    torch.testing.assert_close(advantages_of(batch, **options), expected, rtol=1e-6, atol=1e-6)


@for_all(seed=seeds, options=advantage_options, reward=st.floats(-1e12, 1e12))
def test_equal_rewards_give_exactly_zero(seed, options, reward):
    batch = make_batch(seed, episodes=5)
    batch.returns = torch.full_like(batch.returns, reward)
    assert not advantages_of(batch, **options).any()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_many_shifted_returns_stay_accurate(dtype):
    # 200,000 rollouts whose returns sit on an offset 2^20 times their spread: float32 sums would lose every digit
    rollouts, offset = 200_000, 2.0**20
    returns = torch.full((rollouts,), offset, dtype=dtype)
    returns[::2] += 1.0
    ids = torch.arange(rollouts)
    of_sets = set_relative_advantages(returns, ids, ids, torch.zeros_like(ids), agent_ids=torch.zeros_like(ids))
    std = math.sqrt(rollouts / (rollouts - 1) / 4)
    expected = torch.tensor([0.5, -0.5], dtype=dtype).repeat(rollouts // 2) / (std + 1e-6)
    torch.testing.assert_close(of_sets, expected, rtol=1e-6, atol=0)
    assert of_sets.dtype == dtype


def test_value_under_task_scope_is_the_return_of_the_whole_episode():
    # two episodes; the later event of each has seen a penalty already
    returns = torch.tensor([0.8, 1.0, -0.4, 0.0], dtype=torch.float64)
    set_ids, episodes = torch.tensor([0, 1, 2, 3]), torch.tensor([0, 0, 1, 1])
    tasks, events = torch.zeros(4, dtype=torch.int64), torch.tensor([0, 1, 0, 1])
    got = set_relative_advantages(returns, set_ids, episodes, tasks, event_index=events, scope="task", scale="none")
    torch.testing.assert_close(got, torch.tensor([0.6, 0.6, -0.6, -0.6], dtype=torch.float64), rtol=1e-12, atol=0)


def test_first_event_present_stands_for_the_episode_unless_its_return_is_given():
    # event 0 of the first episode was removed; its return 0.5 is what is left at event 1
    returns = torch.tensor([0.5, 0.7, -0.5], dtype=torch.float64)
    set_ids, episodes = torch.tensor([5, 6, 7]), torch.tensor([0, 0, 1])
    tasks, events = torch.zeros(3, dtype=torch.int64), torch.tensor([1, 2, 0])
    options = {"event_index": events, "scope": "task", "scale": "none"}
    got = set_relative_advantages(returns, set_ids, episodes, tasks, **options)
    torch.testing.assert_close(got, torch.tensor([0.5, 0.5, -0.5], dtype=torch.float64), rtol=1e-12, atol=0)
    whole = torch.tensor([0.1, 0.1, -0.5], dtype=torch.float64)
    got = set_relative_advantages(returns, set_ids, episodes, tasks, episode_returns=whole, **options)
    torch.testing.assert_close(got, torch.tensor([0.3, 0.3, -0.3], dtype=torch.float64), rtol=1e-12, atol=0)


@pytest.mark.parametrize(("scope", "pairs"), [("signature", True), ("event", False)])
def test_signature_is_the_multiset_of_agents(scope, pairs):
    # sets {0, 1}, {1, 0} and {0, 0}; {0, 0, 1} and {0, 1, 1}; by signature only the first two are comparable
    set_ids = torch.tensor([0, 0, 1, 1, 2, 2, 3, 3, 3, 4, 4, 4])
    agents = torch.tensor([0, 1, 1, 0, 0, 0, 0, 0, 1, 1, 0, 1])
    returns = torch.tensor([1.0, 3.0, 10.0, 20.0, 40.0], dtype=torch.float64)[set_ids]
    zeros = torch.zeros_like(set_ids)
    populations = set_populations(
        returns, set_ids, set_ids, zeros, agent_ids=agents, event_index=zeros, scope=scope, count="set"
    )
    if pairs:
        assert populations.size.tolist() == [2.0] * 4 + [1.0] * 8
        assert populations.lonely.tolist() == [False] * 4 + [True] * 8
        assert populations.mean[:4].tolist() == [2.0] * 4
        assert populations.std[:4].tolist() == pytest.approx([math.sqrt(2)] * 4)
    else:
        assert populations.size.tolist() == [5.0] * 12


@for_all(seed=seeds, options=advantage_options)
def test_populations_are_those_behind_the_advantages(seed, options):
    batch = make_batch(seed, tasks=2, episodes=4)
    options = {**options, "lonely": "zero", "scale": "std"}
    populations = set_populations(*arguments(batch), **columns(batch), **options)
    value = batch.returns
    if options["scope"] == "task":
        value = value.clone()
        for episode in batch.episode_ids.unique():
            rows = ((batch.episode_ids == episode) & (batch.set_ids >= 0)).nonzero().flatten()
            value[rows] = batch.returns[rows[batch.event_index[rows].argmin()]]
    signal = ~populations.lonely & (populations.std >= 1e-6)
    expected = torch.where(signal, (value - populations.mean) / (populations.std + 1e-6), 0.0)
    expected[batch.set_ids < 0] = 0.0
    torch.testing.assert_close(advantages_of(batch, **options), expected, rtol=1e-9, atol=1e-12)
    padding = batch.set_ids < 0
    for column in populations:
        assert not column[padding].any()


def test_lonely_set_falls_back_to_its_task_and_never_to_its_raw_return():
    # agent 1 acted in the first episode only
    set_ids, episodes = torch.tensor([0, 1, 2]), torch.tensor([0, 0, 1])
    returns = torch.tensor([5.0, 5.0, 3.0], dtype=torch.float64)
    options = {"agent_ids": torch.tensor([0, 1, 0]), "scale": "none"}
    tasks = torch.zeros(3, dtype=torch.int64)
    assert set_relative_advantages(returns, set_ids, episodes, tasks, **options).tolist() == [1.0, 1.0, -1.0]
    zero = set_relative_advantages(returns, set_ids, episodes, tasks, lonely="zero", **options)
    assert zero.tolist() == [1.0, 0.0, -1.0]
    alone = set_relative_advantages(returns[:1], set_ids[:1], episodes[:1], tasks[:1], agent_ids=torch.tensor([0]))
    assert alone.tolist() == [0.0]


def test_events_that_one_episode_shares_do_not_make_it_a_population():
    # one episode, three sets of one kind: n = 1 by episode, 3 by set
    set_ids, zeros = torch.tensor([0, 1, 2]), torch.zeros(3, dtype=torch.int64)
    returns = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64)
    options = {"agent_ids": zeros, "event_index": set_ids, "scale": "none"}
    assert set_populations(returns, set_ids, zeros, zeros, **options).lonely.all()
    assert set_relative_advantages(returns, set_ids, zeros, zeros, **options).tolist() == [0.0, 0.0, 0.0]
    by_set = set_relative_advantages(returns, set_ids, zeros, zeros, count="set", **options)
    assert by_set.tolist() == [-1.0, 0.0, 1.0]


def test_thirds_of_an_episode_add_up_to_one():
    # three sets of one episode and one of another: n is exactly 2, although 3 x 1/3 is not exactly 1 in binary
    set_ids, zeros = torch.arange(4), torch.zeros(4, dtype=torch.int64)
    episodes = torch.tensor([0, 0, 0, 1])
    returns = torch.tensor([1.0, 1.0, 1.0, 0.0], dtype=torch.float64)
    populations = set_populations(returns, set_ids, episodes, zeros, agent_ids=zeros)
    assert populations.size.tolist() == [2.0] * 4
    assert not populations.lonely.any()


@pytest.mark.parametrize(("spread", "expected"), [(0.9e-6, 0.0), (4e-6, 2e-6 / (math.sqrt(8) * 1e-6 + 1e-6))])
def test_population_without_spread_gives_zero(spread, expected):
    ids, zeros = torch.arange(2), torch.zeros(2, dtype=torch.int64)
    returns = torch.tensor([0.0, spread], dtype=torch.float64)
    got = set_relative_advantages(returns, ids, ids, zeros, agent_ids=zeros)
    assert got.tolist() == pytest.approx([-expected, expected], rel=1e-9)


def test_sets_are_looked_up_whatever_their_size():
    # many members, so that the signatures are folded over many positions
    agents = torch.arange(300).repeat(3)
    agents[600] = 299
    set_ids = torch.arange(3).repeat_interleave(300)
    zeros = torch.zeros_like(set_ids)
    populations = set_populations(set_ids.double(), set_ids, set_ids, zeros, agent_ids=agents)
    assert populations.size.view(3, 300)[:, 0].tolist() == [2.0, 2.0, 1.0]


def test_no_rows_give_no_advantages():
    empty = torch.zeros(0, dtype=torch.int64)
    for scope in ("signature", "event", "signature_event", "task"):
        got = set_relative_advantages(
            torch.zeros(0), empty, empty, empty, agent_ids=empty, event_index=empty, scope=scope
        )
        assert got.tolist() == []
    padding = torch.tensor([-1, -2])
    got = set_relative_advantages(torch.ones(2), padding, padding, padding, agent_ids=padding)
    assert got.tolist() == [0.0, 0.0]
