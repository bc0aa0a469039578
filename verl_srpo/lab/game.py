"""A cooperative token game: no member of a set earns anything that the others do not earn with it.

A task is a number ``y`` below the vocabulary size V. The K agents of a set answer side by side, each with a sequence
of tokens below V, and none sees another's. A position is won when the tokens spoken there add up to ``y`` modulo V;
the reward is the share of positions won. As long as one agent speaks at random the sum is random whatever the others
do: only agents that settle on a convention together are paid.
"""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True)
class Game:
    """Sizes of the game. Dimensions: ``B`` seeds, ``P`` tasks, ``G`` rollouts a task, ``N`` rows of a seed, ``T``
    tokens.

    set_sizes: K of the tasks in turn, so that every batch holds each size equally often. lengths: shortest and longest
    response; each agent's length is drawn for each task and the same in all of the task's rollouts.
    """

    set_sizes: tuple[int, ...] = (4,)
    lengths: tuple[int, int] = (6, 6)
    vocabulary: int = 8
    tasks: int = 8
    rollouts: int = 8

    def __post_init__(self):
        if self.tasks % len(self.set_sizes):
            raise ValueError(f"{self.tasks} tasks a batch can not hold {len(self.set_sizes)} set sizes equally often")
        if not 1 <= self.lengths[0] <= self.lengths[1]:
            raise ValueError(
                f"lengths is {self.lengths}; it is the shortest and the longest response, at least 1 token"
            )
        if min(self.set_sizes) < 1 or self.vocabulary < 2 or self.rollouts < 2:
            raise ValueError(f"{self}: sets need a member, vocabularies two tokens, groups two rollouts")

    @property
    def tokens(self) -> int:
        """T, the longest response."""
        return self.lengths[1]

    @property
    def largest_set(self) -> int:
        return max(self.set_sizes)


@dataclass(frozen=True)
class Batch:
    """One seed's batch, by rows (N,) and tokens (N, T).

    target: the task's number. mask: the tokens that the agent speaks. rank: how many agents of its set with a lower
    number speak at the position too; that is what an agent knows of its place in the set. set_ids, task_ids,
    agent_ids: from 0.
    """

    target: Tensor
    mask: Tensor
    rank: Tensor
    set_ids: Tensor
    task_ids: Tensor
    agent_ids: Tensor


def draw_batch(game: Game, generator: torch.Generator) -> Batch:
    """Draw the tasks of one step and lay out their rows: tasks, then rollouts, then agents."""
    sizes = torch.tensor(game.set_sizes).repeat(game.tasks // len(game.set_sizes))
    targets = torch.randint(game.vocabulary, (game.tasks,), generator=generator)
    low, high = game.lengths
    length = torch.randint(low, high + 1, (game.tasks, game.largest_set), generator=generator)
    agents = torch.arange(game.largest_set)
    speaks = (agents < sizes[:, None])[..., None] & (torch.arange(game.tokens) < length[..., None])  # (P, K, T)
    rank = speaks.cumsum(1) - speaks.long()
    task, _, agent = torch.meshgrid(torch.arange(game.tasks), torch.arange(game.rollouts), agents, indexing="ij")
    sets = torch.arange(game.tasks * game.rollouts).view(game.tasks, game.rollouts, 1).expand_as(task)
    used = agent < sizes[task]
    task, agent, sets = task[used], agent[used], sets[used]
    return Batch(targets[task], speaks[task, agent], rank[task, agent], sets, task, agent)


def convention(batch: Batch) -> Tensor:
    """One way to win every position, as tokens (N, T): the first who speaks says the target, everyone else says 0."""
    return torch.where(batch.rank == 0, batch.target[:, None], 0)


def rewards(game: Game, batch: Batch, tokens: Tensor) -> Tensor:
    """Reward of each row's set, (N,): the share of positions whose tokens (N, T) add up to the target."""
    number = game.tasks * game.rollouts
    spoken = torch.zeros(number, game.tokens, dtype=torch.long).index_add_(0, batch.set_ids, tokens * batch.mask)
    speakers = torch.zeros(number, game.tokens, dtype=torch.long).index_add_(0, batch.set_ids, batch.mask.long())
    target = torch.zeros(number, dtype=torch.long).scatter_(0, batch.set_ids, batch.target)
    won = (spoken % game.vocabulary == target[:, None]) & (speakers > 0)
    return (won.sum(1) / (speakers > 0).sum(1))[batch.set_ids]
