"""The game by hand, and the policies' arithmetic."""

import pytest
import torch

from verl_srpo.lab.game import Batch, Game, convention, draw_batch, rewards
from verl_srpo.lab.policy import Policies


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def test_a_position_is_won_when_its_tokens_add_up_to_the_target():
    game = Game(set_sizes=(2,), lengths=(1, 3), vocabulary=5, tasks=1, rollouts=2)
    mask = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 0]], dtype=torch.bool)
    rank = torch.tensor([[0, 0, 0], [1, 1, 1], [0, 0, 0], [1, 1, 1]])
    batch = Batch(
        torch.full((4,), 3), mask, rank, torch.tensor([0, 0, 1, 1]), torch.zeros(4), torch.tensor([0, 1, 0, 1])
    )
    # first set: 4 + 4 = 3 mod 5 is won, 1 + 1 lost, then the first agent speaks alone, 3 won; second: only 0 + 3 is won
    tokens = torch.tensor([[4, 1, 3], [4, 1, 4], [0, 2, 4], [3, 0, 4]])
    assert rewards(game, batch, tokens).tolist() == pytest.approx([2 / 3, 2 / 3, 1 / 3, 1 / 3])


def test_batches_hold_every_size_equally_often_and_the_same_task_in_all_rollouts():
    game = Game(set_sizes=(1, 3), lengths=(2, 5), tasks=4, rollouts=2)
    batch = draw_batch(game, generator())
    assert torch.bincount(torch.bincount(batch.set_ids)).tolist() == [0, 4, 0, 4]
    assert len(batch.target) == 16
    for task in range(4):
        rows = batch.task_ids == task
        size = int(batch.agent_ids[rows].max()) + 1
        first, second = batch.mask[rows].view(2, size, -1)
        assert torch.equal(first, second)
        assert len(batch.target[rows].unique()) == 1
    lengths = batch.mask.sum(1)
    assert lengths.min() >= 2
    assert lengths.max() <= 5
    speakers = torch.zeros(8, 5, dtype=torch.long).index_add_(0, batch.set_ids, batch.mask.long())
    last = (batch.rank == speakers[batch.set_ids] - 1) & batch.mask
    assert torch.equal(torch.zeros(8, 5).index_add_(0, batch.set_ids, last.float()), (speakers > 0).float())


def test_the_convention_wins_everything():
    game = Game(set_sizes=(1, 2, 4, 8), lengths=(1, 9))
    batch = draw_batch(game, generator(3))
    assert (rewards(game, batch, convention(batch)) == 1).all()


def test_one_random_agent_makes_the_reward_random():
    game = Game(set_sizes=(4,), vocabulary=4, tasks=64, rollouts=64)
    batch = draw_batch(game, generator())
    tokens = convention(batch)
    tokens[batch.agent_ids == 2] = torch.randint(4, (64 * 64, game.tokens), generator=generator(1))
    reward = rewards(game, batch, tokens).mean().item()
    assert reward == pytest.approx(0.25, abs=0.015)  # 24,576 positions: five standard errors


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"set_sizes": (1, 2, 4)}, "8 tasks a batch can not hold 3 set sizes"),
        ({"lengths": (3, 2)}, r"lengths is \(3, 2\)"),
        ({"set_sizes": (0,)}, "sets need a member"),
    ],
)
def test_impossible_games_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        Game(**options)


def test_log_prob_is_that_of_the_distribution_that_is_sampled():
    game = Game(set_sizes=(2,), vocabulary=3, lengths=(2, 2), tasks=1, rollouts=4000)
    policies = Policies(game, [generator(5)])
    batch = draw_batch(game, generator(6))
    tokens = policies.sample([batch], [generator(7)])
    assert tokens.min() >= 0
    assert tokens.max() <= 2
    probability = policies.log_prob([batch], tokens).exp()[0]
    first_agent = batch.agent_ids == 0
    for token in range(3):
        chosen = first_agent & (tokens[0, :, 0] == token)
        frequency = chosen.sum() / first_agent.sum()
        assert probability[chosen, 0].mean().item() == pytest.approx(frequency.item(), abs=0.04)
    after_zero = first_agent & (tokens[0, :, 0] == 0)
    for token in range(3):
        chosen = after_zero & (tokens[0, :, 1] == token)
        assert probability[chosen, 1].mean().item() == pytest.approx((chosen.sum() / after_zero.sum()).item(), abs=0.06)


def test_policies_side_by_side_do_not_mix():
    game = Game(set_sizes=(2,), tasks=2)
    batches = [draw_batch(game, generator(seed)) for seed in (0, 1)]
    both = Policies(game, [generator(8), generator(9)])
    tokens = both.sample(batches, [generator(2), generator(3)])
    for b, seed in enumerate((8, 9)):
        alone = Policies(game, [generator(seed)])
        assert torch.allclose(alone.log_prob([batches[b]], tokens[b : b + 1])[0], both.log_prob(batches, tokens)[b])
