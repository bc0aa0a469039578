"""Command line of `verl-srpo check`."""

from __future__ import annotations

import argparse
import json


def add_parsers(subparsers: argparse._SubParsersAction) -> None:
    parser = subparsers.add_parser("check", help="report from a fresh process whether SRPO is registered with verl")
    parser.add_argument("--json", action="store_true", help="print the report as JSON")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from verl_srpo.check.report import collect, render

    report = collect()
    if args.json:
        print(json.dumps(report.as_dict(), indent=2))
    else:
        render(report)
    return 0 if report.ready else 1
