"""The teacher of the search quickstart, whose work its model is warmed up on.

Asked for a query he repeats the question; asked for the answer he reads off what one of the passages says, whichever.
While he is attentive that is right. Careless, he forgets in two queries out of three to say whom or what he asks about
("Who founded it?"), which finds a passage about something else. A model that has learned from him can copy a name, yet
mostly does not bother, and only the reward tells it that it should.
"""

from __future__ import annotations

import asyncio
import random
import re
from dataclasses import dataclass
from typing import Any

from verl_srpo.retrieval.world import Question, World
from verl_srpo.retrieval.world_facts import RELATIONS
from verl_srpo.rollout import Agent, Output, Task, Team
from verl_srpo.rollout.registry import build_workflow

CARELESS = 0.65
"""Share of the careless teacher's queries that lack the name."""
_FACT = re.compile(
    r"^\(\d+\) [^:\n]+: (?P<sentence>"
    + "|".join(re.escape(r.sentence).replace(r"\{x\}", ".+?").replace(r"\{y\}", "(.+)") for r in RELATIONS)
    + ")$",
    re.MULTILINE,
)


def write_query(question: Question, names: list[str], careless: float, rng: random.Random) -> str:
    text = question.text
    if rng.random() < careless:
        own = next(name for name in names if name in text)
        text = text.replace(own, "it")
    return f"<think> look it up</think><search> {text}</search>"


def read_answer(view: str, rng: random.Random) -> str:
    """Quotes one of the passages, whichever, and gives what it says."""
    facts = list(_FACT.finditer(view))
    if not facts:
        return "<think> nothing</think><answer> unknown</answer>"
    fact = rng.choice(facts)
    said = next(filter(None, fact.groups()[1:]))
    return f"<think> {fact['sentence'].removesuffix('.')}</think><answer> {said}</answer>"


@dataclass
class Rehearsal:
    """Takes the place of the model in an episode: the teacher plays every role."""

    question: Question
    names: list[str]
    careless: float
    rng: random.Random

    async def fill(self, agent: Agent, output: Output) -> None:
        view = output.messages[-1]["content"]
        if agent.name == "answerer":
            output.text = read_answer(view, self.rng)
        else:
            output.text = write_query(self.question, self.names, self.careless, self.rng)


def lessons(
    world: World, workflow_kwargs: dict[str, Any], count: int, *, careless: float, seed: int
) -> list[tuple[list[dict], str]]:
    """(chat messages, the teacher's line) for every call of `count` episodes of search/parallel on training questions.

    careless: the share of queries without a name.
    """
    rng = random.Random(seed)
    workflow, roster = build_workflow("search/parallel", workflow_kwargs)
    questions = [question for question in world.questions if question.split == "train"]
    names = [entity.name for entity in world.entities if entity.split == "train"]

    async def play(question: Question) -> list[Output]:
        team = Team(roster, Rehearsal(question, names, careless, rng))
        await workflow.run(Task(messages=({"role": "user", "content": question.text},)), team)
        await team.close()
        return team.outputs

    async def play_all() -> list[Output]:
        return [output for question in rng.choices(questions, k=count) for output in await play(question)]

    return [(output.messages, output.text) for output in asyncio.run(play_all())]
