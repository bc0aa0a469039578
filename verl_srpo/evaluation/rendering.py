"""One evaluation, four ways to show it: a terminal table, JSON, CSV and Markdown."""

import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass

from .comparison import BudgetCurves, Comparison
from .summary import Estimate, RunSummary, Summary

TITLES = {"avg": "Avg@k", "pass": "Pass@k", "majority": "Maj@k", "em": "EM", "f1": "F1"}
COST_TITLES = {
    "team_tokens": "team tokens an episode",
    "calls": "calls an episode",
    "tool_calls": "tool calls an episode",
    "events": "events an episode",
    "set_size": "mean set size",
    "output_length": "mean output length",
    "tokens_per_event": "set size x output length",
    "correct_per_million_tokens": "correct per million team tokens",
    "latency_p50": "latency p50 (s)",
    "latency_p95": "latency p95 (s)",
    "duplicate_query_rate": "duplicate queries",
    "evidence_coverage": "gold answer in the evidence",
}
_SHARES = {"duplicate_query_rate", "evidence_coverage"}


@dataclass(frozen=True)
class Evaluation:
    """Everything one call of ``verl-srpo eval`` found."""

    runs: list[RunSummary]
    comparisons: list[Comparison]
    budgets: BudgetCurves | None
    notes: list[str]


@dataclass(frozen=True)
class Table:
    """A titled table of strings; the first column names the row."""

    title: str
    header: list[str]
    rows: list[list[str]]
    caption: str = ""


def percent(estimate: Estimate | None) -> str:
    """``61.3 [58.0–64.4] ±0.5``: percent, interval over questions, sample deviation over seeds; what there is."""
    if estimate is None:
        return ""
    text = _points(estimate.mean)
    if not math.isnan(estimate.low):
        text += f" [{_points(estimate.low)}–{_points(estimate.high)}]"
    if not math.isnan(estimate.sd):
        text += f" ±{_points(estimate.sd)}"
    return text


def _points(share: float, sign: str = "") -> str:
    """A share in percent with one decimal, without a negative zero."""
    return f"{round(100 * share, 1) + 0.0:{sign}.1f}"


def tables_of(evaluation: Evaluation) -> Iterator[Table]:
    """The tables of an evaluation, in reading order."""
    for run in evaluation.runs:
        yield from _run_tables(run)
    if any(run.costs["all"] for run in evaluation.runs):
        yield _cost_table(evaluation.runs)
    for comparison in evaluation.comparisons:
        if comparison.differences:
            yield _comparison_table(comparison)
    if evaluation.budgets and evaluation.budgets.solved:
        yield _budget_table(evaluation.budgets)


def _run_tables(run: RunSummary) -> Iterator[Table]:
    parts: dict[str, Summary] = dict(run.data_sets)
    if len(parts) > 1:
        parts |= {"macro average": run.macro, "micro average": run.micro}
    present = [name for name in TITLES if any(name in summary.metrics for summary in parts.values())]
    at = {step for step in run.steps if step is not None}
    title = run.name + (f", step {', '.join(map(str, sorted(at)))}" if at else "")
    yield Table(
        title=title + (f", {run.seeds} seeds" if run.seeds > 1 else ""),
        header=["data set", "n", "k", *(TITLES[name] for name in present)],
        rows=[
            [
                name,
                str(summary.questions),
                str(summary.k) if summary.k else "mixed",
                *(percent(summary.metrics.get(metric)) for metric in present),
            ]
            for name, summary in parts.items()
        ],
        caption="n questions, k samples each; percent [95% interval over questions]"
        + (" ±sample deviation over seeds" if run.seeds > 1 else ""),
    )
    lengths = sorted({j for summary in run.data_sets.values() for j in summary.pass_curve})
    if len(lengths) > 1:
        yield Table(
            title=f"{run.name}: Pass@j, unbiased",
            header=["data set", *map(str, lengths)],
            rows=[
                [name, *(_points(s.pass_curve[j].mean) if j in s.pass_curve else "" for j in lengths)]
                for name, s in run.data_sets.items()
            ],
        )


def _cost_table(runs: Sequence[RunSummary]) -> Table:
    present = [name for name in COST_TITLES if any(name in run.costs["all"] for run in runs)]

    def cell(run: RunSummary, name: str) -> str:
        estimate = run.costs["all"].get(name)
        if estimate is None:
            return ""
        return percent(estimate) + "%" if name in _SHARES else _number(estimate.mean)

    return Table(
        title="cost, over all episodes",
        header=["", *(run.name for run in runs)],
        rows=[[COST_TITLES[name], *(cell(run, name) for run in runs)] for name in present],
    )


