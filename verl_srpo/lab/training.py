"""Train the game's policies with the functions of ``verl_srpo.core``, several seeds at once."""

import math
from dataclasses import dataclass, field

import torch
from torch import Tensor

from verl_srpo.core import event_weights, set_relative_advantages, srpo_loss

from .game import Batch, Game, draw_batch, rewards
from .policy import Policies


@dataclass(frozen=True)
class Variant:
    """What a run trains and how; the names and defaults are those of ``srpo_loss`` and ``event_weights``."""

    game: Game = field(default_factory=Game)
    unit: str = "set"
    member_norm: str = "sum"
    cardinality_norm: str = "sqrt"
    reduction: str = "event_mean"
    clip: float = 0.2
    steps: int = 120
    epochs: int = 8
    learning_rate: float = 5e-3
    largest_gradient: float = 1.0


@dataclass(frozen=True)
class Curves:
    """One seed's run, a number a step: mean reward, gradient norm (mean over the step's updates, before clipping), and the
    share of units (sets, members or tokens) that the last update of the step clipped."""

    seed: int
    reward: list[float]
    gradient_norm: list[float]
    clip_fraction: list[float]


def train(variant: Variant, seeds: list[int]) -> list[Curves]:
    """Train one policy for each seed; a seed's curves do not depend on which seeds it is trained beside, to rounding."""
    game = variant.game
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    policies = Policies(game, generators)
    optimizer = torch.optim.Adam(policies.parameters(), lr=variant.learning_rate)
    history: list[list[Tensor]] = []
    for _ in range(variant.steps):
        batches = [draw_batch(game, generator) for generator in generators]
        tokens = policies.sample(batches, generators)
        reward = torch.stack([rewards(game, batch, said) for batch, said in zip(batches, tokens, strict=True)])
        step = Step(variant, batches, tokens, reward)
        with torch.no_grad():
            old_log_prob = policies.log_prob(batches, tokens)
        norms = []
        for _ in range(variant.epochs):
            optimizer.zero_grad(set_to_none=True)
            log_prob = policies.log_prob(batches, tokens)
            step.loss(log_prob, old_log_prob).backward()
            norms.append(scale_gradients(policies, variant.largest_gradient))
            optimizer.step()
        history.append([step.episode_reward(), torch.stack(norms).mean(0), step.clip_fractions(log_prob, old_log_prob)])
    curves = torch.stack([torch.stack(numbers) for numbers in history], 2)  # (3, B, steps)
    return [Curves(seed, *(curves[i, b].tolist() for i in range(3))) for b, seed in enumerate(seeds)]


class Step:
    """The batches of all seeds as one batch of rows, in which sets and tasks of different seeds have different numbers."""

    def __init__(self, variant: Variant, batches: list[Batch], tokens: Tensor, reward: Tensor):
        self.variant = variant
        self.seeds, self.rows, self.length = tokens.shape
        sets, tasks = variant.game.tasks * variant.game.rollouts, variant.game.tasks
        self.set_ids = torch.cat([batch.set_ids + b * sets for b, batch in enumerate(batches)])
        self.task_ids = torch.cat([batch.task_ids + b * tasks for b, batch in enumerate(batches)])
        self.mask = torch.cat([batch.mask for batch in batches])
        self.reward = reward
        agents = torch.cat([batch.agent_ids for batch in batches])
        # one event an episode, so an episode is its set
        self.advantages = set_relative_advantages(
            reward.flatten(), self.set_ids, self.set_ids, self.task_ids, agent_ids=agents
        )
        size = torch.bincount(self.set_ids)[self.set_ids]
        weights = event_weights(self.set_ids, reduction=variant.reduction, response_lengths=self.mask.sum(1))
        self.share = (1 / size).view(self.seeds, self.rows)
        total = (weights.view(self.seeds, self.rows) * self.share).sum(1, keepdim=True)
        self.weights = (weights.view(self.seeds, self.rows) / total).float()  # each seed's sets add up to 1

    def loss(self, log_prob: Tensor, old_log_prob: Tensor) -> Tensor:
        """Sum over the seeds of each one's loss; the seeds share no parameter, so each gets its own gradient."""
        return self._srpo_loss(log_prob.flatten(0, 1), old_log_prob.flatten(0, 1), slice(None))[0]

    def clip_fractions(self, log_prob: Tensor, old_log_prob: Tensor) -> Tensor:
        """Clipped share of each seed's units, (B,)."""
        fractions = []
        for b in range(self.seeds):
            rows = slice(b * self.rows, (b + 1) * self.rows)
            _, metrics = self._srpo_loss(log_prob[b].detach(), old_log_prob[b], rows)
            fractions.append(metrics["clip_fraction_low"] + metrics["clip_fraction_high"])
        return torch.tensor(fractions)

    def episode_reward(self) -> Tensor:
        """Mean reward over each seed's episodes, (B,): a set counts once, whatever its size."""
        return (self.reward * self.share).sum(1) / self.share.sum(1)

    def _srpo_loss(self, log_prob: Tensor, old_log_prob: Tensor, rows: slice):
        variant = self.variant
        return srpo_loss(
            log_prob,
            old_log_prob,
            self.mask[rows],
            self.set_ids[rows],
            self.advantages[rows],
            clip_low=variant.clip,
            clip_high=variant.clip,
            unit=variant.unit,
            member_norm=variant.member_norm,
            cardinality_norm=variant.cardinality_norm,
            weights=self.weights.flatten()[rows],
        )


def scale_gradients(policies: Policies, largest: float) -> Tensor:
    """Scale each seed's gradient down to the norm ``largest``; returns the norms before, (B,)."""
    gradients = [parameter.grad for parameter in policies.parameters() if parameter.grad is not None]
    norm = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0).sqrt()
    scale = (largest / norm.clamp(min=1e-12)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(scale.view(-1, *[1] * (gradient.dim() - 1)))
    return norm


def final_score(curves: Curves, share: float = 0.1) -> float:
    """Mean reward over the last tenth of the steps."""
    last = max(1, round(share * len(curves.reward)))
    return math.fsum(curves.reward[-last:]) / last
