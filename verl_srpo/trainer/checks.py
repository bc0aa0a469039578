"""Settings of verl that contradict SRPO are refused before anything is started, naming both sides and the way out."""

from __future__ import annotations

from omegaconf import OmegaConf

from verl_srpo.config import SRPOSettings

MANAGER = "verl_srpo.rollout.manager.SRPOAgentLoopManager"
STRATEGIES = ("fsdp", "fsdp2")
MODES = ("sync", "colocate_async", "separate_async")


_REDUCTION = "srpo.event_reduction says how sets are averaged", "Leave it out and choose srpo.event_reduction."
_WITHOUT_EFFECT = (
    ("loss_agg_mode", "token-mean", *_REDUCTION),
    ("loss_scale_factor", None, *_REDUCTION),
    ("clip_ratio_c", 3.0, "a set is clipped once (eq. 7), and a dual clip would be a second bound", "Leave it out."),
)
"""Options of verl's actor that would silently do nothing: name, verl's default, why, and the way out."""


def _refuse(option: str, value: object, because: str, instead: str) -> None:
    raise ValueError(f"{option}={value} contradicts algorithm.adv_estimator=srpo: {because}. {instead}")


def check_config(config, settings: SRPOSettings) -> None:
    """Raises ValueError for the first setting of verl that SRPO cannot honour.

    Args:
        config: verl's whole configuration, resolved or not.
        settings: the `srpo` section.
    """
    _check_objective(config, settings)
    _check_batches(config, settings)
    _check_rollout(config)
    _check_engine(config)


def check_roster(agents, config) -> None:
    """Raises ValueError for an agent whose outputs cannot be trained on as they are sampled.

    Args:
        agents: the workflow's roster with the overrides of `srpo.agents` applied.
        config: verl's whole configuration.
    """
    default = float(OmegaConf.select(config, "actor_rollout_ref.rollout.temperature"))
    temperatures = {a.name: default if a.sampling.temperature is None else a.sampling.temperature for a in agents}
    for name, temperature in temperatures.items():
        if temperature == 0:
            raise ValueError(
                f"agent {name} samples at temperature 0 in training: a greedy policy has no log-probs to learn from. "
                f"Use +srpo.agents.{name}.validation.temperature=0 for greedy validation"
            )
    fused = OmegaConf.select(config, "actor_rollout_ref.model.use_fused_kernels")
    differing = {name: t for name, t in temperatures.items() if abs(t - default) > 1e-6}
    if fused and differing:
        _refuse(
            "actor_rollout_ref.model.use_fused_kernels",
            True,
            f"its kernels take one temperature for all rows, and agents differ from rollout.temperature={default}: "
            f"{differing}",
            "Set it to False, or let all agents sample at the same temperature.",
        )


def _check_objective(config, settings: SRPOSettings) -> None:
    select = OmegaConf.select
    actor = "actor_rollout_ref.actor"
    if select(config, "critic.enable"):
        _refuse("critic.enable", True, "SRPO has no critic", "Set critic.enable=False or leave it out.")
    if select(config, "algorithm.use_kl_in_reward"):
        _refuse(
            "algorithm.use_kl_in_reward",
            True,
            "a per-token penalty in the reward has no place in a set's return",
            f"Use {actor}.use_kl_loss=True, whose terms take the sets' weights.",
        )
    if select(config, "trainer.critic_warmup", default=0):
        _refuse(
            "trainer.critic_warmup",
            config.trainer.critic_warmup,
            "its steps train a critic, which SRPO does not have, and nothing else",
            "Leave it at 0.",
        )
    loss_mode = select(config, f"{actor}.policy_loss.loss_mode") or "vanilla"
    if loss_mode not in ("vanilla", "srpo"):
        _refuse(
            f"{actor}.policy_loss.loss_mode",
            loss_mode,
            "the loss is SRPO's",
            "Leave it out; `+srpo=gspo` and `+srpo=grpo` are comparisons with other ratio units on the same sets.",
        )
    for name, stock, because, instead in _WITHOUT_EFFECT:
        value = select(config, f"{actor}.{name}", default=stock)
        if value != stock:
            _refuse(f"{actor}.{name}", value, because, instead)
    if not select(config, "algorithm.norm_adv_by_std_in_grpo", default=True) and settings.scale == "std":
        _refuse(
            "algorithm.norm_adv_by_std_in_grpo",
            False,
            "srpo.scale=std divides by the standard deviation",
            "Use srpo.scale=none instead.",
        )
    correction = select(config, "algorithm.rollout_correction") or {}
    for key in ("rollout_is", "rollout_rs"):
        if correction.get(key):
            _refuse(
                f"algorithm.rollout_correction.{key}",
                correction[key],
                "a weight per token or sequence does not fit one ratio per set",
                "Use srpo.set_importance_threshold=2.0, the truncated importance weight of the whole set.",
            )
    loss_type = correction.get("loss_type")
    if correction.get("bypass_mode") and loss_type not in (None, "ppo_clip"):
        _refuse("algorithm.rollout_correction.loss_type", loss_type, "the loss is SRPO's", "Leave it at ppo_clip.")
    if settings.set_importance_threshold is not None:
        if correction.get("bypass_mode"):
            _refuse(
                "algorithm.rollout_correction.bypass_mode",
                True,
                f"srpo.set_importance_threshold={settings.set_importance_threshold} corrects between recomputed and "
                "rollout log-probs, and bypass mode does not recompute them",
                "Drop one of the two.",
            )
        if not select(config, "actor_rollout_ref.rollout.calculate_log_probs"):
            raise ValueError(
                f"srpo.set_importance_threshold={settings.set_importance_threshold} needs the rollout's log-probs; set "
                "actor_rollout_ref.rollout.calculate_log_probs=True"
            )
    if select(config, f"{actor}.shuffle"):
        _refuse(
            f"{actor}.shuffle",
            True,
            "it shuffles rows on each rank and would tear sets over mini-batches",
            "Leave it False; set data.shuffle for another order of the tasks.",
        )


