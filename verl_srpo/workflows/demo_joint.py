"""`demo/joint`: the smallest game that only a joint action explains."""

from __future__ import annotations

from collections.abc import Sequence

from verl_srpo.rollout import Agent, DefinitionError, Outcome, Sampling, Task, Team, Workflow, register_workflow

PROMPT = "{name}, write."
AGENTS = ("alice", "bob")


def harmony(first: Sequence[int], second: Sequence[int], *, length: int, classes: int) -> float:
    """Share of positions at which the two outputs' classes cancel: (first + second) mod `classes` == 0.

    The class of a token is its id mod `classes`; behind the end of an output every class is 0. Whatever one agent
    writes, a partner whose classes are uniform gives it 1/classes on average, so neither output alone has a mean
    effect at the start; only pairs differ.

    >>> harmony([4, 5, 6], [8, 3, 1], length=3, classes=4)
    0.6666666666666666
    """
    pairs = zip(_classes(first, length, classes), _classes(second, length, classes), strict=True)
    return sum((a + b) % classes == 0 for a, b in pairs) / length


def _classes(ids: Sequence[int], length: int, classes: int) -> list[int]:
    padded = [*ids[:length], *[0] * (length - len(ids))]
    return [token % classes for token in padded]


@register_workflow("demo/joint")
class Joint(Workflow):
    """Sets: one of 2, each output `length` tokens at most.

    The reward is the workflow's own and the same for every task, whose question is not used. It starts near
    1/`classes`; the pair has to agree on which classes to play, which neither can settle alone.
    """

    kind = "demo"
    sets = "2 (alice and bob)"

    def __init__(self, length: int = 1, classes: int = 4):
        if length < 1 or classes < 2:
            raise DefinitionError(f"length={length} must be 1 or more, classes={classes} 2 or more")
        self.length, self.classes = length, classes
        self.agents = tuple(Agent(name, sampling=Sampling(max_tokens=length)) for name in AGENTS)

    async def run(self, task: Task, team: Team) -> Outcome:
        alice, bob = await team.act({name: PROMPT.format(name=name) for name in AGENTS})
        if alice.failed or bob.failed:
            return Outcome()
        reward = harmony(alice.response_ids, bob.response_ids, length=self.length, classes=self.classes)
        return Outcome(answer=f"{alice.text} | {bob.text}", reward=reward)
