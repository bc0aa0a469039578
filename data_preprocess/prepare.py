"""What prepare_math.py and prepare_search.py share: the command line, deduplication, the files and the manifest."""

import argparse
import hashlib
import sys
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from data_preprocess.converters import SEARCH_PREFIX, Example, Refused
from data_preprocess.reading import Rows, SourceError, read_rows
from data_preprocess.report import Report
from data_preprocess.sources import Source
from data_preprocess.writing import ParquetOut, sha256, write_json

SPLITS = ("train", "test")
_PROGRESS_STEP = 256
Requests = Mapping[str, list[tuple[str, Path | None]]]  # split -> names, each with a local path or None for the hub


@dataclass(frozen=True)
class Task:
    """One kind of data: its sources, and how an example becomes verl's columns."""

    sources: Mapping[str, Source]
    schema: pa.Schema
    ability: str
    ground_truth: Callable[[Any], Any]  # the example's truth -> what stands in reward_model


@dataclass(frozen=True)
class Options:
    """What decides the output beside the data."""

    instruction: str = ""
    sample: int = 50
    seed: int = 0
    only: Mapping[str, Collection[str]] = field(default_factory=dict)  # split -> sets, where not all are wanted


class Preparation:
    """Converts the test sets, then the training sets without the prompts of the former."""

    def __init__(self, task: Task, options: Options, progress: Progress):
        self.task, self.options, self.progress = task, options, progress
        self.reports: list[Report] = []
        self._seen: dict[str, dict[bytes, bytes]] = {split: {} for split in SPLITS}  # prompt (in its set) -> truth
        self._test_prompts: set[bytes] = set()

    def run(self, requests: Requests, out: Path) -> dict[Path, int]:
        """Writes a file for each split that is asked for and the sample of the test rows; all of them or none.

        Returns:
            The files and their numbers of rows.

        Raises:
            SourceError: a source cannot be read, all rows of one are refused, or nothing is left of a split.
        """
        out.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:

            def open_file(name: str) -> ParquetOut:
                return stack.enter_context(ParquetOut(out / name, self.task.schema))

            files = []
            if requests["test"]:
                files += [open_file("test.parquet"), open_file("test_sample.parquet")]
                rows = list(self._rows("test", requests["test"]))
                files[0].write(rows)
                files[1].write(self._sample(rows))
            if requests["train"]:
                files.append(open_file("train.parquet"))
                files[-1].write(self._rows("train", requests["train"]))
        return {file.path: file.rows for file in files}

    def _rows(self, split: str, requests: list[tuple[str, Path | None]]) -> Iterator[dict[str, Any]]:
        index = 0
        for name, path in requests:
            source = self.task.sources[name]
            rows = read_rows(source, split, path)
            report = Report(name, split, rows.origin)
            self.reports.append(report)
            for number, example in self._examples(source, rows, report):
                if self._accept(example, report):
                    yield self._as_row(example, split, index, name, number)
                    index += 1
            if report.all_refused:
                columns = ", ".join(source.columns)
                raise SourceError(f"no row of {name} can be used. {report}. It is read from the columns {columns}")
        if index == 0:
            raise SourceError(f"nothing is left for {split}: " + "; ".join(map(str, self.reports)))

    def _examples(self, source: Source, rows: Rows, report: Report) -> Iterator[tuple[int, Example]]:
        bar = self.progress.add_task(f"{report.split} {source.name}", total=rows.total)
        for number, row in enumerate(rows):
            report.rows_read += 1
            try:
                if isinstance(row, Refused):
                    raise row
                yield number, source.convert(row)
            except Refused as reason:
                report.refuse(str(reason), number)
            if report.rows_read % _PROGRESS_STEP == 0:
                self.progress.update(bar, completed=report.rows_read)
        self.progress.update(bar, total=report.rows_read, completed=report.rows_read)

    def _accept(self, example: Example, report: Report) -> bool:
        """Whether the row is wanted and new. Counts it in any case."""
        split, data_set = report.split, example.data_source or report.source
        wanted = self.options.only.get(split)
        if wanted and data_set.removeprefix(SEARCH_PREFIX) not in wanted:
            report.left_out[data_set] += 1
            return False
        prompt, truth = _digest(" ".join(example.question.split())), _digest(repr(example.truth))
        if split == "train" and prompt in self._test_prompts:
            report.same_prompt_in_test += 1
            return False
        # a question may stand in two test sets, which are scored apart, but in training it counts once
        seen, key = self._seen[split], prompt if split == "train" else prompt + data_set.encode()
        if key in seen:
            report.duplicates += 1
            report.duplicates_with_another_answer += seen[key] != truth
            return False
        seen[key] = truth
        if split == "test":
            self._test_prompts.add(prompt)
        report.rows_written[data_set] += 1
        return True

    def _as_row(self, example: Example, split: str, index: int, source: str, number: int) -> dict[str, Any]:
        instruction = f"\n\n{self.options.instruction}" if self.options.instruction else ""
        return {
            "data_source": example.data_source or source,
            "prompt": [{"role": "user", "content": example.question + instruction}],
            "ability": self.task.ability,
            "reward_model": {"style": "rule", "ground_truth": self.task.ground_truth(example.truth)},
            "extra_info": {
                "split": split,
                "index": index,
                "source": source,
                "row": number,
                "id": example.id,
                "question": example.question,
                "answer": example.answer,
            },
        }

    def _sample(self, rows: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
        """Up to `sample` rows of each data set: those whose seeded hash is smallest, in the order of the file."""
        by_set: dict[str, list[tuple[bytes, int]]] = {}
        for position, row in enumerate(rows):
            rank = _digest(f"{self.options.seed}\n{row['extra_info']['question']}")
            by_set.setdefault(row["data_source"], []).append((rank, position))
        chosen = sorted(position for ranked in by_set.values() for _, position in sorted(ranked)[: self.options.sample])
        return (rows[position] for position in chosen)


def main(task: Task, description: str, arguments: list[str] | None, set_names: Collection[str] = ()) -> int:
    """The command line of a preparation script; returns its exit code."""
    args = _parse(task, description, arguments, set_names)
    requests = {split: [_request(item) for item in getattr(args, split)] for split in SPLITS}
    only = {split: names for split in SPLITS if (names := getattr(args, f"{split}_only", None))}
    options = Options(args.instruction, args.sample, args.seed, only)
    out = args.out.expanduser()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=Console(stderr=True)) as progress:
            preparation = Preparation(task, options, progress)
            files = preparation.run(requests, out)
    except SourceError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    manifest = {
        "files": {path.name: {"rows": rows, "sha256": sha256(path)} for path, rows in files.items()},
        "options": {
            "instruction": options.instruction,
            "sample": options.sample,
            "seed": options.seed,
            "only": {split: sorted(names) for split, names in only.items()},
        },
        "sources": [report.as_dict() for report in preparation.reports],
    }
    write_json(out / "manifest.json", manifest)
    print(*preparation.reports, *(f"{path}: {rows} rows" for path, rows in files.items()), sep="\n")
    return 0


