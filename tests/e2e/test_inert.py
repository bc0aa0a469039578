"""With another estimator verl behaves exactly as without the plugin."""

import pytest

from tests.e2e.jobs import run

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]


def test_stock_grpo_is_the_same_with_and_without_the_plugin(toy, tmp_path):
    """Only the CPU backend is loaded in the second run, which trains on the rows that the first has recorded."""
    steps = {}
    for plugins in ("auto", "srpo_cpu"):
        job = run(
            tmp_path / plugins,
            toy,
            "algorithm.adv_estimator=grpo",
            "trainer.total_training_steps=1",
            "actor_rollout_ref.actor.ppo_epochs=2",
            "data.shuffle=False",
            "skip.rollout_tq.enable=True",
            "skip.rollout_tq.steps=[1]",
            f"skip.rollout_tq.dump_dir={tmp_path}/rows",
            environment={"VERL_USE_EXTERNAL_PLUGINS": plugins},
        )
        (steps[plugins],) = job.steps
        assert "[SRPO]" not in job.log
    same = ("actor/pg_loss", "actor/grad_norm", "actor/entropy", "critic/score/mean", "response_length/mean")
    assert {k: steps["auto"][k] for k in same} == pytest.approx({k: steps["srpo_cpu"][k] for k in same}, rel=1e-6)
    assert steps["auto"]["actor/grad_norm"] > 0
    assert not [name for name in steps["auto"] if name.startswith("srpo/")]
