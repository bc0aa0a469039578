"""The console script `verl-srpo`: one subcommand a package, loaded only when it is asked for."""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys

COMMANDS = (
    "verl_srpo.check.command",
    "verl_srpo.rollout.command",
    "verl_srpo.retrieval.command",
    "verl_srpo.evaluation.command",
    "verl_srpo.reports.command",
    "verl_srpo.lab.command",
)


def build_parser() -> argparse.ArgumentParser:
    """The parser with every subcommand; command modules import nothing heavy."""
    parser = argparse.ArgumentParser(prog="verl-srpo", description="SRPO for teams of LLM agents.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name in COMMANDS:
        importlib.import_module(name).add_parsers(subparsers)
    return parser


def main(argv: list[str] | None = None) -> int:
    """Runs one subcommand; errors that a user can mend are printed as one line, exit status 2."""
    args = build_parser().parse_args(argv)
    try:
        return args.run(args)
    except (ValueError, FileNotFoundError) as error:
        print(f"verl-srpo {args.command}: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
