"""`search/parallel`: N writers send their queries at once, an answerer reads what they bring."""

from __future__ import annotations

from verl_srpo.rollout import Agent, DefinitionError, Outcome, Task, Team, Workflow, register_workflow
from verl_srpo.rollout.retriever import Retriever, as_retriever
from verl_srpo.workflows.evidence import Evidence
from verl_srpo.workflows.search_answer import answer_from

SEARCH = "{question}\nYou are {name}: <think>...</think><search>one query</search>"
ANSWER = "{question}\n{evidence}\nYou are answerer: <think>...</think><answer>short answer</answer>"


@register_workflow("search/parallel")
class Parallel(Workflow):
    """Sets: one of N (the query writers), then one of 1 (the answerer)."""

    kind = "search"

    def __init__(self, retriever: Retriever | str | None = None, n: int = 3, topk: int = 3):
        if n < 1 or topk < 1:
            raise DefinitionError(f"n={n} and topk={topk} must be 1 or more")
        self.writers = [f"writer{i}" for i in range(1, n + 1)]
        self.agents = (*(Agent(name) for name in self.writers), Agent("answerer"))
        self.topk = topk
        self.sets = f"{n} (query writers), then 1 (answerer)"
        self.retriever = as_retriever(retriever, topk=topk)

    async def run(self, task: Task, team: Team) -> Outcome:
        question, evidence = task.question, Evidence(self.retriever, self.topk)
        outputs = await team.act_set({name: SEARCH.format(question=question, name=name) for name in self.writers})
        queries = await evidence.search(team, outputs)
        return await answer_from(
            team, ANSWER.format(question=question, evidence=evidence), {"turns": 1, "queries": queries}
        )
