"""An adapter of one policy: it reaches the rollout after each update, and comes back from a checkpoint."""

import pytest

from tests.e2e.jobs import ACTOR, run, srpo

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]


def test_field_report_20_the_adapter_reaches_the_rollout_and_the_checkpoint(toy, tmp_path):
    overrides = srpo(
        "actor_rollout_ref.model.lora_rank=8",
        "actor_rollout_ref.model.lora_alpha=16",
        "actor_rollout_ref.model.target_modules=all-linear",
        "actor_rollout_ref.model.lora.merge=True",
        f"{ACTOR}.optim.lr=1e-2",
        f"{ACTOR}.ppo_epochs=2",
        "trainer.save_freq=2",
    )
    job = run(tmp_path, toy, *overrides)
    resumed = run(tmp_path, toy, *overrides, "trainer.total_training_steps=4")
    assert "LoRA" in job.log or "lora" in job.log
    steps = resumed.steps
    assert [step["training/global_step"] for step in steps] == [1, 2, 3, 4]
    for step in steps:  # the rollout samples with the very weights that the trainer has, before and after the resume
        assert step["training/rollout_probs_diff_max"] < 1e-5
        assert step["actor/grad_norm"] > 0
    adapters = list((tmp_path / "checkpoints").rglob("adapter_model.safetensors"))
    assert adapters, sorted(str(p) for p in (tmp_path / "checkpoints").rglob("*"))
