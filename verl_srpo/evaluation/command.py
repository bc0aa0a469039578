"""``verl-srpo eval``: evaluate generation files from the command line."""

import argparse

_DESCRIPTION = """\
Evaluate the generations that a validation wrote (trainer.validation_data_dir), or any JSON-lines file with data_source,
uid and score: Avg@k, Pass@k, majority@k, exact match and F1 for each data set, micro and macro averages with intervals,
costs, and, with several runs, paired comparisons and a comparison at matched token budget.
"""
_EPILOG = """\
A run is PATH or NAME=PATH. Several seeds of a run are separated by commas, given again under the same NAME, or matched
by a pattern:
    verl-srpo eval grpo='runs/grpo-*/validation' srpo='runs/srpo-*/validation'
Exit status: 0 all evaluated, 1 a file was unusable and the rest was evaluated, 2 nothing could be evaluated.
"""


def add_parsers(subparsers: argparse._SubParsersAction) -> None:
    """Add the ``eval`` sub-command."""
    parser = subparsers.add_parser(
        "eval",
        help="evaluate generation files: accuracy with intervals, costs, comparisons",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "runs", nargs="+", metavar="[NAME=]PATH[,PATH]", help="JSON-lines file, or folder of <step>.jsonl"
    )
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--json", action="store_const", const="json", dest="form", help="print everything as JSON")
    form.add_argument("--csv", action="store_const", const="csv", dest="form", help="print one number a line")
    form.add_argument("--markdown", action="store_const", const="markdown", dest="form", help="print Markdown tables")
    parser.add_argument("--seeds", action="store_true", help="all paths are seeds of one run")
    parser.add_argument("--step", type=int, help="training step to evaluate (default: the last one there is)")
    parser.add_argument("--baseline", metavar="NAME", help="run that the others are compared with (default: the first)")
    parser.add_argument(
        "--metric",
        choices=("acc", "em", "f1", "score"),
        help="what makes a sample correct (default: acc, else em, else score)",
    )
    parser.add_argument(
        "--correct-at",
        type=float,
        default=0.5,
        metavar="X",
        help="a sample is correct from this value on (default 0.5)",
    )
    parser.add_argument(
        "--budget", type=int, action="append", metavar="TOKENS", help="token budget to compare at; may be repeated"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Evaluate and print; the exit status of the command."""
    import sys

    from rich.console import Console

    from . import rendering
    from .evaluate import evaluate
    from .reading import UnusableFile

    complaints = Console(stderr=True, soft_wrap=True, highlight=False, markup=False)
    try:
        with complaints.status("evaluating"):  # a spinner, on terminals only
            evaluation, unusable = evaluate(
                args.runs,
                one_run=args.seeds,
                step=args.step,
                baseline=args.baseline,
                metric=args.metric,
                threshold=args.correct_at,
                budgets=args.budget,
            )
    except UnusableFile as error:
        complaints.print(str(error), style="red")
        return 2
    for message in unusable:
        complaints.print(message, style="red")
    for note in evaluation.notes:
        complaints.print(f"note: {note}", style="yellow")
    if args.form is None:
        console = Console(markup=False, highlight=False)
        console.width = max(console.width, 80)  # narrower, numbers would break in two
        rendering.to_terminal(evaluation, console)
    else:
        show = {"json": rendering.to_json, "csv": rendering.to_csv, "markdown": rendering.to_markdown}[args.form]
        sys.stdout.write(show(evaluation).rstrip("\n") + "\n")
    return 1 if unusable else 0
