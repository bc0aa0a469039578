"""An adapter of one policy: it reaches the rollout after each update, and comes back from a checkpoint."""

import pytest
import torch
from transformers import Qwen2ForCausalLM

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
    run(tmp_path, toy, *overrides)
    steps = run(tmp_path, toy, *overrides, "trainer.total_training_steps=4").steps
    assert [step["training/global_step"] for step in steps] == [1, 2, 3, 4]
    for step in steps:  # the rollout samples with the trainer's merged weights, before and after the resume
        assert step["training/rollout_probs_diff_max"] < 1e-4
        assert step["actor/grad_norm"] > 0
    second, fourth = adapter(tmp_path, 2), adapter(tmp_path, 4)
    assert second.keys() == fourth.keys() and any(name.endswith("lora_B.default.weight") for name in second)
    assert all((second[name] != fourth[name]).any() for name in second)
    before = Qwen2ForCausalLM.from_pretrained(toy).state_dict()
    frozen = state(tmp_path, 4)
    name = "model.layers.0.self_attn.q_proj"
    (base,) = [value for key, value in frozen.items() if key.endswith(f"{name}.base_layer.weight")]
    assert torch.equal(base, before[f"{name}.weight"])


def state(folder, step):
    saved = torch.load(
        folder / f"checkpoints/global_step_{step}/actor/model_world_size_1_rank_0.pt", weights_only=False
    )
    return {key: value.to_local() if hasattr(value, "to_local") else value for key, value in saved.items()}


def adapter(folder, step):
    return {key: value for key, value in state(folder, step).items() if "lora_" in key}
