"""The last event of every search workflow: the answerer's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from verl_srpo.rollout import Outcome, Team
from verl_srpo.workflows.tags import parse_answer


async def answer_from(team: Team, view: str, info: Mapping[str, Any]) -> Outcome:
    """Ask the answerer. What is not `<think>` and then one `<answer>` is marked, and there is no answer to score."""
    output = await team.act({"answerer": view})
    if output.failed:
        return Outcome()
    if parse_answer(output.text) is None:
        team.invalid(output, "not <think> and then one <answer>")
        return Outcome(answer="", info=info)
    return Outcome(answer=output.text, info=info)
