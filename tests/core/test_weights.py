import pytest
import torch

from tests.core import reference
from tests.core.batches import for_all, make_batch, reductions, seeds
from verl_srpo.core import event_weights

# task 0: episode 0 with sets 10 (two rows) and 11, episode 1 with set 12; task 1: episode 2 with set 13; padding
SET_IDS = torch.tensor([10, 10, 11, 12, 13, -1])
EPISODES = torch.tensor([0, 0, 0, 1, 2, 0])
TASKS = torch.tensor([0, 0, 0, 0, 1, 0])
LENGTHS = torch.tensor([3, 1, 4, 2, 6, 9])


@pytest.mark.parametrize(
    ("reduction", "of_sets"),
    [
        ("event_mean", [1 / 4, 1 / 4, 1 / 4, 1 / 4]),
        ("token_mean", [4 / 16, 4 / 16, 2 / 16, 6 / 16]),
        ("episode_mean", [1 / 6, 1 / 6, 1 / 3, 1 / 3]),
        ("task_mean", [1 / 6, 1 / 6, 1 / 6, 1 / 2]),
    ],
)
def test_weights_by_hand(reduction, of_sets):
    weights = event_weights(
        SET_IDS, reduction=reduction, episode_ids=EPISODES, task_ids=TASKS, response_lengths=LENGTHS
    )
    first, second, third, fourth = of_sets
    torch.testing.assert_close(weights, torch.tensor([first, first, second, third, fourth, 0.0]))


@for_all(seed=seeds, reduction=reductions)
def test_weights_agree_with_the_loops_and_sum_to_one(seed, reduction):
    batch = make_batch(seed)
    columns = {"episode_ids": batch.episode_ids, "task_ids": batch.task_ids, "response_lengths": batch.lengths}
    weights = event_weights(batch.set_ids, reduction=reduction, **columns)
    expected = reference.weights(batch.set_ids, reduction, batch.episode_ids, batch.task_ids, batch.lengths)
    total = 0.0
    for set_id, rows in reference.members_of(batch.set_ids).items():
        assert weights[rows].tolist() == pytest.approx([expected[set_id]] * len(rows), rel=1e-6)
        total += weights[rows[0]].item()
    assert total == pytest.approx(1.0 if any(expected.values()) else 0.0, rel=1e-6)
    assert weights[batch.set_ids < 0].tolist() == [0.0] * int((batch.set_ids < 0).sum())


def test_episode_numbers_that_start_again_in_each_task_are_told_apart_by_the_task():
    set_ids, session = torch.tensor([1, 2, 3]), torch.tensor([0, 0, 0])
    weights = event_weights(set_ids, reduction="episode_mean", episode_ids=session, task_ids=torch.tensor([0, 0, 1]))
    torch.testing.assert_close(weights, torch.tensor([0.25, 0.25, 0.5]))


def test_without_tokens_or_sets_every_weight_is_zero():
    no_tokens = event_weights(SET_IDS, reduction="token_mean", response_lengths=torch.zeros(6, dtype=torch.int64))
    assert no_tokens.tolist() == [0.0] * 6
    assert event_weights(torch.tensor([-1, -2])).tolist() == [0.0, 0.0]
    assert event_weights(torch.tensor([], dtype=torch.int64)).tolist() == []


def test_weights_come_in_the_default_type():
    assert event_weights(SET_IDS).dtype == torch.get_default_dtype()
