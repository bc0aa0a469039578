r"""The careless teacher, whose work the quickstart's model is warmed up on.

He writes down every step, but two times out of three he forgets to add the carry. Shown the drafts of others, he
repeats one of them blindly; asked to verify or to route, he guesses. A model that has learned from him answers in the
expected form and can add, yet is wrong more often than right, and only a reward can tell it so.
"""

from __future__ import annotations

import asyncio
import random
import re
from collections.abc import Callable
from dataclasses import dataclass

from problems import Problem

from verl_srpo.rollout import Agent, Output, Task, Team, load_workflow
from verl_srpo.rollout.registry import build_workflow

FORGETS_CARRY = 0.65
APPROVES = 0.7
DEFAULT_WORKFLOW = "math/debate"

Lesson = tuple[list[dict], str]
"""The chat messages that an agent was shown, and the teacher's line."""


def work_out(problem: Problem, rng: random.Random) -> str:
    r"""Working and answer, as in `7+8=15, 3+4+1=8: \boxed{85}`."""
    units = problem.left % 10 + problem.right % 10
    tens = problem.left // 10 + problem.right // 10
    carried = ""
    if units >= 10 and rng.random() >= FORGETS_CARRY:
        carried, tens = "+1", tens + 1
    return (
        f"{problem.left % 10}+{problem.right % 10}={units}, "
        f"{problem.left // 10}+{problem.right // 10}{carried}={tens}: \\boxed{{{tens}{units % 10}}}"
    )


def repeat_a_draft(view: str, problem: Problem, rng: random.Random) -> str:
    drafts = re.findall(r"\\boxed\{\d+\}", view)
    return rng.choice(drafts) if drafts else work_out(problem, rng)


def route(view: str, rng: random.Random) -> str:
    solvers = int(re.search(r"from 1 to (\d+)", view)[1])
    chosen = sorted(rng.sample(range(1, solvers + 1), rng.randint(1, solvers)))
    return f"<route>{','.join(map(str, chosen))}</route>"


def verify(rng: random.Random) -> str:
    return f"<verify>{'approve' if rng.random() < APPROVES else 'reject'}</verify>"


ROLES: dict[str, Callable[[str, Problem, random.Random], str]] = {
    "solver": lambda view, problem, rng: work_out(problem, rng),
    "reviser": lambda view, problem, rng: work_out(problem, rng),
    "router": lambda view, problem, rng: route(view, rng),
    "verifier": lambda view, problem, rng: verify(rng),
    "aggregator": lambda view, problem, rng: f"FINAL: {repeat_a_draft(view, problem, rng)}",
}
"""By the agent's name without its number. Every other agent repeats a draft, or works out the sum if it sees none."""


@dataclass
class Rehearsal:
    """Takes the model's place in an episode: the teacher plays every role."""

    problem: Problem
    rng: random.Random

    async def fill(self, agent: Agent, output: Output) -> None:
        role = ROLES.get(agent.name.rstrip("0123456789"), repeat_a_draft)
        output.text = role(output.messages[-1]["content"], self.problem, self.rng)


def lessons(workflow_name: str, problems: list[Problem], seed: int) -> list[Lesson]:
    """Every call of one episode a problem, in the workflow's own prompts. Teams that do not do sums, such as search
    and `demo/joint`, have nothing to learn from this teacher: for them, the lessons of `DEFAULT_WORKFLOW`."""
    if load_workflow(workflow_name).kind in ("search", "demo"):
        workflow_name = DEFAULT_WORKFLOW
    rng = random.Random(seed)
    workflow, roster = build_workflow(workflow_name)

    async def play(problem: Problem) -> list[Output]:
        team = Team(roster, Rehearsal(problem, rng))  # pyright: ignore[reportArgumentType]
        await workflow.run(Task(messages=({"role": "user", "content": problem.question},)), team)
        await team.close()
        return team.outputs

    async def play_all() -> list[Lesson]:
        return [(output.messages, output.text) for problem in problems for output in await play(problem)]

    return asyncio.run(play_all())
