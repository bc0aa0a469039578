r"""`math/solver_verifier`: one solves, one checks; on rejection the solver tries again, up to a limit."""

from __future__ import annotations

from verl_srpo.rollout import Agent, DefinitionError, Outcome, Task, Team, Workflow, register_workflow
from verl_srpo.workflows.tags import parse_boxed, parse_verdict

SOLVE = "{question}\nYou are solver: answer in \\boxed{{}}."
VERIFY = (
    "{question}\n{memory}\nYou are verifier: check the last attempt, end with <verify>approve</verify> or "
    "<verify>reject</verify>."
)
REVISE = "{question}\n{memory}\nYou are solver: mend the last attempt, answer in \\boxed{{}}."
ENTRY = "[{who}] {text}"


@register_workflow("math/solver_verifier")
class SolverVerifier(Workflow):
    """Sets: all of 1; solver, verifier, and for each rejection solver and verifier again.

    The solver's last attempt is the answer. Only an explicit approval ends the episode early.
    """

    kind = "math"
    agents = (Agent("solver"), Agent("verifier"))

    def __init__(self, rounds: int = 2):
        if rounds < 0:
            raise DefinitionError(f"rounds={rounds}: revisions after a rejection, 0 or more")
        self.rounds = rounds
        self.sets = f"1 (solver, verifier; up to {rounds} revisions)"

    async def run(self, task: Task, team: Team) -> Outcome:
        question, memory, view = task.question, [], SOLVE.format(question=task.question)
        for round_ in range(self.rounds + 1):
            attempt = await team.act({"solver": view})
            if attempt.failed:
                return Outcome()
            if parse_boxed(attempt.text) is None:
                team.invalid(attempt, "no \\boxed{} answer")
            memory.append(ENTRY.format(who="attempt", text=attempt.text))
            review = await team.act({"verifier": VERIFY.format(question=question, memory="\n".join(memory))})
            approved = parse_verdict(review.text)
            if approved is None and not review.failed:
                team.invalid(review, "no clear <verify> verdict")
            if approved or round_ == self.rounds:
                return Outcome(answer=attempt.text, info={"revisions": round_, "approved": int(bool(approved))})
            memory.append(ENTRY.format(who="review", text=review.text))
            view = REVISE.format(question=question, memory="\n".join(memory))
        raise AssertionError("unreachable: the last round returns")
