"""`search/hierarchical`: a verifier says whether to search on, a searcher searches, an answerer ends."""

from __future__ import annotations

from verl_srpo.rollout import Agent, DefinitionError, Outcome, Task, Team, Workflow, register_workflow
from verl_srpo.rollout.retriever import Retriever, as_retriever
from verl_srpo.workflows.evidence import Evidence
from verl_srpo.workflows.search_answer import answer_from
from verl_srpo.workflows.tags import parse_verdict

VERIFY = (
    "{question}\n{evidence}\nYou are verifier: is this enough to answer? End with <verify>yes</verify> or "
    "<verify>no</verify>."
)
SEARCH = "{question}\n{evidence}\nYou are searcher: <think>...</think><search>one new query</search>"
ANSWER = "{question}\n{evidence}\nYou are answerer: <think>...</think><answer>short answer</answer>"


@register_workflow("search/hierarchical")
class Hierarchical(Workflow):
    """Sets: all of 1; each turn the verifier, and unless it says yes the searcher; then the answerer."""

    kind = "search"
    agents = (Agent("verifier"), Agent("searcher"), Agent("answerer"))

    def __init__(self, retriever: Retriever | str | None = None, turns: int = 3, topk: int = 3):
        if turns < 1 or topk < 1:
            raise DefinitionError(f"turns={turns} and topk={topk} must be 1 or more")
        self.turns, self.topk = turns, topk
        self.sets = f"1 (verifier and searcher, up to {turns} times; answerer)"
        self.retriever = as_retriever(retriever, topk=topk)

    async def run(self, task: Task, team: Team) -> Outcome:
        question, evidence = task.question, Evidence(self.retriever, self.topk)
        queries = turns = 0
        while turns < self.turns:
            turns += 1
            review = await team.act({"verifier": VERIFY.format(question=question, evidence=evidence)})
            enough = parse_verdict(review.text, yes="yes", no="no")
            if enough is None and not review.failed:
                team.invalid(review, "no clear <verify> verdict")
            if enough:
                break
            output = await team.act({"searcher": SEARCH.format(question=question, evidence=evidence)})
            queries += await evidence.search(team, [output])
        return await answer_from(
            team, ANSWER.format(question=question, evidence=evidence), {"turns": turns, "queries": queries}
        )
