"""One line of a generations file, read: which question and episode it belongs to, how it scored, what it cost."""

import hashlib
import json
import math
import re
from dataclasses import dataclass, field
from typing import Any

COST_COLUMNS = ("team_tokens", "calls", "tool_calls", "wall_clock_s", "events", "mean_set_size")
QUALITY_COLUMNS = ("acc", "em", "f1")
SEARCH_COLUMNS = ("queries", "duplicate_queries", "evidence_has_gold")
NUMBER_COLUMNS = (*QUALITY_COLUMNS, *COST_COLUMNS, *SEARCH_COLUMNS)
ANSWER_KEYS = ("pred", "prediction", "extracted_answer")  # "answer" is the truth in many files
UNKNOWN_SOURCE = "unknown"

_VERL_UID = re.compile(r"(.+)_(\d+)_(\d+)")
_WORD = re.compile(r"\w+")
_SEARCH_TAG = re.compile(r"<search>(.*?)</search>", re.DOTALL)


@dataclass
class Record:
    """What evaluation keeps of one line.

    ``question`` identifies the question within its file, ``pairing`` the same question in another file; ``session``
    and ``index`` are the episode of the question and the row of the episode (None, 0 where a line is an episode of its
    own).
    """

    source: str
    question: str
    pairing: str
    session: int | None
    index: int
    step: int | None
    score: float
    answer: str | None
    numbers: dict[str, float] = field(default_factory=dict)
    searches: tuple[str, ...] = ()
    golds_in_input: int | None = None


class BadLine(ValueError):
    """A line that is no episode; the message is the reason, the same for all lines with the same fault."""


def parse_record(line: dict[str, Any]) -> Record:
    """Read one line, given as the object that its JSON holds.

    Three kinds are told apart by their keys. verl's validation dump (``gts`` and ``step``): one line a *row*, ``uid``
    = ``<task>_<session>_<index>``, every row of an episode with the episode's score. A transcript (``outcome_reward``
    and ``events``), as ``verl-srpo rollout --json`` writes them: one line an episode. Anything else: one line an
    episode, where lines with equal ``data_source`` and ``uid`` (or, without a ``uid``, equal ``input``) are samples of
    one question.

    Raises:
        BadLine: no score, a score that is not a number, or nothing that tells which question the line answers.
    """
    if "outcome_reward" in line and isinstance(line.get("events"), list):
        line = _from_transcript(line)
    score = _number(line.get("score"))
    if "score" not in line:
        raise BadLine("no 'score'")
    if math.isnan(score):
        raise BadLine("'score' is not a number")
    uid, session, index = line.get("uid"), None, 0
    question = str(uid) if uid is not None else None
    is_verl_row = "gts" in line and "step" in line
    if is_verl_row and question is not None and (match := _VERL_UID.fullmatch(question)):
        question, session, index = match[1], int(match[2]), int(match[3])
    if question is None:
        if not isinstance(line.get("input"), str):
            raise BadLine("neither 'uid' nor 'input' to tell the question")
        question = _digest(line["input"])
    source = line.get("data_source")
    output = line.get("output")
    output = output if isinstance(output, str) else ""
    step = _number(line.get("step"))
    known = {name: _number(line[name]) for name in NUMBER_COLUMNS if name in line}
    numbers = {name: value for name, value in known.items() if not math.isnan(value)}
    if "f1" in numbers and "acc" in numbers:  # search rewards: what makes an answer right there is the exact match
        numbers.setdefault("em", numbers["acc"])
    return Record(
        source=UNKNOWN_SOURCE if source is None else str(source),
        question=question,
        pairing=_pairing_key(line, question, is_verl_row),
        session=session,
        index=index,
        step=None if math.isnan(step) else int(step),
        score=score,
        answer=_answer(line, output),
        numbers=numbers,
        searches=tuple(" ".join(query.split()).lower() for query in _SEARCH_TAG.findall(output)),
        golds_in_input=_golds_in(line.get("input"), line.get("gts")),
    )


def _from_transcript(line: dict[str, Any]) -> dict[str, Any]:
    """A transcript's numbers under the names that a plain line has."""
    if line["outcome_reward"] is None:
        dropped = line.get("dropped")
        raise BadLine(f"an episode without a score, dropped: {dropped}" if dropped else "an episode without a score")
    said = [member for event in line["events"] for member in event.get("members", ())]
    return {
        **(line.get("info") or {}),
        **(line.get("costs") or {}),
        "data_source": line.get("data_source"),
        "uid": line.get("uid"),
        "question_id": line.get("question_id") or _digest(str(line.get("question"))),
        "score": line["outcome_reward"],
        "output": "\n".join(str(member.get("text", "")) for member in said),
    }


def _number(value: Any) -> float:
    """A finite float of a JSON number or boolean, else NaN."""
    if isinstance(value, (int, float)) and math.isfinite(value):
        return float(value)
    return math.nan


def _digest(text: str) -> str:
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()


def _pairing_key(line: dict[str, Any], question: str, is_verl_row: bool) -> str:
    """What a question is called in every run: verl draws new uids at each validation, so its content has to do."""
    if line.get("question_id") is not None:
        return str(line["question_id"])
    if is_verl_row and isinstance(line.get("input"), str):
        return _digest(line["input"] + "\0" + json.dumps(line["gts"], sort_keys=True, default=str))
    return question


def _golds_in(text: Any, truth: Any) -> int | None:
    """How often a search question's gold answers stand in a prompt, as whole words; None for other questions."""
    golds = truth.get("target") if isinstance(truth, dict) else None
    if not golds or not isinstance(text, str):
        return None
    words = _words(text)
    return sum(words.count(gold) for gold in {_words(str(g)) for g in (golds if isinstance(golds, list) else [golds])})


def _words(text: str) -> str:
    """Lower-case words between single spaces, with a space at both ends."""
    return f" {' '.join(_WORD.findall(text.lower()))} "


def _answer(line: dict[str, Any], output: str) -> str | None:
    """The answer that votes in majority@k: the scorer's own extraction if it is kept, else the last ``\\boxed{}``."""
    for key in ANSWER_KEYS:
        if key in line:
            return None if line[key] is None else _normal_form(str(line[key]))
    return _normal_form(last_boxed(output))


def _normal_form(answer: str | None) -> str | None:
    """Spelling differences that no grader cares about: spaces, dollar signs, a final full stop, case."""
    if answer is None:
        return None
    return re.sub(r"[\s$]+", "", answer).rstrip(".").lower() or None


def last_boxed(text: str) -> str | None:
    """Content of the last ``\\boxed{...}`` of a text, nested braces included; None without a closed one."""
    start = text.rfind("\\boxed{")
    while start >= 0:
        depth = 0
        for position in range(start + len("\\boxed"), len(text)):
            depth += {"{": 1, "}": -1}.get(text[position], 0)
            if depth == 0:
                return text[start + len("\\boxed{") : position]
        start = text.rfind("\\boxed{", 0, start)
    return None
