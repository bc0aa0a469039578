"""Where the answer stands in a response, and the gold answers in a ground truth. One pass over the text each."""

import re
from collections.abc import Mapping
from typing import Any

import numpy as np

_BOX = r"\\(?:boxed|fbox)\s*"
# an escaped character is one token, so that `\{` neither opens nor closes anything
_BRACES = re.compile(rf"(?P<box>{_BOX}\{{)|(?P<bare>{_BOX}(?P<token>\\[A-Za-z]+|[^\s{{}}\\]))|\\.|[{{}}]", re.DOTALL)


def after_think(text: str) -> str:
    """What follows the last `</think>`, or everything if there is none."""
    return text.rpartition("</think>")[2]


def last_boxed(text: str) -> str | None:
    r"""The content of the last complete, non-empty `\boxed{...}` (also `\fbox{...}`), braces nested at will.

    "Last" is the one that begins last; a box that is never closed does not count. Without any, the last `\boxed 7`
    (one token), else None.
    """
    found_start, found, bare = -1, None, None
    open_braces: list[tuple[int, int] | None] = []  # for a box: where it begins and where its content begins
    for match in _BRACES.finditer(text):
        if match["box"]:
            open_braces.append((match.start(), match.end()))
        elif match["bare"]:
            bare = match["token"]
        elif match[0] == "{":
            open_braces.append(None)
        elif match[0] == "}" and open_braces:
            box = open_braces.pop()
            if box is not None and box[0] > found_start:
                content = text[box[1] : match.start()].strip()
                if content:
                    found_start, found = box[0], content
    return found if found is not None else bare


def last_answer_tag(text: str) -> str | None:
    """The content of the last `<answer>...</answer>`, or None if there is no complete one."""
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, end) if end >= 0 else -1
    if start < 0:
        return None
    return text[start + len("<answer>") :].partition("</answer>")[0].strip()


def gold_answers(ground_truth: Any) -> list[str]:
    """The gold answers in whatever a parquet file gave back, each as a non-empty string.

    Args:
        ground_truth: a string, a number, a (nested) list, tuple or numpy array of these, or a mapping that holds them
            under "target" (as the Search-R1 sets do).

    Raises:
        ValueError: no answer in it, or something that is no answer.
    """
    answers = list(_flatten(ground_truth, ground_truth))
    if not answers:
        raise ValueError(f"the ground truth {ground_truth!r} holds no answer; refuse such rows when preparing the data")
    return answers


def _flatten(value: Any, whole: Any):
    if isinstance(value, Mapping):
        if "target" not in value:
            raise ValueError(f"the ground truth {whole!r} is a mapping without 'target'")
        yield from _flatten(value["target"], whole)
    elif isinstance(value, np.ndarray):
        yield from _flatten(value.tolist(), whole)
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from _flatten(item, whole)
    elif isinstance(value, str):
        if value.strip():
            yield value.strip()
    elif isinstance(value, int | float | np.number) and not isinstance(value, bool):
        yield str(value.item() if isinstance(value, np.number) else value)
    elif value is not None:
        raise ValueError(
            f"the ground truth {whole!r} holds {value!r} of type {type(value).__name__}, which is no answer"
        )
