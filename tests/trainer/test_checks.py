"""A setting of verl that contradicts SRPO is refused with both names and the way out."""

import pytest
from hydra import compose, initialize_config_module

from verl_srpo.config import SRPOSettings
from verl_srpo.trainer.checks import check_config, check_roster


def check(*overrides):
    with initialize_config_module("verl.trainer.config", version_base=None):
        # verl's default of one episode a task leaves nothing to compare
        config = compose("srpo_trainer", ["actor_rollout_ref.rollout.n=8", *overrides])
    check_config(config, SRPOSettings.from_config(config))


def test_verls_defaults_are_accepted():
    check()


ACTOR = "actor_rollout_ref.actor"
REFUSED = {
    "critic.enable=True": "critic.enable=True contradicts algorithm.adv_estimator=srpo: .* Set critic.enable=False",
    "algorithm.use_kl_in_reward=True": "algorithm.use_kl_in_reward=True .*use_kl_loss=True",
    f"{ACTOR}.policy_loss.loss_mode=gspo": r"policy_loss.loss_mode=gspo .*\+srpo=gspo",
    "algorithm.norm_adv_by_std_in_grpo=False": "norm_adv_by_std_in_grpo=False .* srpo.scale=none",
    "algorithm.rollout_correction.rollout_is=token": "rollout_is=token .* srpo.set_importance_threshold",
    "algorithm.rollout_correction.rollout_rs=seq_mean_k1": "rollout_rs=.* srpo.set_importance_threshold",
    f"{ACTOR}.loss_agg_mode=seq-mean-token-mean": "loss_agg_mode=seq-mean-token-mean .* choose srpo.event_reduction",
    f"{ACTOR}.loss_scale_factor=8": "loss_scale_factor=8 .* choose srpo.event_reduction",
    f"{ACTOR}.clip_ratio_c=10": "clip_ratio_c=10 .* clipped once",
    f"{ACTOR}.shuffle=True": "actor.shuffle=True .* tear sets",
    "trainer.critic_warmup=5": "critic_warmup=5 .* Leave it at 0",
    f"{ACTOR}.ppo_mini_batch_size=100": "ppo_mini_batch_size=100 .*train_batch_size=1024. Choose a divisor",
    "actor_rollout_ref.rollout.n=1": "rollout.n=1 .* every advantage is zero",
    "trainer.use_v1=False": "trainer.use_v1=False .* V0",
    "+actor_rollout_ref.rollout.agent.agent_loop_manager_class=my.Manager": "my.Manager .*srpo.workflow=null",
    "skip.rollout_tq.enable=True": "skip.rollout_tq.enable=True .* breaks sets",
    "reward.reward_model.enable=True": "enable_resource_pool=False .* Set it to True",
    "distillation.enabled=True": "distillation.enabled=True .* Set it to False",
    f"{ACTOR}.strategy=megatron": "actor.strategy=megatron .* Use actor_rollout_ref.actor.strategy=fsdp2",
    "trainer.v1.trainer_mode=separate_async": "separate_async contradicts .*backend=naive: .*mode=colocate_async",
    "trainer.v1.trainer_mode=sideways": "trainer_mode=sideways .* sync, colocate_async",
}


@pytest.mark.parametrize("override", REFUSED)
def test_contradictions_are_refused(override):
    with pytest.raises(ValueError, match=REFUSED[override]):
        check(override)


def check_agents(*overrides):
    from verl_srpo.rollout import build_workflow

    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("srpo_trainer", list(overrides))
    settings = SRPOSettings.from_config(config)
    check_roster(build_workflow(settings.workflow, {}, settings.agents)[1], config)


def test_a_greedy_agent_cannot_be_trained():
    with pytest.raises(ValueError, match=r"agent judge samples at temperature 0 .*validation.temperature=0"):
        check_agents("+srpo.agents.judge.temperature=0")
    check_agents("+srpo.agents.judge.validation.temperature=0")


def test_fused_kernels_take_one_temperature():
    with pytest.raises(ValueError, match=r"use_fused_kernels=True .*\{'judge': 0.5\}"):
        check_agents("+srpo.agents.judge.temperature=0.5", "actor_rollout_ref.model.use_fused_kernels=True")
    check_agents("+srpo.agents.judge.temperature=1.0", "actor_rollout_ref.model.use_fused_kernels=True")


def test_set_importance_and_bypass_exclude_each_other():
    with pytest.raises(ValueError, match=r"bypass_mode=True .*srpo.set_importance_threshold=2.0"):
        check(
            "srpo.set_importance_threshold=2.0",
            "algorithm.rollout_correction.bypass_mode=True",
            "actor_rollout_ref.rollout.calculate_log_probs=True",
        )


def test_set_importance_needs_rollout_log_probs():
    with pytest.raises(ValueError, match=r"needs the rollout's log-probs.*calculate_log_probs=True"):
        check("srpo.set_importance_threshold=2.0", "actor_rollout_ref.rollout.calculate_log_probs=False")


def test_other_scale_settles_the_contradiction():
    check("algorithm.norm_adv_by_std_in_grpo=False", "srpo.scale=none")


SEPARATE = ("trainer.v1.trainer_mode=separate_async", "actor_rollout_ref.rollout.checkpoint_engine.backend=nccl")


def test_separate_async_is_refused_where_its_checkpoint_engine_is_missing(monkeypatch):
    from verl.checkpoint_engine import CheckpointEngineRegistry

    monkeypatch.delitem(CheckpointEngineRegistry._registry, "nccl", raising=False)
    monkeypatch.setitem(CheckpointEngineRegistry._import_errors, "nccl_checkpoint_engine", "No module named 'cupy'")
    with pytest.raises(ValueError, match=r"backend=nccl, which is missing here: .*cupy.*mode=colocate_async"):
        check(*SEPARATE)
    monkeypatch.setitem(CheckpointEngineRegistry._registry, "nccl", object)
    check(*SEPARATE)


def test_the_loss_in_bypass_mode_is_srpos_too():
    correction = "algorithm.rollout_correction"
    with pytest.raises(ValueError, match=r"loss_type=reinforce contradicts .* Leave it at ppo_clip"):
        check(f"{correction}.bypass_mode=True", f"{correction}.loss_type=reinforce")
    check(f"{correction}.bypass_mode=True")
