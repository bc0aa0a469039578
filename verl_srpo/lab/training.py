"""Train the game's policies with the functions of ``verl_srpo.core``, several seeds at once."""

from dataclasses import dataclass, field

import torch
from torch import Tensor

from verl_srpo.core import event_weights, member_log_ratio, set_relative_advantages, set_statistics, srpo_loss

from .game import Batch, Game, convention, draw_batch, rewards
from .policy import Policies

_WARM_UP_STREAM = 1_000_000  # the warm-up draws its own tasks, so that it does not shift those of the training


@dataclass(frozen=True)
class Variant:
    """What a run trains and how; the names and defaults are those of ``srpo_loss`` and ``event_weights``.

    competence: before it is trained, a policy is taught ``game.convention`` until it gives its tokens this probability
    on average, as a language model comes to reinforcement learning with some skill; 0 leaves it as drawn. clip: ratios
    are clipped to [1 / (1 + clip), 1 + clip], which is even on the scale of log-ratios and goes beyond 1.
    """

    game: Game = field(default_factory=Game)
    unit: str = "set"
    member_norm: str = "sum"
    cardinality_norm: str = "sqrt"
    reduction: str = "event_mean"
    clip: float = 0.2
    competence: float = 0.7
    steps: int = 60
    epochs: int = 8
    learning_rate: float = 5e-3


@dataclass(frozen=True)
class Curves:
    """One seed's run.

    reward, gradient_norm, clip_fraction: a number a step; the gradient norm is the mean over the step's updates, the
    clip fraction is of units (sets, members or tokens) at the step's last update. By set size K: reward_by_size, the
    mean reward over the last tenth of the steps; spread, the variance of the set log-ratio, the variance of the member
    log-ratio and the mean pairwise covariance (eq. 5) at the last update of a step, averaged over the steps.
    """

    seed: int
    reward: list[float]
    gradient_norm: list[float]
    clip_fraction: list[float]
    reward_by_size: dict[int, float]
    spread: dict[int, list[float]]


def train(variant: Variant, seeds: list[int]) -> list[Curves]:
    """Train one policy for each seed; which seeds it is trained beside makes no difference, to rounding."""
    game = variant.game
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    policies = Policies(game, generators)
    warm_up(policies, variant, seeds)
    optimizer = torch.optim.Adam(policies.parameters(), lr=variant.learning_rate)
    history, by_size, spreads = [], [], []
    for _ in range(variant.steps):
        batches = [draw_batch(game, generator) for generator in generators]
        tokens = policies.sample(batches, generators)
        reward = torch.stack([rewards(game, batch, said) for batch, said in zip(batches, tokens, strict=True)])
        step = Step(variant, batches, tokens, reward)
        with torch.no_grad():
            log_prob = old_log_prob = policies.log_prob(batches, tokens)
        norms = []
        for _ in range(variant.epochs):
            optimizer.zero_grad(set_to_none=True)
            log_prob = policies.log_prob(batches, tokens)
            step.loss(log_prob, old_log_prob).backward()
            norms.append(gradient_norms(policies))
            optimizer.step()
        clipped, spread = step.last_update(log_prob.detach(), old_log_prob)
        history.append(torch.stack([step.mean_reward(), torch.stack(norms).mean(0), clipped]))
        by_size.append(torch.stack([step.mean_reward(size) for size in game.set_sizes]))
        spreads.append(spread)
    curves = torch.stack(history, 2)  # (3, B, steps)
    last = torch.stack(by_size[-last_steps(variant.steps) :]).mean(0)  # (sizes, B)
    spread = torch.stack(spreads).mean(0)  # (B, sizes, 3)
    return [
        Curves(
            seed,
            *(curves[i, b].tolist() for i in range(3)),
            reward_by_size=dict(zip(game.set_sizes, last[:, b].tolist(), strict=True)),
            spread=dict(zip(game.set_sizes, spread[b].tolist(), strict=True)),
        )
        for b, seed in enumerate(seeds)
    ]