def _check_batches(config, settings: SRPOSettings) -> None:
    select = OmegaConf.select
    mini_batch = "actor_rollout_ref.actor.ppo_mini_batch_size"
    tasks, tasks_a_step = select(config, "data.train_batch_size"), select(config, mini_batch)
    if select(config, "trainer.v1.trainer_mode") != "separate_async" and tasks > tasks_a_step and tasks % tasks_a_step:
        _refuse(
            mini_batch,
            tasks_a_step,
            f"whole tasks go into each optimizer step, and it does not divide data.train_batch_size={tasks}",
            "Choose a divisor.",
        )
    n = "actor_rollout_ref.rollout.n"
    if select(config, n) == 1 and settings.advantage == "set_relative" and not select(config, "trainer.val_only"):
        _refuse(
            n,
            1,
            "a set's advantage compares episodes of one task, and with a single one every advantage is zero",
            "Set it to 2 or more; 8 is usual.",
        )


def _check_rollout(config) -> None:
    select = OmegaConf.select
    if not select(config, "trainer.use_v1", default=True):
        _refuse("trainer.use_v1", False, "the V0 trainer does not carry sets", "Leave it True.")
    manager = select(config, "actor_rollout_ref.rollout.agent.agent_loop_manager_class")
    if manager and manager != MANAGER:
        _refuse(
            "actor_rollout_ref.rollout.agent.agent_loop_manager_class",
            manager,
            f"rows get their set tags from {MANAGER}",
            "Leave it out; your own agent loops keep working under it (srpo.workflow=null).",
        )
    if select(config, "skip.rollout_tq.enable"):
        _refuse("skip.rollout_tq.enable", True, "it keeps rollout.n rows a task and so breaks sets", "Set it to False.")
    reward_model = "reward.reward_model"
    if select(config, f"{reward_model}.enable") and not select(config, f"{reward_model}.enable_resource_pool"):
        _refuse(
            f"{reward_model}.enable_resource_pool",
            False,
            "a colocated reward model scores every row after the rollout, not the team's answer",
            "Set it to True, or use a rule-based reward.",
        )
    if select(config, "distillation.enabled"):
        _refuse("distillation.enabled", True, "its loss works on rows without their sets", "Set it to False.")


def _check_engine(config) -> None:
    strategy = OmegaConf.select(config, "actor_rollout_ref.actor.strategy")
    if strategy not in STRATEGIES:
        _refuse(
            "actor_rollout_ref.actor.strategy",
            strategy,
            "a set's log-ratio needs every rank's log-probs before the backward pass, which is tested with "
            f"{' and '.join(STRATEGIES)} only (Megatron returns nothing off the last pipeline stage)",
            "Use actor_rollout_ref.actor.strategy=fsdp2.",
        )
    mode = OmegaConf.select(config, "trainer.v1.trainer_mode")
    if mode not in MODES:
        _refuse("trainer.v1.trainer_mode", mode, "there is no SRPO trainer of that mode", f"Known: {', '.join(MODES)}.")
    if mode == "separate_async":
        _check_checkpoint_engine(config)


def _check_checkpoint_engine(config) -> None:
    """verl would find out when actors and rollout servers have been started, hence minutes later."""
    from verl.checkpoint_engine import CheckpointEngineRegistry

    option = "actor_rollout_ref.rollout.checkpoint_engine.backend"
    backend = OmegaConf.select(config, option)
    way_out = "Choose another backend, or use trainer.v1.trainer_mode=colocate_async, which needs none."
    if backend == "naive":
        raise ValueError(
            f"trainer.v1.trainer_mode=separate_async contradicts {option}=naive: weights have to travel to rollout "
            f"servers of their own, which nccl, for one, does. {way_out}"
        )
    try:
        CheckpointEngineRegistry.get(backend)
    except ValueError as error:
        raise ValueError(
            f"trainer.v1.trainer_mode=separate_async needs {option}={backend}, which is missing here: {error}. "
            f"{way_out}"
        ) from error
