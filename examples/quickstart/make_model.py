"""Makes the quickstart's model: about a million parameters, its own tokenizer, warmed up by the careless teacher."""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path

import torch
from problems import Problem, split
from teacher import lessons
from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils.logging import disable_progress_bar

END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTEXT = 512
IGNORE = -100
Z_LOSS = 1e-3


def make_tokenizer(
    texts: list[str], vocabulary: int = 768, *, apart: str = r"\d", context: int = CONTEXT
) -> PreTrainedTokenizerFast:
    """Byte-level BPE trained on `texts`; nothing is merged across a match of `apart`.

    By default every digit is a token of its own; whatever stands between digits may become one token, over spaces and
    line breaks too, which keeps the sequences of this tiny world short.
    """
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(apart), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    bpe.train_from_iterator(texts, trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=TURN_END, pad_token=END_OF_TEXT, model_max_length=context
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    return tokenizer


def make_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    """Randomly initialised; Qwen 3's architecture, since transformers forces Qwen 2's tokenizer upon a Qwen 2."""
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),  # exactly: else the rollout and the trainer normalise over different vocabularies
        hidden_size=160,
        intermediate_size=640,
        num_hidden_layers=2,  # with a third one, single precision sets rollout and trainer twice as far apart
        num_attention_heads=5,
        num_key_value_heads=5,
        head_dim=32,  # the smallest that vLLM takes on a CPU
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config).float()


def encode(tokenizer: PreTrainedTokenizerFast, messages: list[dict], line: str) -> tuple[list[int], list[int]]:
    """Token ids of a lesson, and its labels: the teacher's line and the end of his turn."""
    text = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    prompt = tokenizer(text, add_special_tokens=False)["input_ids"]
    response = [*tokenizer(line, add_special_tokens=False)["input_ids"], tokenizer.eos_token_id]
    return prompt + response, [IGNORE] * len(prompt) + response


def batch_of(examples: list[tuple[list[int], list[int]]], pad: int) -> dict[str, torch.Tensor]:
    length = max(len(ids) for ids, _ in examples)
    return {
        "input_ids": torch.tensor([ids + [pad] * (length - len(ids)) for ids, _ in examples]),
        "attention_mask": torch.tensor([[1] * len(ids) + [0] * (length - len(ids)) for ids, _ in examples]),
        "labels": torch.tensor([labels + [IGNORE] * (length - len(labels)) for _, labels in examples]),
    }


def warm_up(
    model, tokenizer, problems: list[Problem], *, workflow: str, steps: int, batch_size: int, seed: int
) -> None:
    """Supervised training on the teacher's lessons; prints its loss."""
    rng = random.Random(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=4e-3, total_steps=steps, pct_start=0.1)
    epoch: list = []
    start = time.monotonic()
    for step in range(1, steps + 1):
        if len(epoch) < batch_size:
            drawn = rng.choices(problems, k=20 * batch_size)
            epoch = [encode(tokenizer, *lesson) for lesson in lessons(workflow, drawn, rng.randrange(2**32))]
            rng.shuffle(epoch)
        batch, epoch = batch_of(epoch[:batch_size], tokenizer.pad_token_id), epoch[batch_size:]
        output = model(**batch)
        taught = output.logits[:, :-1][batch["labels"][:, 1:] != IGNORE]
        # Logits that are near log-probabilities lose no digits when a trainer subtracts their logsumexp: without this,
        # single precision alone sets rollout and trainer apart by up to 1e-5.
        loss = output.loss + Z_LOSS * taught.logsumexp(-1).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        if step % 20 == 0 or step == steps:
            print(f"  warm-up {step}/{steps}: loss {loss.item():.3f}, {time.monotonic() - start:.0f} s", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("output", type=Path)
    parser.add_argument("--workflow", default="math/debate", help="whose prompts the lessons use")
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()

    disable_progress_bar()
    train, _ = split(arguments.seed, test_size=100)
    sample = lessons(arguments.workflow, train[:500], arguments.seed)
    tokenizer = make_tokenizer(
        ["\n".join(m["content"] for m in messages) + "\n" + line for messages, line in sample]
        + ["system", "user", "assistant"]
    )
    model = make_model(tokenizer, arguments.seed)
    print(f"  {sum(p.numel() for p in model.parameters()):,} parameters, {len(tokenizer)} tokens")
    warm_up(
        model, tokenizer, train,
        workflow=arguments.workflow, steps=arguments.steps, batch_size=arguments.batch_size, seed=arguments.seed,
    )  # fmt: skip
    model.save_pretrained(arguments.output)
    tokenizer.save_pretrained(arguments.output)


if __name__ == "__main__":
    main()
