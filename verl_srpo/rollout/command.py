"""`verl-srpo workflows`, `verl-srpo rollout` and `verl-srpo transcript`: what teams there are, and what they do."""

from __future__ import annotations

import argparse
import inspect
import json
import sys
from pathlib import Path
from typing import Any


def add_parsers(subparsers: argparse._SubParsersAction) -> None:
    """Add this package's subcommands."""
    parser = subparsers.add_parser("workflows", help="list the workflows: kind, agents, possible active sets, settings")
    parser.add_argument("--json", action="store_true", help="one JSON list instead of a table")
    parser.set_defaults(run=print_workflows)

    parser = subparsers.add_parser(
        "rollout",
        help="play episodes of a workflow with vLLM, without training, and print their transcripts",
        description="Play episodes with vLLM, without training: who said what, which event consumed what, rewards, K.",
    )
    parser.add_argument("workflow", help="registered name, or path/to/file.py:Class")
    parser.add_argument("--model", required=True, help="model folder or name")
    parser.add_argument("--data", required=True, type=Path, help="tasks in verl's form, .parquet or .jsonl")
    parser.add_argument("--tasks", type=int, default=2, help="how many of them (default 2)")
    parser.add_argument("--n", type=int, default=2, help="episodes of each task (default 2)")
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a setting of the workflow; VALUE is JSON or text",
    )
    parser.add_argument("--temperature", type=float, default=1.0)
    parser.add_argument("--max-tokens", type=int, default=256, help="for each call (default 256)")
    parser.add_argument("--context", type=int, default=4096, help="prompt and response together (default 4096)")
    parser.add_argument(
        "--reward", default="verl_srpo.rewards:compute_score", metavar="MODULE:FUNCTION", help="scores the answers"
    )
    parser.add_argument("--prompts", action="store_true", help="show what each agent was shown as well")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write JSON lines as well")
    parser.add_argument("--seed", type=int, default=0)
    parser.set_defaults(run=print_rollout)

    parser = subparsers.add_parser("transcript", help="print a file of transcripts (srpo.transcripts, rollout --json)")
    parser.add_argument("file", type=Path)
    parser.add_argument("--prompts", action="store_true", help="show what each agent was shown as well")
    parser.set_defaults(run=print_transcripts)


def describe_workflows() -> list[dict[str, Any]]:
    """Name, kind, agents, sets and settings with their defaults of every registered workflow."""
    from verl_srpo.rollout.registry import list_workflows

    rows: list[dict[str, Any]] = []
    for name, cls in list_workflows().items():
        parameters = inspect.signature(cls).parameters.values()
        settings = {p.name: p.default for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD}
        # a search team needs a retriever only once it plays
        workflow = cls(**({"retriever": _NoRetriever()} if "retriever" in settings else {}))
        rows.append(
            {
                "name": name,
                "kind": cls.kind,
                "agents": [agent.name for agent in workflow.agents],
                "sets": workflow.sets,
                "settings": settings,
            }
        )
    return rows


class _NoRetriever:
    """Stands in for a retriever where a workflow is only described."""

    async def search(self, queries: list[str], topk: int | None = None) -> list[list]:
        raise RuntimeError(f"no retriever to answer {queries} (topk={topk})")


def print_workflows(args: argparse.Namespace) -> int:
    rows = describe_workflows()
    if args.json:
        print(json.dumps(rows, indent=2))
        return 0
    from rich.console import Console
    from rich.table import Table

    table = Table("workflow", "kind", "agents", "active sets", "settings")
    for row in rows:
        shown = ", ".join(f"{key}={value}" for key, value in row["settings"].items())
        table.add_row(row["name"], row["kind"], ", ".join(row["agents"]), row["sets"], shown)
    Console().print(table)
    return 0


def workflow_settings(pairs: list[str]) -> dict[str, Any]:
    """`NAME=VALUE` pairs as settings; a value that is no JSON is a text."""
    settings = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise ValueError(f"--set {pair}: NAME=VALUE is expected")
        try:
            settings[name] = json.loads(value)
        except json.JSONDecodeError:
            settings[name] = value
    return settings


def print_rollout(args: argparse.Namespace) -> int:
    import asyncio

    from transformers import AutoTokenizer

    from verl_srpo.rollout.codec import TokenizerCodec
    from verl_srpo.rollout.generation import Limits
    from verl_srpo.rollout.local_vllm import LocalVLLM
    from verl_srpo.rollout.playing import load_function, read_tasks
    from verl_srpo.rollout.registry import build_workflow

    workflow, roster = build_workflow(args.workflow, workflow_settings(args.set))
    rows = read_tasks(args.data, args.tasks)
    reward = load_function(args.reward)
    codec = TokenizerCodec(AutoTokenizer.from_pretrained(args.model))
    limits = Limits(context=args.context, prompt=args.context - args.max_tokens, response=args.max_tokens)
    llm = LocalVLLM(args.model, context=args.context, seed=args.seed)
    try:
        asyncio.run(_print_episodes(args, workflow, roster, rows, llm, codec, limits, reward))
    finally:
        llm.close()
    return 0


async def _print_episodes(args, workflow, roster, rows, llm, codec, limits, reward) -> None:
    from collections import Counter

    from verl_srpo.rollout.playing import rollout
    from verl_srpo.rollout.transcript import as_line, as_text

    statistics: Counter[str] = Counter()
    records = []
    async for record in rollout(
        workflow,
        roster,
        rows,
        name=args.workflow,
        llm=llm,
        codec=codec,
        limits=limits,
        sampling={"temperature": args.temperature, "logprobs": True},
        n=args.n,
        reward=reward,
        statistics=statistics,
    ):
        print(as_text(record, prompts=args.prompts), flush=True)
        records.append(record)
    if args.json:
        args.json.write_text("".join(map(as_line, records)))
    scores = [record["outcome_reward"] for record in records if record["outcome_reward"] is not None]
    mean = f"mean outcome {sum(scores) / len(scores):.3f} of {len(scores)}" if scores else "nothing scored"
    prompt_tokens = max(1, statistics["prompt_tokens"])
    print(
        f"{len(records)} episodes, {mean}; {statistics['calls']} calls, {statistics['generated_tokens']} tokens; "
        f"prefix cache: {statistics['cached_prompt_tokens'] / prompt_tokens:.0%} of {prompt_tokens} prompt tokens"
    )


def print_transcripts(args: argparse.Namespace) -> int:
    from verl_srpo.rollout.transcript import as_text

    with args.file.open() as lines:
        for line in lines:
            sys.stdout.write(as_text(json.loads(line), prompts=args.prompts) + "\n")
    return 0
