"""A random tiny model and a handful of tasks in verl's schema: enough for a trainer to run on."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
TASKS = 32


def make_model(folder: Path) -> None:
    """0.2M random parameters, byte-level BPE, a chat template; the vocabulary is exactly the tokenizer's."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=300, special_tokens=special, initial_alphabet=alphabet)
    bpe.train_from_iterator([question(i) for i in range(TASKS)], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token="<|im_end|>", pad_token="<|endoftext|>", model_max_length=512
    )
    tokenizer.chat_template = TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=512,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen2ForCausalLM(config).float().save_pretrained(folder)


def question(i: int) -> str:
    return f"Task {i}: What is {i} plus {(7 * i) % 13}?"


def make_data(folder: Path) -> None:
    rows = [
        {
            "data_source": "openai/gsm8k",
            "prompt": [{"role": "user", "content": question(i)}],
            "ability": "math",
            "reward_model": {"style": "rule", "ground_truth": str(i + (7 * i) % 13)},
            "extra_info": {"split": "train", "index": i},
        }
        for i in range(TASKS)
    ]
    pd.DataFrame(rows).to_parquet(folder / "train.parquet")
    pd.DataFrame(rows[:8]).to_parquet(folder / "test.parquet")
    loops = ["srpo_workflow", "single_turn_agent"]
    mixed = [row | {"agent_name": loops[i % 2]} for i, row in enumerate(rows)]
    pd.DataFrame(mixed).to_parquet(folder / "some_other_loop.parquet")
