"""From one row of a source to a question and its gold answer, or a reason why not."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from verl_srpo.rewards.extraction import gold_answers, last_boxed

SEARCH_SETS = ("nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle")
SEARCH_PREFIX = "searchR1_"  # verl's own name for these sets, which its scorer expects

# answer-format instructions that the DAPO sets carry in every prompt; ours stand in the agents' prompts
_LEADING_INSTRUCTION = re.compile(
    r"\s*Solve the following math problem step by step\.\s*The last line of your response should be of the form "
    r"Answer:\s*\$?Answer \(without quotes\) where \$?Answer is the answer to the problem\.",
    re.IGNORECASE,
)
_TRAILING_INSTRUCTION = re.compile(
    r"(?:Remember to put your answer on its own line after \"Answer:\"\.?"
    r"|(?:\\n)*(?:Let'?s think|Please reason) step by step,?\s+and (?:output the|put your) final answer within "
    r"\\boxed\s*\{\s*\}\.?)\s*$",
    re.IGNORECASE,
)
_LONGEST_INSTRUCTION = 160  # only the end is searched for the trailing one


class Refused(ValueError):
    """The row is left out; the message is the reason, the same for every row that it concerns."""


@dataclass(frozen=True)
class Example:
    """One usable row.

    question: without instructions. truth: one answer (math) or all that are accepted (search).
    answer: as the source has it.
    data_source: where the rows of one source belong to several sets.
    """

    question: str
    truth: str | list[str]
    answer: str
    id: str = ""
    data_source: str | None = None


def gsm8k(row: Mapping[str, Any]) -> Example:
    """The worked answer ends in `#### 1,234`."""
    question, answer = _text(row, "question"), _text(row, "answer")
    if "####" not in answer:
        raise Refused("no '####' in answer")
    return Example(question, _math_truth(answer.rpartition("####")[2].replace(",", ""), "answer"), answer)


def boxed_solution(row: Mapping[str, Any]) -> Example:
    r"""The truth is the last `\boxed{}` of the solution."""
    question, solution = _text(row, "problem"), _text(row, "solution")
    boxed = last_boxed(solution)
    if boxed is None:
        raise Refused(r"no complete \boxed{} in solution")
    return Example(question, _math_truth(boxed, "solution"), solution, _id(row))


def problem_and_answer(row: Mapping[str, Any]) -> Example:
    """The answer stands in a column of its own, as text or as a number."""
    answer = _present(row, "answer")
    return Example(_text(row, "problem"), _math_truth(answer, "answer"), _as_text(answer), _id(row))


def verl_shaped(row: Mapping[str, Any]) -> Example:
    """One user message with an answer-format instruction, which is removed; the truth in `reward_model`."""
    messages = _plain(_present(row, "prompt"))
    if not isinstance(messages, list) or not all(isinstance(message, Mapping) for message in messages):
        raise Refused("prompt is no list of messages")
    contents = [message.get("content") for message in messages if message.get("role") == "user"]
    if len(contents) != 1 or len(messages) > 2:
        raise Refused("prompt is not one user message")
    question = _text({"prompt": contents[0]}, "prompt")
    question = without_instructions(question)
    if not question:
        raise Refused("prompt holds nothing but an instruction")
    truth = _nested_truth(row)
    return Example(question, _math_truth(truth, "ground_truth"), _as_text(truth), _id(row))


def without_instructions(prompt: str) -> str:
    """The bare problem of a DAPO prompt."""
    if match := _LEADING_INSTRUCTION.match(prompt):
        prompt = prompt[match.end() :]
    start = max(0, len(prompt) - _LONGEST_INSTRUCTION)
    if match := _TRAILING_INSTRUCTION.search(prompt, start):
        prompt = prompt[: match.start()]
    return prompt.strip()


def search_question(row: Mapping[str, Any]) -> Example:
    """A question with a list of accepted answers, of one of seven sets."""
    question = _text(row, "question")
    if not question.endswith("?"):
        question += "?"
    name = _text(row, "data_source").removeprefix(SEARCH_PREFIX)
    if name not in SEARCH_SETS:
        raise Refused(f"data_source is none of {', '.join(SEARCH_SETS)}")
    answers = row.get("golden_answers")
    try:
        golds = gold_answers(answers if answers is not None else _nested_truth(row))
    except Refused:
        raise
    except ValueError:
        raise Refused("golden_answers holds no answer") from None
    return Example(question, list(dict.fromkeys(golds)), golds[0], _id(row), SEARCH_PREFIX + name)


def _present(row: Mapping[str, Any], column: str) -> Any:
    if column not in row:
        raise Refused(f"no column {column}")
    if row[column] is None:
        raise Refused(f"{column} is null")
    return row[column]


def _text(row: Mapping[str, Any], column: str) -> str:
    value = _present(row, column)
    if not isinstance(value, str):
        raise Refused(f"{column} is {type(value).__name__}, not text")
    if not value.strip():
        raise Refused(f"{column} is empty")
    return value.strip()


def _nested_truth(row: Mapping[str, Any]) -> Any:
    reward_model = _present(row, "reward_model")
    if not isinstance(reward_model, Mapping) or reward_model.get("ground_truth") is None:
        raise Refused("reward_model has no ground_truth")
    return _plain(reward_model["ground_truth"])


def _math_truth(value: Any, column: str) -> str:
    value = _plain(value)
    if isinstance(value, list):
        if len(value) != 1:
            raise Refused(f"{column} is a list of {len(value)}, not one answer")
        value = value[0]
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise Refused(f"{column} is {type(value).__name__}, neither text nor number")
    if isinstance(value, float) and not math.isfinite(value):
        raise Refused(f"{column} is not finite")
    truth = _as_text(value).strip()
    if not truth:
        raise Refused(f"{column} is empty")
    if "\\boxed" in truth:
        truth = last_boxed(truth) or ""
        if not truth:
            raise Refused(f"{column} holds no complete box")
    if not _balanced(truth):
        raise Refused(f"{column} has unbalanced braces")
    return truth


def _plain(value: Any) -> Any:
    return value.tolist() if isinstance(value, np.ndarray | np.generic) else value


def _as_text(value: Any) -> str:
    value = _plain(value)
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _balanced(text: str) -> bool:
    depth = 0
    for brace in re.findall(r"\\.|[{}]", text, re.DOTALL):
        depth += {"{": 1, "}": -1}.get(brace, 0)
        if depth < 0:
            return False
    return depth == 0


def _id(row: Mapping[str, Any]) -> str:
    for column in ("id", "unique_id", "problem_idx"):
        if row.get(column) is not None:
            return str(row[column])
    extra_info = row.get("extra_info")
    return str(extra_info["index"]) if isinstance(extra_info, Mapping) and extra_info.get("index") is not None else ""
