"""Makes what DRY_RUN=1 trains on: a tiny random model with its tokenizer, and a handful of tasks.

    python examples/dry_run.py math|search DIR

The data goes the way of real data: through data_preprocess, or from the self-made search world.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path

import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM

ROOT = Path(__file__).resolve().parents[1]
END_OF_TEXT, TURN_START, TURN_END = "<|endoftext|>", "<|im_start|>", "<|im_end|>"
CHAT_TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CONTEXT = 2048
TASKS = 16


def question(number: int) -> str:
    return f"What is {number} plus {7 * number % 13}?"


def make_model(folder: Path) -> None:
    """Qwen2 with 0.2 million random parameters; byte-level BPE, whose vocabulary is the model's."""
    bpe = Tokenizer(models.BPE())
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=512,
        special_tokens=[END_OF_TEXT, TURN_START, TURN_END],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    workflows = sorted((ROOT / "verl_srpo" / "workflows").glob("*.py"))  # where the agents' prompts stand
    bpe.train_from_iterator([path.read_text() for path in workflows], trainer)
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=bpe, eos_token=TURN_END, pad_token=END_OF_TEXT, model_max_length=CONTEXT
    )
    tokenizer.chat_template = CHAT_TEMPLATE
    tokenizer.save_pretrained(folder)
    torch.manual_seed(0)
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        max_position_embeddings=CONTEXT,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    Qwen2ForCausalLM(config).float().save_pretrained(folder)


def make_math(folder: Path) -> None:
    folder.mkdir()
    rows = [{"problem": question(i), "answer": i + 7 * i % 13} for i in range(2 * TASKS)]
    for name, part in (("train", rows[:TASKS]), ("test", rows[TASKS:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in part))
    script = ROOT / "data_preprocess" / "prepare_math.py"
    request = ["--train", f"deepscaler={folder}/train.jsonl", "--test", f"amc23={folder}/test.jsonl", "--sample", "4"]
    subprocess.run([sys.executable, script, *request, "--out", folder], check=True)


def make_search(folder: Path) -> None:
    sizes = {"people": 40, "companies": 10, "cities": 10, "books": 20, "train-questions": TASKS, "test-questions": 4}
    script = ROOT / "examples" / "search" / "make_world.py"
    numbers = [text for name, size in sizes.items() for text in (f"--{name}", str(size))]
    subprocess.run([sys.executable, script, "--out", folder, *numbers], check=True)
    shutil.copy(folder / "test.parquet", folder / "test_sample.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("kind", choices=("math", "search"))
    parser.add_argument("folder", type=Path)
    arguments = parser.parse_args()
    make_model(arguments.folder / "model")
    {"math": make_math, "search": make_search}[arguments.kind](arguments.folder / "data")


if __name__ == "__main__":
    main()
