"""Makes a small model that speaks every built-in workflow's tags, and tasks for it: enough to watch the teams at work.

    python benchmarks/team_model.py OUT [--steps 500]

The quickstart's careless teacher does the sums; for the search teams another one plays, who routes and judges at random
and whose queries and answers are copied words. OUT holds the model, math.parquet, search.parquet and corpus.jsonl.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import re
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from verl_srpo.retrieval import open_retriever
from verl_srpo.retrieval.world import Question, WorldSettings, make_world
from verl_srpo.retrieval.world_files import write_world
from verl_srpo.rollout import Agent, Output, Task, Team, build_workflow

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples" / "quickstart"))

import make_data  # noqa: E402
import make_model  # noqa: E402
from problems import split  # noqa: E402
from teacher import Rehearsal  # noqa: E402

SEARCH = {"topk": 1, "turns": 2}
TEAMS: dict[str, dict[str, Any]] = {
    "math/debate": {"n": 3},
    "math/solver_verifier": {},
    "math/team": {"routing": "adaptive"},
    "search/team": {"routing": "adaptive", **SEARCH},
    "search/hierarchical": SEARCH,
    "search/parallel": {"topk": 1},
}
"""What the lessons are drawn from; the other settings of these workflows show the same prompts."""
Lesson = tuple[list[dict], str]


def query(view: str, rng: random.Random) -> str:
    words = view.splitlines()[0].rstrip("?").split()
    asked = " ".join(words[-rng.randint(2, 4) :])
    return f"<think>look it up</think><search>{asked}</search>"


def answer(view: str, rng: random.Random) -> str:
    passages = re.findall(r"^\(\d+\) (.+?):", view, re.MULTILINE)
    return f"<think>read it</think><answer>{rng.choice(passages) if passages else 'unknown'}</answer>"


def route(view: str, rng: random.Random) -> str:
    searchers = int(re.search(r"from 1 to (\d+)", view)[1])
    chosen = sorted(rng.sample(range(1, searchers + 1), rng.randint(1, searchers)))
    return "<route>STOP</route>" if rng.random() < 0.15 else f"<route>{','.join(map(str, chosen))}</route>"


def verdict(view: str, rng: random.Random) -> str:
    return f"<verify>{'yes' if rng.random() < 0.4 else 'no'}</verify>"


ROLES: dict[str, Callable[[str, random.Random], str]] = {
    "router": route, "searcher": query, "writer": query, "verifier": verdict, "answerer": answer,
}  # fmt: skip


@dataclass
class SearchRehearsal:
    """Takes the model's place in an episode of a search team."""

    rng: random.Random

    async def fill(self, agent: Agent, output: Output) -> None:
        output.text = ROLES[agent.name.rstrip("0123456789")](output.messages[-1]["content"], self.rng)


async def lessons(name: str, settings: dict[str, Any], tasks: list, rng: random.Random) -> list[Lesson]:
    """Every call of one episode a task, in the workflow's own prompts; tasks are problems or the world's questions."""
    workflow, roster = build_workflow(name, settings)
    found = []
    for task in tasks:
        search = isinstance(task, Question)
        team = Team(roster, SearchRehearsal(rng) if search else Rehearsal(task, rng))
        text = task.text if search else task.question
        await workflow.run(Task(({"role": "user", "content": text},)), team)
        await team.close()
        found += [(output.messages, output.text) for output in team.outputs]
    return found


def draw(corpus: Path, questions: list[Question], seed: int) -> list[Lesson]:
    """Lessons of every team, shuffled."""
    rng, problems = random.Random(seed), split(seed, test_size=100)[0]
    drawn = []
    for name, settings in TEAMS.items():
        search = name.startswith("search/")
        settings = settings | ({"retriever": open_retriever(str(corpus), topk=1)} if search else {})
        tasks = rng.choices(questions if search else problems, k=400 if search else 800)
        drawn += asyncio.run(lessons(name, settings, tasks, rng))
    rng.shuffle(drawn)
    return drawn


def train(model, tokenizer, drawn: list[Lesson], *, steps: int, batch_size: int = 32, peak: float = 4e-3) -> None:
    """Supervised training on the lessons; prints its loss."""
    examples = [make_model.encode(tokenizer, *lesson) for lesson in drawn]
    optimizer = torch.optim.AdamW(model.parameters(), lr=peak, betas=(0.9, 0.98), weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=peak, total_steps=steps, pct_start=0.1)
    start = time.monotonic()
    for step in range(steps):
        chosen = [examples[(step * batch_size + i) % len(examples)] for i in range(batch_size)]
        batch = make_model.batch_of(chosen, tokenizer.pad_token_id)
        output = model(**batch)
        taught = output.logits[:, :-1][batch["labels"][:, 1:] != make_model.IGNORE]
        loss = output.loss + make_model.Z_LOSS * taught.logsumexp(-1).square().mean()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        schedule.step()
        if step % 50 == 49 or step == steps - 1:
            print(f"  {step + 1}/{steps}: loss {loss.item():.3f}, {time.monotonic() - start:.0f} s", flush=True)


def make(folder: Path, steps: int, seed: int = 0) -> None:
    """Data, lessons, model; about two minutes on two cores."""
    folder.mkdir(parents=True, exist_ok=True)
    make_data.write(folder, seed=seed, train_size=200, test_size=100)
    (folder / "train.parquet").rename(folder / "math.parquet")
    world = make_world(WorldSettings.level("easy", seed=seed, kinds=("one_hop", "two_hop")))
    write_world(world, folder)
    (folder / "train.parquet").rename(folder / "search.parquet")
    drawn = draw(folder / "corpus.jsonl", [q for q in world.questions if q.split == "train"], seed)
    texts = ["\n".join(m["content"] for m in messages) + "\n" + line for messages, line in drawn[:2000]]
    tokenizer = make_model.make_tokenizer([*texts, "system", "user", "assistant"], vocabulary=400)
    model = make_model.make_model(tokenizer, seed)
    print(f"  {len(drawn)} lessons, {sum(p.numel() for p in model.parameters()):,} parameters, {len(tokenizer)} tokens")
    train(model, tokenizer, drawn, steps=steps)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--steps", type=int, default=500)
    arguments = parser.parse_args()
    make(arguments.out, arguments.steps)


if __name__ == "__main__":
    main()
