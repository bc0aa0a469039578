"""Final scores of a study's runs as Markdown tables: mean and sample deviation over seeds, differences seed by seed."""

from __future__ import annotations

import argparse
import datetime
import os
import platform
import re
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from metrics import Metrics, ends  # of the quickstart

from verl_srpo.evaluation import mean_interval
from verl_srpo.lab.page import STACK_BEGIN, STACK_END

LAST = 5  # steps that a run's final reward is the mean of

SECTION = """\
## The same questions on the real stack

`examples/study/run.sh` trains the quickstart's model of a million parameters (untrained where the workflow is
`demo/joint`) through verl's `main_ppo` (Ray, vLLM, FSDP2) under several [presets](presets.md): the same tasks, first
model, learning rate, clip range (verl's 0.2) and numbers of episodes, {steps} steps. Clip ranges are not tuned here,
and `gspo` and `grpo` differ from `srpo` in more than one setting. ± is the sample standard deviation over seeds; the
last column is the difference in the mean reward over the run, seed by seed, with its 95% Student interval. With so
few seeds an interval that holds zero says little.

{tables}
`STEPS={steps} bash examples/study/run.sh`, {date}, {machine}.{longer}
"""


@dataclass(frozen=True)
class Scores:
    """Of one run: training reward over all and over the last steps, validation before and after, variation of the
    gradient norm over all steps."""

    whole: float
    final: float
    before: float | None
    after: float | None
    variation: float
    ran: int  # steps of the run, of which these are the first


def scores(folder: Path, steps: int) -> Scores | None:
    """Scores of a run's first ``steps`` steps; None if it has not got so far."""
    logged = Metrics.read(folder / "metrics.jsonl")
    metrics = Metrics({step: values for step, values in logged.by_step.items() if step <= steps})
    rewards = [reward for _, reward in metrics.reward()]
    if steps not in metrics.by_step or not rewards:
        return None
    before, after = ends(metrics.validation()) or (None, None)
    norms = [norm for _, norm in metrics.curve("actor/grad_norm")]
    return Scores(
        whole=statistics.fmean(rewards),
        final=statistics.fmean(rewards[-LAST:]),
        before=before,
        after=after,
        variation=statistics.pstdev(norms) / statistics.fmean(norms),
        ran=max(logged.by_step),
    )


def by_seed(folder: Path, preset: str, steps: int) -> dict[int, Scores]:
    """Scores of a preset's finished runs."""
    found = {}
    for run in sorted(folder.glob(f"{preset}-seed*")):
        number = re.fullmatch(rf"{re.escape(preset)}-seed(\d+)", run.name)
        if number and (one := scores(run, steps)) is not None:
            found[int(number[1])] = one
    return dict(sorted(found.items()))


def table(workflow: str, folder: Path, presets: Sequence[str], steps: int) -> str:
    """One workflow's table; the presets are compared with the first."""
    runs = {preset: by_seed(folder, preset, steps) for preset in presets}
    base = runs[presets[0]]
    lines = [
        f"| `{workflow}` | seeds | validation before | after | reward, last {LAST} steps | reward over the run "
        f"| gradient norm, variation | minus `{presets[0]}` |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for preset, seeds in runs.items():
        if not seeds:
            continue
        cells = [
            ", ".join(map(str, seeds)),
            *(_spread([getattr(s, name) for s in seeds.values()]) for name in ("before", "after", "final", "whole")),
            _spread([s.variation for s in seeds.values()]),
            "" if preset == presets[0] else _difference(seeds, base),
        ]
        lines.append(f"| `{preset}` | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def longer_runs(folders: Sequence[Path], presets: Sequence[str], steps: int) -> str:
    """A sentence about runs that were taken further than the tables go; empty if there are none."""
    runs = [one for folder in folders for preset in presets for one in by_seed(folder, preset, steps).values()]
    longer = [one.ran for one in runs if one.ran > steps]
    return f" {len(longer)} of {len(runs)} runs went on, to at most {max(longer)} steps, and are cut." if longer else ""


def _spread(values: Sequence[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return ""
    deviation = f" ± {statistics.stdev(known):.3f}" if len(known) > 1 else ""
    return f"{statistics.fmean(known):.3f}{deviation}"


def _difference(seeds: dict[int, Scores], base: dict[int, Scores]) -> str:
    """Of the reward over the run, over the seeds that both have."""
    apart = [seeds[seed].whole - base[seed].whole for seed in seeds if seed in base]
    if len(apart) < 2:
        return f"{apart[0]:+.3f}" if apart else ""
    mean, low, high = mean_interval(apart)
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def put_into(page: Path, section: str) -> None:
    """Write the section into the page, in the place of the earlier one or at the end."""
    text = page.read_text(encoding="utf-8")
    begin, end = text.find(STACK_BEGIN), text.find(STACK_END)
    if not 0 <= begin < end:
        text, begin, end = f"{text}\n{STACK_BEGIN}{STACK_END}\n", len(text) + 1, len(text) + 1 + len(STACK_BEGIN)
    page.write_text(f"{text[:begin]}{STACK_BEGIN}\n{section}{text[end:]}", encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("workflows", nargs="+", metavar="NAME=DIR", help="a workflow and the folder of its runs")
    parser.add_argument("--presets", nargs="+", required=True, help="in the order of the rows")
    parser.add_argument("--steps", type=int, required=True, help="steps that a finished run has")
    parser.add_argument("--page", type=Path, help="write the tables into this page too")
    arguments = parser.parse_args()

    folders = {name: Path(folder) for name, _, folder in (argument.partition("=") for argument in arguments.workflows)}
    tables = [table(name, folder, arguments.presets, arguments.steps) for name, folder in folders.items()]
    print("\n".join(tables))
    if arguments.page:
        machine = f"{os.cpu_count()} cores ({platform.machine()}), no GPU used"
        section = SECTION.format(
            steps=arguments.steps,
            tables="\n".join(tables),
            date=datetime.date.today().isoformat(),
            machine=machine,
            longer=longer_runs(list(folders.values()), arguments.presets, arguments.steps),
        )
        put_into(arguments.page, section)


if __name__ == "__main__":
    main()
