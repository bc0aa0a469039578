"""`verl-srpo workflows`: what teams there are."""

from __future__ import annotations

import argparse
import inspect
import json


def add_parsers(subparsers: argparse._SubParsersAction) -> None:
    """Add this package's subcommands."""
    parser = subparsers.add_parser("workflows", help="list the workflows: kind, agents, possible active sets, settings")
    parser.add_argument("--json", action="store_true", help="one JSON list instead of a table")
    parser.set_defaults(run=print_workflows)


def describe_workflows() -> list[dict[str, object]]:
    """Name, kind, agents, sets and settings with their defaults of every registered workflow."""
    from verl_srpo.rollout.registry import list_workflows

    rows: list[dict[str, object]] = []
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
        settings = row["settings"]
        assert isinstance(settings, dict) and isinstance(row["agents"], list)
        shown = ", ".join(f"{key}={value}" for key, value in settings.items())
        table.add_row(str(row["name"]), str(row["kind"]), ", ".join(row["agents"]), str(row["sets"]), shown)
    Console(soft_wrap=False).print(table)
    return 0
