"""Where SRPO becomes a known method, value and gradient are those of verl's own function."""

import pytest
import torch
from hypothesis import strategies as st
from verl.trainer.ppo.core_algos import compute_grpo_outcome_advantage, get_policy_loss_fn
from verl.workers.config import ActorConfig, FSDPActorConfig

from tests.core.batches import Batch, for_all, make_batch, seeds
from verl_srpo.core import event_weights, set_relative_advantages, srpo_loss

LOW, HIGH = 0.2, 0.28


def actor_config() -> ActorConfig:
    # clip_ratio_c so large that the dual clip decides nothing
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        clip_ratio_low=LOW,
        clip_ratio_high=HIGH,
        clip_ratio_c=1e9,
    )


def batch_of(seed: int, largest_set: int) -> Batch:
    """Every row has response tokens (verl leaves rows without any out of its mean) and no garbage (verl multiplies)."""
    batch = make_batch(seed, tasks=4, largest_set=largest_set, padding=0, garbage=-1.0, spread=0.4)
    batch.response_mask[:, 0] = True
    return batch


def verl_loss(name: str, batch: Batch, mode: str) -> tuple[torch.Tensor, torch.Tensor]:
    batch = batch.with_gradient()
    per_token = batch.advantages[:, None].expand_as(batch.log_prob)
    mask = batch.response_mask.long()
    loss, _ = get_policy_loss_fn(name)(batch.old_log_prob, batch.log_prob, per_token, mask, mode, actor_config())
    return loss.detach(), torch.autograd.grad(loss, batch.log_prob)[0]


def our_loss(batch: Batch, **options) -> tuple[torch.Tensor, torch.Tensor]:
    batch = batch.with_gradient()
    loss, _ = srpo_loss(*batch.loss_arguments(), clip_low=LOW, clip_high=HIGH, **options)
    return loss.detach(), torch.autograd.grad(loss, batch.log_prob)[0]


# verl's mean over a row's tokens divides by (length + 1e-8), and weights are single precision
TOLERANCE = {"rtol": 1e-6, "atol": 2e-8}


@for_all(seed=seeds, unit=st.sampled_from(["set", "member"]), norm=st.sampled_from(["sqrt", "none", "mean"]))
def test_single_member_sets_with_mean_ratio_are_verls_gspo(seed, unit, norm):
    batch = batch_of(seed, largest_set=1)
    got = our_loss(batch, member_norm="mean", unit=unit, cardinality_norm=norm)
    for ours, theirs in zip(got, verl_loss("gspo", batch, "seq-mean-token-mean"), strict=True):
        torch.testing.assert_close(ours, theirs, **TOLERANCE)


@for_all(seed=seeds)
def test_token_unit_with_token_mean_is_verls_vanilla(seed):
    batch = batch_of(seed, largest_set=4)
    weights = event_weights(batch.set_ids, reduction="token_mean", response_lengths=batch.lengths)
    got = our_loss(batch, unit="token", weights=weights.double())
    for ours, theirs in zip(got, verl_loss("vanilla", batch, "token-mean"), strict=True):
        torch.testing.assert_close(ours, theirs, **TOLERANCE)


@for_all(seed=seeds)
def test_token_unit_of_single_member_sets_with_event_mean_is_verls_vanilla(seed):
    batch = batch_of(seed, largest_set=1)
    got = our_loss(batch, unit="token")
    for ours, theirs in zip(got, verl_loss("vanilla", batch, "seq-mean-token-mean"), strict=True):
        torch.testing.assert_close(ours, theirs, **TOLERANCE)


@pytest.mark.parametrize("name", ["gspo", "vanilla"])
def test_the_comparison_clips(name):
    # else the three tests above would compare unclipped expressions only
    batch = batch_of(0, largest_set=1)
    unit = "token" if name == "vanilla" else "set"
    _, metrics = srpo_loss(*batch.loss_arguments(), clip_low=LOW, clip_high=HIGH, member_norm="mean", unit=unit)
    assert metrics["clip_fraction_low"] > 0
    assert metrics["clip_fraction_high"] > 0


@for_all(seed=seeds, scale=st.sampled_from(["std", "none"]), rollouts=st.integers(2, 6))
def test_one_row_an_episode_under_task_scope_is_verls_grpo(seed, scale, rollouts):
    batch = make_batch(seed, tasks=4, episodes=rollouts, events=1, largest_set=1, padding=0)
    got = set_relative_advantages(
        batch.returns, batch.set_ids, batch.episode_ids, batch.task_ids, scope="task", scale=scale
    )
    rewards = torch.zeros(len(batch.returns), 3, dtype=torch.float64)
    rewards[:, 2] = batch.returns
    theirs, _ = compute_grpo_outcome_advantage(
        rewards, torch.ones(len(batch.returns), 3), batch.task_ids.numpy(), norm_adv_by_std_in_grpo=scale == "std"
    )
    # rollouts that all drew one return: verl divides 0 by epsilon, also 0
    torch.testing.assert_close(got, theirs[:, 0].double(), rtol=1e-6, atol=1e-9)
