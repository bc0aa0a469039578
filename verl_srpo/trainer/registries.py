"""The name `srpo` in verl's registries of advantage estimators and policy losses.

The V1 trainer never calls either of them for SRPO, since both see rows without their sets. Whoever gets here took
another way (verl's V0 trainer, another trainer class, `policy_loss.loss_mode=srpo` with another estimator) and is told
the right one.
"""

ADVICE = (
    "SRPO needs the sets that rows belong to, which this code path does not carry. Run `python -m "
    "verl.trainer.main_ppo algorithm.adv_estimator=srpo` with verl's V1 trainer (trainer.use_v1=True) and leave "
    "actor_rollout_ref.actor.policy_loss.loss_mode at its default; `verl-srpo check` shows what is registered."
)


def _advantages(*args, **kwargs):
    raise ValueError(f"verl's generic advantage computation was called with adv_estimator=srpo. {ADVICE}")


def _policy_loss(*args, **kwargs):
    raise ValueError(f"verl's generic policy loss was called with loss_mode=srpo. {ADVICE}")


def register_names(core_algos) -> None:
    """Adds `srpo` to both registries of `verl.trainer.ppo.core_algos` where it is not there yet."""
    if "srpo" not in core_algos.ADV_ESTIMATOR_REGISTRY:
        core_algos.register_adv_est("srpo")(_advantages)
    if "srpo" not in core_algos.POLICY_LOSS_REGISTRY:
        core_algos.register_policy_loss("srpo")(_policy_loss)
