r"""The tags that agents act with, parsed strictly and totally: any text gives a value or None, nothing is repaired.

`<route>1,3</route>` or `<route>STOP</route>` on the last line; `<verify>approve</verify>` or `reject` (math), `yes` or
`no` (search); `<think>...</think>` and then one `<search>...</search>` or one `<answer>...</answer>`; `\boxed{...}`,
the aggregator's once after `FINAL:`.

A leading `<think>...</think>` block is private: tags in it are no actions. Every parser is one pass over the text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_INDEX = re.compile(r"[1-9][0-9]{0,3}", re.ASCII)
_BRACES = re.compile(r"\\boxed\s*\{|\\.|[{}]", re.DOTALL)  # an escaped brace is one token, so that it closes nothing


@dataclass(frozen=True)
class Route:
    """A router's decision: `stop`, or the chosen indices (from 1, ascending, at least one)."""

    chosen: tuple[int, ...] = ()
    stop: bool = False


def parse_route(text: str, size: int) -> Route | None:
    """The one route tag, alone on the last line; indices must be unique and in 1..size.

    >>> parse_route("Two of them disagree.\\n<route>3, 1</route>", 3)
    Route(chosen=(1, 3), stop=False)
    >>> parse_route("<route>1,1</route>", 3) is None
    True
    """
    action = _action(text)
    if action is None or action.count("<route>") != 1 or action.count("</route>") != 1:
        return None
    line = action.strip().rsplit("\n", 1)[-1].strip()
    if not (line.startswith("<route>") and line.endswith("</route>")):
        return None
    content = line[len("<route>") : -len("</route>")].strip()
    if content == "STOP":
        return Route(stop=True)
    parts = [part.strip() for part in content.split(",", size + 1)]  # more parts than indices is wrong anyway
    if not all(_INDEX.fullmatch(part) for part in parts):
        return None
    chosen = sorted(int(part) for part in parts)
    if len(set(chosen)) < len(chosen) or chosen[-1] > size:
        return None
    return Route(tuple(chosen))


def parse_verdict(text: str, *, yes: str = "approve", no: str = "reject") -> bool | None:
    """True or False from the one verify tag; None if there is no clear verdict, which never means approval.

    >>> parse_verdict("Checks out. <verify>approve</verify>")
    True
    """
    action = _action(text)
    content = None if action is None else _one(action, "verify")
    return {yes: True, no: False}.get(content) if content is not None else None


def parse_search(text: str) -> str | None:
    """The query of `<think>...</think><search>query</search>`, with its white space collapsed."""
    return _think_then(text, "search")


def parse_answer(text: str) -> str | None:
    """The answer of `<think>...</think><answer>answer</answer>`, with its white space collapsed."""
    return _think_then(text, "answer")


def parse_boxed(text: str) -> str | None:
    r"""Content of the last complete, non-empty `\boxed{...}`."""
    boxes = [box for box in _boxes(text) if box]
    return boxes[-1] if boxes else None


def parse_final(text: str) -> str | None:
    r"""Content of the only `\boxed{...}` behind the only `FINAL:`.

    >>> parse_final(r"5 is right. FINAL: \boxed{5}")
    '5'
    """
    action = _action(text)
    if action is None or action.count("FINAL:") != 1:
        return None
    boxes = _boxes(action.partition("FINAL:")[2])
    return boxes[0] if len(boxes) == 1 and boxes[0] else None


def _action(text: str) -> str | None:
    """What follows a leading think block; None if the block never ends or think tags go on behind it."""
    text = text.strip()
    if text.startswith("<think>"):
        _, closed, text = text.partition("</think>")
        if not closed:
            return None
    return None if "<think>" in text or "</think>" in text else text


def _one(text: str, tag: str) -> str | None:
    """Content of the only `tag` in the text."""
    head, opened, rest = text.partition(f"<{tag}>")
    content, closed, tail = rest.partition(f"</{tag}>")
    marks = (f"<{tag}>", f"</{tag}>")
    if not opened or not closed or any(mark in part for mark in marks for part in (head, content, tail)):
        return None
    return content.strip()


def _think_then(text: str, tag: str) -> str | None:
    """A think block, then nothing but one `tag`."""
    action = _action(text) if text.lstrip().startswith("<think>") else None
    if action is None:
        return None
    action = action.strip()
    content = _one(action, tag)
    if not content or not action.startswith(f"<{tag}>") or not action.endswith(f"</{tag}>"):
        return None
    return " ".join(content.split()) or None


def _boxes(text: str) -> list[str]:
    r"""Contents of all outermost `\boxed{...}` in order; one that is never closed counts as empty."""
    boxes: list[str] = []
    start, depth = 0, 0
    for match in _BRACES.finditer(text):
        token = match[0]
        if depth == 0:
            if token.startswith("\\boxed"):
                start, depth = match.end(), 1
        elif token.endswith("{") and not token.startswith("\\{"):
            depth += 1
        elif token == "}":
            depth -= 1
            if depth == 0:
                boxes.append(text[start : match.start()].strip())
    return [*boxes, ""] if depth else boxes