def _parse(task: Task, description: str, arguments: list[str] | None, set_names: Collection[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    for split in SPLITS:
        serving = ", ".join(name for name, source in task.sources.items() if split in source.splits)
        parser.add_argument(
            f"--{split}",
            nargs="+",
            action="extend",
            default=[],
            metavar="NAME[=PATH]",
            help=f"{split} sets: {serving}; with =PATH a local file or folder instead of the hub's copy",
        )
        if set_names:
            parser.add_argument(
                f"--{split}-only", nargs="+", metavar="SET", choices=set_names, help="keep only these sets"
            )
    parser.add_argument("--out", required=True, type=Path, metavar="DIR", help="folder for the parquet files")
    parser.add_argument("--instruction", default="", help="text appended to every prompt (for single-agent training)")
    parser.add_argument("--sample", type=int, default=50, help="rows of each test set in test_sample.parquet")
    parser.add_argument("--seed", type=int, default=0, help="chooses the sampled test rows")
    args = parser.parse_args(arguments)
    if not args.train and not args.test:
        parser.error("give at least one of --train and --test")
    if args.sample < 1:
        parser.error(f"--sample must be at least 1, got {args.sample}")
    for name, _ in map(_request, args.train + args.test):
        if name not in task.sources:
            parser.error(f"unknown data set {name!r}; known: {', '.join(task.sources)}")
    return args


def _request(item: str) -> tuple[str, Path | None]:
    name, equals, path = item.partition("=")
    return name, Path(path).expanduser() if equals else None


def _digest(text: str) -> bytes:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
