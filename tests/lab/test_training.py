"""Training uses the core as it is: gradients, weights, seeds."""

from dataclasses import replace

import pytest
import torch

from verl_srpo.lab.game import Game, draw_batch, rewards
from verl_srpo.lab.policy import Policies
from verl_srpo.lab.training import Step, Variant, gradient_norms, train, warm_up

torch.set_num_threads(1)
SMALL = Variant(Game((2,), tasks=4, rollouts=4), steps=6, epochs=2)


def gradients(variant, seeds=(0, 1)):
    """Gradients of the loss on fixed samples of an older policy; the drift makes some ratios clip."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    policies = Policies(variant.game, generators)
    batches = [draw_batch(variant.game, generator) for generator in generators]
    tokens = policies.sample(batches, generators)
    reward = torch.stack([rewards(variant.game, batch, said) for batch, said in zip(batches, tokens, strict=True)])
    step = Step(variant, batches, tokens, reward)
    log_prob = policies.log_prob(batches, tokens)
    drift = 0.1 * torch.randn(log_prob.shape, generator=torch.Generator().manual_seed(9))
    step.loss(log_prob, log_prob.detach() - drift).backward()
    return policies, [parameter.grad for parameter in policies.parameters()]


def equal(first, second):
    return all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@pytest.mark.parametrize("change", [{"unit": "member"}, {"cardinality_norm": "none"}, {"cardinality_norm": "mean"}])
@pytest.mark.parametrize("member_norm", ["sum", "mean"])
def test_at_k_1_set_and_member_and_the_three_norms_have_the_same_gradient(change, member_norm):
    alone = replace(SMALL, game=Game((1,), lengths=(2, 6)), member_norm=member_norm)
    _, reference = gradients(alone)
    _, changed = gradients(replace(alone, **change))
    assert max(gradient.abs().max() for gradient in reference) > 1e-3
    assert equal(reference, changed)


@pytest.mark.parametrize(
    "change", [{"unit": "member"}, {"unit": "token"}, {"cardinality_norm": "none"}, {"cardinality_norm": "mean"}]
)
def test_at_k_2_they_differ(change):
    _, reference = gradients(SMALL)
    _, changed = gradients(replace(SMALL, **change))
    assert not equal(reference, changed)


def test_each_seed_has_the_gradient_that_it_has_alone():
    both, together = gradients(SMALL, (3, 4))
    norms = gradient_norms(both)
    for b, seed in enumerate((3, 4)):
        generators = [torch.Generator().manual_seed(seed)]
        policies = Policies(SMALL.game, generators)
        batch = draw_batch(SMALL.game, generators[0])
        tokens = policies.sample([batch], generators)
        step = Step(SMALL, [batch], tokens, rewards(SMALL.game, batch, tokens[0])[None])
        log_prob = policies.log_prob([batch], tokens)
        drift = 0.1 * torch.randn((2, *log_prob.shape[1:]), generator=torch.Generator().manual_seed(9))[b : b + 1]
        step.loss(log_prob, log_prob.detach() - drift).backward()
        for alone, joined in zip(policies.parameters(), together, strict=True):
            torch.testing.assert_close(alone.grad[0], joined[b])
        torch.testing.assert_close(gradient_norms(policies)[0], norms[b])


def test_a_seed_does_not_depend_on_its_neighbours():
    alone = train(SMALL, [5])[0]
    beside = train(SMALL, [4, 5, 6])[1]
    assert beside.seed == 5
    assert beside.reward == pytest.approx(alone.reward, abs=1e-6)
    assert beside.gradient_norm == pytest.approx(alone.gradient_norm, rel=1e-3)
    assert beside.clip_fraction == pytest.approx(alone.clip_fraction, abs=1e-6)


@pytest.mark.parametrize("reduction", ["event_mean", "token_mean"])
def test_the_sets_of_each_seed_weigh_one_together(reduction):
    variant = replace(SMALL, game=Game((1, 2, 4, 8), lengths=(2, 10)), reduction=reduction)
    generators = [torch.Generator().manual_seed(seed) for seed in (0, 1)]
    batches = [draw_batch(variant.game, generator) for generator in generators]
    tokens = torch.zeros(2, len(batches[0].target), 10, dtype=torch.long)
    reward = torch.stack([rewards(variant.game, batch, said) for batch, said in zip(batches, tokens, strict=True)])
    step = Step(variant, batches, tokens, reward)
    torch.testing.assert_close((step.weights * step.share).sum(1), torch.ones(2))
    mask = torch.stack([batch.mask for batch in batches])
    for b, batch in enumerate(batches):
        spoken = torch.bincount(batch.set_ids, weights=mask[b].sum(1).double())[batch.set_ids]
        ratio = step.weights[b] / (spoken if reduction == "token_mean" else 1.0)
        assert ratio.std() / ratio.mean() < 1e-6


def test_the_warm_up_reaches_its_level_and_no_further():
    variant = Variant(Game((2,)), competence=0.6)
    policies = Policies(variant.game, [torch.Generator().manual_seed(seed) for seed in (0, 1)])
    warm_up(policies, variant, [0, 1])
    batches = [draw_batch(variant.game, torch.Generator().manual_seed(seed)) for seed in (7, 8)]
    from verl_srpo.lab.game import convention

    probability = policies.log_prob(batches, torch.stack([convention(batch) for batch in batches])).exp().mean((1, 2))
    assert probability.tolist() == pytest.approx([0.6, 0.6], abs=0.08)


def test_two_agents_learn():
    curves = train(Variant(Game((2,)), steps=30), [0, 1, 2])
    for one in curves:
        assert sum(one.reward[-3:]) / 3 > sum(one.reward[:3]) / 3 + 0.4
        assert one.spread[2][0] > 0
        assert one.reward_by_size[2] == pytest.approx(sum(one.reward[-3:]) / 3, abs=1e-6)
