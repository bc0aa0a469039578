"""Prompts begin with what they share, so that a server that caches prefixes computes it once."""

from itertools import pairwise

import pytest

from tests.workflows.teams import play
from tests.workflows.test_docs import EPISODES

QUESTION = "<user>What is 2 plus 3?\n"
TEAMS = [name for name in EPISODES if name != "demo/joint"]  # whose agents are asked no question


def shared(prompt):
    """What stands before the line that says who is asked; a memory that is still empty is no part of it."""
    return prompt[: prompt.rindex("You are ")].removesuffix("(no evidence)\n")


@pytest.mark.parametrize("name", TEAMS)
async def test_every_prompt_begins_as_the_one_before_it(name):
    settings, replies = EPISODES[name]
    episode, llm = await play(name, replies, settings)
    parts = [shared(call.prompt) for call in llm.calls]
    assert parts[0] == QUESTION
    assert all(later.startswith(earlier) for earlier, later in pairwise(parts))
    for event in episode.events:
        assert len({parts[member.number] for member in event.members}) == 1, "members differ in their last line only"
