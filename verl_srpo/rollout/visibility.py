"""Whether one output had been shown to an agent before it produced another."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from verl_srpo.rollout.output import Output

VERBATIM_TOKENS = 20
"""A run of this many tokens of one output in another's prompt counts as having been shown."""


def _runs(ids: Sequence[int]) -> set[tuple[int, ...]]:
    return {tuple(ids[i : i + VERBATIM_TOKENS]) for i in range(len(ids) - VERBATIM_TOKENS + 1)}


def shown_to(output: Output, reader: Output, earlier: Iterable[Output], encode: Callable[[str], list[int]]) -> bool:
    """Whether `output` stands verbatim (20 tokens or more in a row) in the prompt of `reader`.

    What `output` could itself have copied is not evidence: runs that stand in its own prompt, or in outputs that
    earlier events consumed, are left out. A reader that was asked before `output` was there cannot have seen it.

    Args:
        earlier: outputs that earlier events consumed.
        encode: text to ids; the text's own tokenisation is compared too, since sampled ids need not be canonical.
    """
    if reader.asked_at < output.answered_at or len(output.response_ids) < VERBATIM_TOKENS:
        return False
    text = output.text.strip()
    evidence = (_runs(output.response_ids) | _runs(encode(text))) & _runs(reader.prompt_ids)
    if not evidence:
        return False
    evidence -= _runs(output.prompt_ids)
    for other in earlier:
        evidence -= _runs(other.response_ids) | _runs(encode(other.text.strip()))
    return bool(evidence)
