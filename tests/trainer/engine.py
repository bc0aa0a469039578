"""verl's FSDP2 engine on gloo with SRPO's training worker, without Ray: one process a rank, started by torchrun."""

from __future__ import annotations

import torch
import verl  # noqa: F401  # loads the plugin, which registers the CPU platform and its engines
from transformers import Qwen2Config, Qwen2ForCausalLM
from verl.trainer.config import CheckpointConfig
from verl.workers.config import FSDPEngineConfig, FSDPOptimizerConfig, HFModelConfig
from verl.workers.engine_workers import TrainingWorkerConfig

VOCABULARY = 48


def make_model(folder: str, *, hidden: int = 32, layers: int = 2) -> None:
    """A random Qwen2 without a tokenizer."""
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=VOCABULARY,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=False,
    )
    Qwen2ForCausalLM(config).float().save_pretrained(folder)


def build_worker(folder: str):
    """The worker, initialised; its learning rate is 0."""
    from verl_srpo.trainer.actor_worker import SRPOTrainingWorker

    model = HFModelConfig(
        path=folder,
        load_tokenizer=False,
        use_remove_padding=False,
        enable_gradient_checkpointing=False,
        override_config={"attn_implementation": "eager"},
    )
    precision = {"param_dtype": "fp32", "reduce_dtype": "fp32", "buffer_dtype": "fp32"}
    config = TrainingWorkerConfig(
        model_type="language_model",
        model_config=model,
        engine_config=FSDPEngineConfig(strategy="fsdp2", use_torch_compile=False, mixed_precision=precision),
        optimizer_config=FSDPOptimizerConfig(lr=0.0, clip_grad=1e9, total_training_steps=10),
        checkpoint_config=CheckpointConfig(),
    )
    worker = SRPOTrainingWorker(config)
    worker.reset()
    return worker
