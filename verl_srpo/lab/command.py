"""``verl-srpo lab``: run the study of set-level updates and write its page."""

import argparse

_DESCRIPTION = """\
Train a small cooperative token game with the functions of verl_srpo.core, in plain torch on the CPU, and write a page
that holds the paper's claims against what came out. The study resumes where it was stopped: finished runs are kept in
OUT/runs.jsonl.
"""


def add_parsers(subparsers: argparse._SubParsersAction) -> None:
    """Add the ``lab`` sub-command."""
    parser = subparsers.add_parser(
        "lab",
        help="check the paper's claims on a small game, on the CPU",
        description=_DESCRIPTION,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--out", default="lab", metavar="DIR", help="folder for finished runs (default: lab)")
    parser.add_argument("--docs", metavar="DIR", help="folder for evidence.md and figures/ (default: OUT)")
    parser.add_argument("--seeds", type=int, default=20, help="seeds a variant is reported over (default 20)")
    parser.add_argument("--tuning-seeds", type=int, default=10, help="other seeds, to choose clip ranges (default 10)")
    parser.add_argument("--part", action="append", choices=("a", "b", "c"), help="only this part; may be repeated")
    parser.add_argument("--workers", type=int, help="processes (default: one a core)")
    parser.add_argument("--quick", action="store_true", help="3 seeds and a fifth of the steps: a try, not evidence")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Run what is missing of the study, then write the page; the exit status of the command."""
    from .study import run_study

    return run_study(args)
