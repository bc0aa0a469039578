"""`math/debate`: N solvers answer side by side, then a judge who reads them all gives the answer."""

from __future__ import annotations

from verl_srpo.rollout import Agent, DefinitionError, Outcome, Task, Team, Workflow, register_workflow

SOLVE = "{question}\nYou are {name}: solve it."
JUDGE = "{question}\n{drafts}\nYou are judge: give the answer."
DRAFT = "{name}: {text}"


@register_workflow("math/debate")
class Debate(Workflow):
    """Sets: one of N (the solvers), then one of 1 (the judge).

    A solver whose call failed is not shown to the judge; without any draft the episode is given up.
    """

    kind = "math"

    def __init__(self, n: int = 2):
        if n < 1:
            raise DefinitionError(f"n={n}: a debate needs at least one solver")
        self.solvers = [f"solver{i}" for i in range(1, n + 1)]
        self.agents = (*(Agent(name) for name in self.solvers), Agent("judge"))
        self.sets = f"{n} (solvers), then 1 (judge)"

    async def run(self, task: Task, team: Team) -> Outcome:
        question = task.question
        drafts = await team.act_set({name: SOLVE.format(question=question, name=name) for name in self.solvers})
        shown = [DRAFT.format(name=draft.agent, text=draft.text) for draft in drafts if not draft.failed]
        if not shown:
            return Outcome()
        verdict = await team.act({"judge": JUDGE.format(question=question, drafts="\n".join(shown))})
        return Outcome(answer=None if verdict.failed else verdict.text)
