r"""`math/team`: an optional router, solvers side by side, a verifier, revisions, an aggregator (arXiv 2609.08452)."""

from __future__ import annotations

from verl_srpo.rollout import Agent, DefinitionError, Outcome, Output, Task, Team, Workflow, register_workflow
from verl_srpo.workflows.tags import parse_boxed, parse_final, parse_route, parse_verdict

ROUTE = "{question}\nYou are router: choose solvers from 1 to {n}. Last line: their numbers, as in <route>1,2</route>."
SOLVE = "{question}\nYou are {name}: answer in \\boxed{{}}."
VERIFY = (
    "{question}\n{memory}\nYou are verifier: check the work, end with <verify>approve</verify> or "
    "<verify>reject</verify>."
)
REVISE = "{question}\n{memory}\nYou are reviser: mend the work, answer in \\boxed{{}}."
AGGREGATE = "{question}\n{memory}\nYou are aggregator: decide, end with FINAL: \\boxed{{}}."
ENTRY = "[{who}] {text}"
NO_DRAFTS = "(no drafts)"
ROUTING = ("fixed", "adaptive")


@register_workflow("math/team")
class MathTeam(Workflow):
    """Sets: 1 (router, if adaptive), 1 to `solvers` (the chosen solvers), 1 (verifier), 1 (reviser), 1 (aggregator).

    A route that does not parse, and STOP (there is nothing to stop yet), choose nobody: the aggregator answers from
    the question alone. Only an explicit approval counts as one.
    """

    kind = "math"

    def __init__(self, solvers: int = 3, routing: str = "fixed", rounds: int = 1):
        if routing not in ROUTING:
            raise DefinitionError(f"routing={routing!r}: one of {', '.join(ROUTING)}")
        if solvers < 1 or rounds < 0:
            raise DefinitionError(f"solvers={solvers} must be 1 or more, rounds={rounds} 0 or more")
        self.solvers = [f"solver{i}" for i in range(1, solvers + 1)]
        self.rounds, self.adaptive = rounds, routing == "adaptive"
        names = [*(["router"] if self.adaptive else []), *self.solvers, "verifier", "reviser", "aggregator"]
        self.agents = tuple(Agent(name) for name in names if rounds or name != "reviser")
        size = f"1 to {solvers}" if self.adaptive else str(solvers)
        self.sets = f"{size} (solvers), 1 (each other agent)"

    async def run(self, task: Task, team: Team) -> Outcome:
        chosen = await self._route(task, team) if self.adaptive else self.solvers
        memory = await self._solve(task, team, chosen) if chosen else []
        approved, revisions = await self._review(task, team, memory) if memory else (None, 0)
        final = await team.act(
            {"aggregator": AGGREGATE.format(question=task.question, memory="\n".join(memory) or NO_DRAFTS)}
        )
        if final.failed:
            return Outcome()
        info = {"solvers_asked": len(chosen), "revisions": revisions, "approved": int(bool(approved))}
        if parse_final(final.text) is None:
            team.invalid(final, "no single FINAL: \\boxed{}")
            return Outcome(answer="", info=info)  # not repaired: there is no answer to score
        return Outcome(answer=final.text, info=info)

    async def _route(self, task: Task, team: Team) -> list[str]:
        output = await team.act({"router": ROUTE.format(question=task.question, n=len(self.solvers))})
        route = parse_route(output.text, len(self.solvers))
        if (route is None or route.stop) and not output.failed:
            team.invalid(output, "no valid <route> of solvers")
        return [self.solvers[index - 1] for index in route.chosen] if route else []

    async def _solve(self, task: Task, team: Team, chosen: list[str]) -> list[str]:
        """Drafts of the chosen solvers, as entries of the shared memory."""
        drafts = await team.act_set({name: SOLVE.format(question=task.question, name=name) for name in chosen})
        return [self._entry(team, draft) for draft in drafts if not draft.failed]

    async def _review(self, task: Task, team: Team, memory: list[str]) -> tuple[bool | None, int]:
        """Verifier, and a revision for each rejection, added to the memory; the last verdict and how many revisions."""
        question = task.question
        for revisions in range(self.rounds + 1):
            review = await team.act({"verifier": VERIFY.format(question=question, memory="\n".join(memory))})
            approved = parse_verdict(review.text)
            if approved is None and not review.failed:
                team.invalid(review, "no clear <verify> verdict")
            if not review.failed:
                memory.append(ENTRY.format(who="verifier", text=review.text))
            if approved or revisions == self.rounds:
                return approved, revisions
            revision = await team.act({"reviser": REVISE.format(question=question, memory="\n".join(memory))})
            if not revision.failed:
                memory.append(self._entry(team, revision))
        raise AssertionError("unreachable: the last round returns")

    @staticmethod
    def _entry(team: Team, output: Output) -> str:
        if parse_boxed(output.text) is None:
            team.invalid(output, "no \\boxed{} answer")
        return ENTRY.format(who=output.agent, text=output.text)