def _number(value: float) -> str:
    """Three significant digits below 100, whole numbers with thousands separators above."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _comparison_table(comparison: Comparison) -> Table:
    rows = [
        [
            f"{TITLES[metric]}, {source}",
            str(d.questions),
            _points(d.baseline),
            _points(d.candidate),
            f"{_points(d.difference, '+')} [{_points(d.low, '+')}, {_points(d.high, '+')}]",
            f"{d.better}/{d.worse}",
            f"{d.p_value:.4f}",
        ]
        for metric, by_source in comparison.differences.items()
        for source, d in by_source.items()
    ]
    return Table(
        title=f"{comparison.candidate} against {comparison.baseline}, on the same questions",
        header=["", "n", comparison.baseline, comparison.candidate, "difference", "better/worse", "p"],
        rows=rows,
        caption="percent points [95% interval of the paired difference]; p: two-sided sign-flip test",
    )


def _budget_table(curves: BudgetCurves) -> Table:
    return Table(
        title="questions solved within a token budget (macro)",
        header=["team tokens a question", *curves.solved],
        rows=[
            [f"{budget:,}", *(percent(estimates[i]) for estimates in curves.solved.values())]
            for i, budget in enumerate(curves.budgets)
        ],
        caption="samples taken in random order until the budget is used up",
    )


def to_terminal(evaluation: Evaluation, console) -> None:
    """Print the tables on a ``rich`` console; intervals and deviations go below their number, so that 80 columns do."""
    from rich import box
    from rich.table import Table as RichTable

    for table in tables_of(evaluation):
        shown = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for number, name in enumerate(table.header):
            justify = "right" if number else "left"
            shown.add_column(name, justify=justify, overflow="fold", min_width=0 if number else 10)
        for name, *numbers in table.rows:
            numbers = [cell.replace(" [", "\n").replace("]", "").replace(" ±", "\n±") for cell in numbers]
            shown.add_row(name, *numbers, style="bold" if name.startswith("macro") else None)
        console.print(table.title, style="bold")
        console.print(shown, end="")
        if table.caption:
            console.print(table.caption, style="dim")
        console.print()


def to_markdown(evaluation: Evaluation) -> str:
    """GitHub tables under a heading each, notes at the end."""
    parts = []
    for table in tables_of(evaluation):
        lines = [f"### {table.title}", "", _markdown_row(table.header)]
        lines.append("|" + "|".join(["---"] + ["---:"] * (len(table.header) - 1)) + "|")
        lines += [_markdown_row(row) for row in table.rows]
        parts.append("\n".join(lines + (["", table.caption] if table.caption else [])))
    if evaluation.notes:
        parts.append("### Notes\n\n" + "\n".join(f"- {note}" for note in evaluation.notes))
    return "\n\n".join(parts) + "\n"


def _markdown_row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def to_json(evaluation: Evaluation) -> str:
    """Everything, as one object; an unknown number is null."""
    return json.dumps(_without_nan(asdict(evaluation)), indent=2, ensure_ascii=False)


def _without_nan(value):
    if isinstance(value, dict):
        return {str(key): _without_nan(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def to_csv(evaluation: Evaluation) -> str:
    """Long format, one number a line: run, data set, metric, seed (empty: over seeds), value, low, high, sd."""
    buffer = io.StringIO()
    writer = csv.writer(buffer, lineterminator="\n")
    writer.writerow(["run", "data_source", "metric", "seed", "value", "low", "high", "sd"])
    for run, source, metric, estimate in _all_estimates(evaluation):
        numbers = (estimate.mean, estimate.low, estimate.high, estimate.sd)
        writer.writerow([run, source, metric, "", *("" if math.isnan(x) else repr(x) for x in numbers)])
        if len(estimate.seeds) > 1:
            writer.writerows([run, source, metric, i + 1, repr(x), "", "", ""] for i, x in enumerate(estimate.seeds))
    for comparison in evaluation.comparisons:
        name = f"{comparison.candidate} - {comparison.baseline}"
        for metric, by_source in comparison.differences.items():
            for source, d in by_source.items():
                writer.writerow([name, source, metric, "", repr(d.difference), repr(d.low), repr(d.high), ""])
    return buffer.getvalue()


def _all_estimates(evaluation: Evaluation) -> Iterator[tuple[str, str, str, Estimate]]:
    for run in evaluation.runs:
        for source, summary in {**run.data_sets, "macro": run.macro, "micro": run.micro}.items():
            yield from ((run.name, source, metric, estimate) for metric, estimate in summary.metrics.items())
            yield from ((run.name, source, f"pass@{j}", estimate) for j, estimate in summary.pass_curve.items())
        for source, costs in run.costs.items():
            yield from ((run.name, source, name, estimate) for name, estimate in costs.items())
    if evaluation.budgets:
        for run_name, estimates in evaluation.budgets.solved.items():
            for budget, estimate in zip(evaluation.budgets.budgets, estimates, strict=True):
                yield run_name, "macro", f"solved_within_{budget}_tokens", estimate
