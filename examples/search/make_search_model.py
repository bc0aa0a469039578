"""Makes the search quickstart's model: 0.7 million parameters, its own tokenizer, warmed up by the teacher.

python examples/search/make_search_model.py OUT [--seed 0]
"""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import torch
from make_model import IGNORE, Z_LOSS, batch_of, encode
from make_model import make_tokenizer as quickstart_tokenizer
from searching_teacher import CARELESS, lessons
from transformers import PreTrainedTokenizerFast, Qwen3Config, Qwen3ForCausalLM
from transformers.utils.logging import disable_progress_bar

from verl_srpo.retrieval import open_retriever
from verl_srpo.retrieval.world import WorldSettings, make_world
from verl_srpo.retrieval.world_files import write_world

CONTEXT = 256
WORLDS = 5
BATCH_SIZE = 16
Lesson = tuple[list[dict], str]


def make_tokenizer(texts: list[str]) -> PreTrainedTokenizerFast:
    """Byte-level BPE that merges nothing across words, so that a name has the same tokens wherever it is copied to."""
    return quickstart_tokenizer(texts, 2048, apart=r" ?[A-Za-z]+| ?\d+|[^ A-Za-z\d]+| ", context=CONTEXT)


def make_model(tokenizer: PreTrainedTokenizerFast, seed: int) -> Qwen3ForCausalLM:
    torch.manual_seed(seed)
    config = Qwen3Config(
        vocab_size=len(tokenizer),  # exactly: else the rollout and the trainer normalise over different vocabularies
        hidden_size=128,
        intermediate_size=256,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        head_dim=32,  # the smallest that vLLM takes on a CPU
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=False,
        bos_token_id=None,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
    )
    return Qwen3ForCausalLM(config).float()


def warm_up(
    model, batches: Iterator[dict[str, torch.Tensor]], *, steps: int, learning_rate: float, prompt_weight: float = 0.0
) -> None:
    """Supervised training on `steps` batches; prints its loss.

    prompt_weight: of a prompt's token in the loss; a taught one has 1. Prompts repeat names as well, and so give
    more examples of copying than the lines do.
    """
    start = time.monotonic()
    optimizer = torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=learning_rate, total_steps=steps, pct_start=0.1)
    for step, batch in zip(range(1, steps + 1), batches, strict=False):
        labels = batch.pop("labels")[:, 1:]
        weight = torch.where(labels != IGNORE, 1.0, prompt_weight * batch["attention_mask"][:, 1:])
        counted = weight > 0  # logits only where there is something to learn: much of the cost is theirs
        hidden = model.model(**batch).last_hidden_state[:, :-1][counted]
        logits, weight = model.lm_head(hidden), weight[counted]
        loss = torch.nn.functional.cross_entropy(logits, batch["input_ids"][:, 1:][counted], reduction="none")
        loss = (loss * weight).sum() / weight.sum()
        # as in the other quickstart, for the same reason
        (loss + Z_LOSS * logits.logsumexp(-1).square().mean()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        if step % 100 == 0 or step == steps:
            print(f"    {step}/{steps}: loss {loss.item():.3f}, {time.monotonic() - start:.0f} s", flush=True)


def batches_of(lessons: list[Lesson], tokenizer, rng: random.Random) -> Iterator[dict[str, torch.Tensor]]:
    examples = [encode(tokenizer, *lesson) for lesson in lessons]
    while True:
        yield batch_of(rng.choices(examples, k=BATCH_SIZE), tokenizer.pad_token_id)


def draw_lessons(seeds: Iterable[int], count: int, *, careless: float) -> list[Lesson]:
    """The teacher's calls in `count` episodes of search/parallel in each of several worlds, on their own corpora."""
    drawn = []
    for seed in seeds:
        world = make_world(WorldSettings.level("easy", seed=seed, kinds=("one_hop",)))
        with tempfile.TemporaryDirectory() as folder:
            write_world(world, Path(folder))
            retriever = open_retriever(f"{folder}/corpus.jsonl", topk=1)
            drawn += lessons(world, {"retriever": retriever, "n": 2, "topk": 1}, count, careless=careless, seed=seed)
    return drawn


def is_query(lesson: Lesson) -> bool:
    return "<search>" in lesson[1]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output", type=Path)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    disable_progress_bar()
    # these matrices are too small to be shared, and a thread that waits for another costs time
    torch.set_num_threads(1)

    # other worlds than the one of the training, and so many names that copying them pays and knowing them does not
    seeds = range(1000 * (arguments.seed + 1), 1000 * (arguments.seed + 1) + WORLDS)
    careless = draw_lessons(seeds, 500, careless=CARELESS)
    attentive = draw_lessons(seeds, 500, careless=0.0)
    # what careless queries bring is what the reader has to cope with, in the attentive phase too
    attentive += [lesson for lesson in careless if not is_query(lesson)]
    texts = ["\n".join(m["content"] for m in messages) + "\n" + line for messages, line in careless]
    tokenizer = make_tokenizer([*texts, "system\nuser\nassistant"])
    model = make_model(tokenizer, arguments.seed)
    print(f"  {sum(p.numel() for p in model.parameters()):,} parameters, {len(tokenizer)} tokens")

    rng = random.Random(arguments.seed)
    print("  warm-up, the teacher attentive:")
    warm_up(model, batches_of(attentive, tokenizer, rng), steps=1600, learning_rate=3e-3, prompt_weight=0.3)
    print("  warm-up, the teacher careless:")
    warm_up(model, batches_of(careless, tokenizer, rng), steps=100, learning_rate=5e-4)
    model.save_pretrained(arguments.output)
    tokenizer.save_pretrained(arguments.output)


if __name__ == "__main__":
    main()
