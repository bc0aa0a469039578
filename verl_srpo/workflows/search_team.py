"""`search/team`: router, searchers side by side and verifier each turn, then an answerer (arXiv 2609.08452)."""

from __future__ import annotations

from verl_srpo.rollout import Agent, DefinitionError, Outcome, Task, Team, Workflow, register_workflow
from verl_srpo.rollout.retriever import Retriever, as_retriever
from verl_srpo.workflows.evidence import Evidence
from verl_srpo.workflows.search_answer import answer_from
from verl_srpo.workflows.tags import Route, parse_route, parse_verdict

ROUTE = (
    "{question}\n{evidence}\nYou are router: choose searchers from 1 to {n}, or stop. Last line: <route>1,2</route> "
    "or <route>STOP</route>."
)
SEARCH = "{question}\n{evidence}\nYou are {name}: <think>...</think><search>one new query</search>"
VERIFY = (
    "{question}\n{evidence}\nYou are verifier: is this enough to answer? End with <verify>yes</verify> or "
    "<verify>no</verify>."
)
ANSWER = "{question}\n{evidence}\nYou are answerer: <think>...</think><answer>short answer</answer>"
ROUTING = ("fixed", "adaptive")


@register_workflow("search/team")
class SearchTeam(Workflow):
    """Sets: 1 (router, if adaptive), 1 to `searchers` (queries from one state), 1 (verifier), each turn; 1 (answerer).

    A route that does not parse means neither STOP nor everyone: it chooses nobody, and the turn is spent without a
    search. Only an explicit yes ends the turns early.
    """

    kind = "search"

    def __init__(
        self,
        retriever: Retriever | str | None = None,
        searchers: int = 3,
        routing: str = "adaptive",
        turns: int = 3,
        topk: int = 3,
    ):
        if routing not in ROUTING:
            raise DefinitionError(f"routing={routing!r}: one of {', '.join(ROUTING)}")
        if searchers < 1 or turns < 1 or topk < 1:
            raise DefinitionError(f"searchers={searchers}, turns={turns} and topk={topk} must be 1 or more")
        self.searchers = [f"searcher{i}" for i in range(1, searchers + 1)]
        self.turns, self.topk, self.adaptive = turns, topk, routing == "adaptive"
        names = [*(["router"] if self.adaptive else []), *self.searchers, "verifier", "answerer"]
        self.agents = tuple(Agent(name) for name in names)
        size = f"1 to {searchers}" if self.adaptive else str(searchers)
        self.sets = f"{size} (searchers), 1 (each other agent)"
        self.retriever = as_retriever(retriever, topk=topk)

    async def run(self, task: Task, team: Team) -> Outcome:
        question, evidence = task.question, Evidence(self.retriever, self.topk)
        queries = turns = 0
        while turns < self.turns:
            turns += 1
            route = await self._route(question, evidence, team) if self.adaptive else Route(self._everyone)
            if route is not None and route.stop:
                break
            if route is None:
                continue
            views = {
                name: SEARCH.format(question=question, evidence=evidence, name=name)
                for name in (self.searchers[index - 1] for index in route.chosen)
            }
            queries += await evidence.search(team, await team.act_set(views))
            if await self._enough(question, evidence, team):
                break
        return await answer_from(
            team, ANSWER.format(question=question, evidence=evidence), {"turns": turns, "queries": queries}
        )

    @property
    def _everyone(self) -> tuple[int, ...]:
        return tuple(range(1, len(self.searchers) + 1))

    async def _route(self, question: str, evidence: Evidence, team: Team) -> Route | None:
        view = ROUTE.format(question=question, evidence=evidence, n=len(self.searchers))
        output = await team.act({"router": view})
        route = parse_route(output.text, len(self.searchers))
        if route is None and not output.failed:
            team.invalid(output, "no valid <route>")
        return route

    async def _enough(self, question: str, evidence: Evidence, team: Team) -> bool:
        review = await team.act({"verifier": VERIFY.format(question=question, evidence=evidence)})
        verdict = parse_verdict(review.text, yes="yes", no="no")
        if verdict is None and not review.failed:
            team.invalid(review, "no clear <verify> verdict")
        return verdict is True