def warm_up(policies: Policies, variant: Variant, seeds: list[int], most_updates: int = 500) -> None:
    """Teach each policy the convention until its mean probability reaches ``variant.competence``."""
    generators = [torch.Generator().manual_seed(_WARM_UP_STREAM + seed) for seed in seeds]
    optimizer = torch.optim.Adam(policies.parameters(), lr=3e-3)
    lacking = torch.ones(len(seeds), dtype=torch.bool)
    for _ in range(most_updates):
        batches = [draw_batch(variant.game, generator) for generator in generators]
        log_prob = policies.log_prob(batches, torch.stack([convention(batch) for batch in batches]))
        mask = torch.stack([batch.mask for batch in batches])
        spoken = mask.sum((1, 2))
        lacking &= (log_prob.detach().exp() * mask).sum((1, 2)) / spoken < variant.competence
        if not lacking.any():
            return
        before = [parameter.detach().clone() for parameter in policies.parameters()]
        optimizer.zero_grad(set_to_none=True)
        (-(log_prob * mask).sum((1, 2)) / spoken).sum().backward()
        optimizer.step()
        with torch.no_grad():  # whoever is done stays as it is, however long the others take
            for parameter, old in zip(policies.parameters(), before, strict=True):
                parameter[~lacking] = old[~lacking]
    raise RuntimeError(f"a policy did not learn the convention to {variant.competence} in {most_updates} updates")


def last_steps(steps: int) -> int:
    """How many steps the last tenth of a run is."""
    return max(1, round(0.1 * steps))


class Step:
    """The batches of all seeds as one batch of rows; sets and tasks of different seeds have different numbers."""

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
        self.size = torch.bincount(self.set_ids)[self.set_ids].view(self.seeds, self.rows)
        weights = event_weights(self.set_ids, reduction=variant.reduction, response_lengths=self.mask.sum(1))
        self.share = 1 / self.size
        total = (weights.view(self.seeds, self.rows) * self.share).sum(1, keepdim=True)
        self.weights = (weights.view(self.seeds, self.rows) / total).float()  # each seed's sets add up to 1

    def loss(self, log_prob: Tensor, old_log_prob: Tensor) -> Tensor:
        """Sum over the seeds of each one's loss; the seeds share no parameter, so each gets its own gradient."""
        return self._srpo_loss(log_prob.flatten(0, 1), old_log_prob.flatten(0, 1), slice(None))[0]

    def last_update(self, log_prob: Tensor, old_log_prob: Tensor) -> tuple[Tensor, Tensor]:
        """Clipped share of each seed's units (B,), and its variances and covariance by set size (B, sizes, 3)."""
        clipped, spreads = [], []
        for b in range(self.seeds):
            rows = slice(b * self.rows, (b + 1) * self.rows)
            _, metrics = self._srpo_loss(log_prob[b], old_log_prob[b], rows)
            clipped.append(metrics["clip_fraction_low"] + metrics["clip_fraction_high"])
            members = member_log_ratio(
                log_prob[b], old_log_prob[b], self.mask[rows], member_norm=self.variant.member_norm
            )
            statistics = set_statistics(
                members, self.set_ids[rows], self.advantages[rows], cardinality_norm=self.variant.cardinality_norm
            )
            by_size = (statistics[size] for size in self.variant.game.set_sizes)
            spreads.append([[one.log_ratio_std**2, one.member_variance, one.pair_covariance] for one in by_size])
        return torch.tensor(clipped), torch.tensor(spreads)

    def mean_reward(self, set_size: int | None = None) -> Tensor:
        """Mean reward over each seed's episodes (B,), or over those of one set size: a set counts once."""
        share = self.share if set_size is None else self.share * (self.size == set_size)
        return (self.reward * share).sum(1) / share.sum(1)

    def _srpo_loss(self, log_prob: Tensor, old_log_prob: Tensor, rows: slice):
        variant = self.variant
        return srpo_loss(
            log_prob,
            old_log_prob,
            self.mask[rows],
            self.set_ids[rows],
            self.advantages[rows],
            clip_low=variant.clip / (1 + variant.clip),
            clip_high=variant.clip,
            unit=variant.unit,
            member_norm=variant.member_norm,
            cardinality_norm=variant.cardinality_norm,
            weights=self.weights.flatten()[rows],
        )


def gradient_norms(policies: Policies) -> Tensor:
    """Norm of each seed's gradient, (B,). It is not cut: Adam's steps do not depend on the gradient's scale, which the
    units that the study compares have by construction, and a cut would make it count again."""
    gradients = [parameter.grad for parameter in policies.parameters() if parameter.grad is not None]
    return torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0).sqrt()
