"""The whole report: paths in, one page and its pictures out."""

import argparse
import datetime
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from verl_srpo.evaluation.arguments import seeds_of_runs

from .page import Page, picture, render
from .panels import all_charts
from .runs import Group, UnusableRun, read_run, without_seed
from .tables import differing_settings, summary
from .transcripts import episodes_of


def write_report(args: argparse.Namespace) -> int:
    """The ``report`` command: 0 all runs read, 1 a run was unusable and the rest is shown, 2 nothing could be read."""
    groups, unusable = read_groups(args.runs)
    for message in unusable:
        print(message, file=sys.stderr)
    if not groups:
        print("nothing to report on", file=sys.stderr)
        return 2
    notes = list(dict.fromkeys(note for group in groups for run in group.runs for note in run.notes))
    for note in notes:
        print(f"note: {note}", file=sys.stderr)
    out = Path(args.out)
    charts, pictures = [], {}
    for chart in all_charts(groups):
        charts.append(chart)
        pictures[chart.name] = picture(chart)
    settings = differing_settings(groups)
    page = Page(
        title=", ".join(group.name for group in groups),
        subtitle=f"Training report, {datetime.datetime.now():%Y-%m-%d %H:%M}. Lines: means over "
        "seeds, at the steps that all seeds have; bands: one sample deviation.",
        notes=[*unusable, *notes],
        summary=summary(groups, time.time()),
        charts=charts,
        settings=settings,
        settings_remark=_remark(groups, bool(settings[1])),
        episodes=_episodes(groups, args.transcripts),
    )
    out.mkdir(parents=True, exist_ok=True)
    for name, png in pictures.items():
        (out / f"{name}.png").write_bytes(png)
    (out / "report.html").write_text(render(page, pictures), encoding="utf-8")
    runs = sum(len(group.runs) for group in groups)
    charts_of = f"{len(charts)} charts of {runs} run{'' if runs == 1 else 's'}"
    print(f"{out / 'report.html'}: {charts_of}")
    return 1 if unusable else 0


def read_groups(arguments: Sequence[str]) -> tuple[list[Group], list[str]]:
    """Read the runs that the arguments name, as groups of seeds; and one message for each unusable path."""
    groups, unusable = [], []
    for name, paths in seeds_of_runs(arguments, common_name=without_seed).items():
        runs = []
        for path in paths:
            try:
                runs.append(read_run(path, name))
            except UnusableRun as error:
                unusable.append(str(error))
        if runs:
            groups.append(Group(name, runs))
    return groups, unusable


def _remark(groups: Sequence[Group], differ: bool) -> str:
    runs = [run for group in groups for run in group.runs]
    known = sum(bool(run.settings) for run in runs)
    if known == 0:
        return "No run keeps its settings beside its metrics (.hydra/config.yaml)."
    if len(runs) == 1:
        return "One run: nothing to compare with."
    said = "Settings that differ between the runs." if differ else "The runs' settings are all the same."
    return said if known == len(runs) else f"{said} {len(runs) - known} of {len(runs)} runs keep none and are left out."


def _episodes(groups: Sequence[Group], count: int):
    found = {group.name: [e for run in group.runs[:1] for e in episodes_of(run, count)] for group in groups}
    return {name: episodes for name, episodes in found.items() if episodes}
