"""``verl-srpo report``: one page about one or several training runs."""

import argparse

_DESCRIPTION = """\
Read metrics.jsonl (verl's file logger) or TensorBoard event files of training runs and write one self-contained HTML
page and its charts as PNG files. Works while a run is going on and on damaged files, and says what it skipped.
"""
_EPILOG = """\
A run is PATH or NAME=PATH, a folder or a file; seeds of a run are separated by commas, given again under the same NAME,
or matched by a pattern. Without a NAME, folders whose names differ only in a final -seed<number> (or -s<number>) are
seeds of one run:
    verl-srpo report runs/srpo-seed1 runs/srpo-seed2 grpo='runs/grpo-*'
"""


def add_parsers(subparsers: argparse._SubParsersAction) -> None:
    """Add the ``report`` sub-command."""
    parser = subparsers.add_parser(
        "report",
        help="one HTML page about training runs",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("runs", nargs="+", metavar="[NAME=]RUN[,RUN]", help="run folder, metrics.jsonl or event file")
    parser.add_argument(
        "--out", default="report", metavar="DIR", help="folder for report.html and PNGs (default: report)"
    )
    parser.add_argument(
        "--transcripts", type=int, default=3, metavar="N", help="episodes to show of each run (default 3)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Write the report; the exit status of the command."""
    from .report import write_report

    return write_report(args)
