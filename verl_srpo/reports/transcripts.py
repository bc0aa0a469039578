"""A few episodes to read: transcripts where training wrote them, else the outputs in a validation dump."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from verl_srpo.evaluation.reading import json_lines

from .runs import Run

_LONGEST = 4000  # characters of one text that are shown


@dataclass(frozen=True)
class Said:
    """One output: who, what, and remarks such as "cut by its limit"."""

    agent: str
    text: str
    remarks: list[str]


@dataclass(frozen=True)
class Event:
    """One event: a heading (K, reward, return) and the outputs that it consumed."""

    heading: str
    members: list[Said]


@dataclass(frozen=True)
class Episode:
    """One episode as the report shows it. place: the file and step it is from; outcome: its score in words."""

    place: str
    question: str
    outcome: str
    events: list[Event]


def episodes_of(run: Run, count: int) -> list[Episode]:
    """Up to ``count`` episodes of the run's last step that has any; an empty list where nothing was written."""
    if not run.path.is_dir() or count < 1:
        return []
    folders = [path for depth in range(3) for path in run.path.glob("/".join([*["*"] * depth, "transcripts"]))]
    if file := _last_step(folders):
        return [_from_transcript(line, file) for line in _first_objects(file, count, "events")]
    dumps = {file.parent for depth in range(3) for file in run.path.glob("/".join([*["*"] * depth, "[0-9]*.jsonl"]))}
    if file := _last_step(sorted(dumps)):
        return _from_dump(file, count)
    return []


def _last_step(folders: list[Path]) -> Path | None:
    files = [file for folder in folders for file in folder.glob("*.jsonl") if file.stem.isdigit()]
    return max(files, key=lambda file: int(file.stem), default=None)


def _first_objects(file: Path, count: int, key: str) -> Iterator[dict]:
    lines = (line for _, line, _ in json_lines(file) if line is not None and key in line)
    for _, line in zip(range(count), lines, strict=False):
        yield line


def _from_transcript(line: dict, file: Path) -> Episode:
    events = []
    for event in line["events"]:
        heading = f"event {event.get('event')}, K = {event.get('set_size')}, reward {_number(event.get('reward'))}"
        if event.get("return") is not None:
            heading += f", return {_number(event['return'])}"
        if event.get("removed"):
            heading += f", removed: {event['removed']}"
        events.append(Event(heading, [_said(member) for member in event.get("members", ())]))
    unconsumed = [_said(output) for output in line.get("unconsumed", ())]
    if unconsumed:
        events.append(Event("consumed by no event, not trained on", unconsumed))
    outcome = f"outcome {_number(line.get('outcome_reward'))}, answer {_cut(str(line.get('answer')), 200)}"
    if line.get("dropped"):
        outcome = f"dropped, {line['dropped']}: {line.get('message', '')}"
    place = f"{file.parent.parent.name}, step {file.stem}, {line.get('workflow', '')}"
    return Episode(place, _cut(str(line.get("question", ""))), outcome, events)


def _said(member: dict) -> Said:
    remarks = [f"{member['response_tokens']} tokens"] if "response_tokens" in member else []
    remarks += ["cut by its limit"] if member.get("truncated") else []
    remarks += [f"malformed: {member['invalid']}"] if member.get("invalid") else []
    remarks += [f"failed: {member['failure']}"] if member.get("failure") else []
    return Said(str(member.get("output") or member.get("agent") or "?"), _cut(str(member.get("text", ""))), remarks)


def _from_dump(file: Path, count: int) -> list[Episode]:
    """Episodes of a validation or rollout dump: the rows of a uid's session, whose events are not in the file."""
    episodes: dict[str, list[dict]] = {}
    for _, line, _ in json_lines(file):
        if line is None or "output" not in line:
            continue
        key = str(line.get("uid", len(episodes))).rpartition("_")[0]
        if key not in episodes and len(episodes) == count:
            break  # verl sorts the rows of an episode together
        episodes.setdefault(key, []).append(line)
    return [
        Episode(
            f"{file.parent.name}, step {file.stem}",
            _cut(str(rows[0].get("input", ""))),
            f"score {_number(rows[-1].get('score'))}, truth {_cut(str(rows[-1].get('gts')), 200)}",
            [Event("outputs of the episode, in order", [Said("", _cut(str(row["output"])), []) for row in rows])],
        )
        for rows in episodes.values()
    ]


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, (int, float)) else "unknown"


def _cut(text: str, longest: int = _LONGEST) -> str:
    return text if len(text) <= longest else f"{text[:longest]} … ({len(text) - longest} more characters)"
