"""A search team that looks up every question itself, so that a random model needs a retrieval server too.

`srpo.workflow=tests/e2e/searching_team.py:SearchingTeam`. Notes every search in a file of `folder`.
"""

from __future__ import annotations

import json
from pathlib import Path

from verl_srpo.retrieval.client import HTTPRetriever
from verl_srpo.rollout import Agent, Outcome, Task, Team, Workflow
from verl_srpo.rollout.errors import ToolFailed

SEARCHES = "searches.jsonl"
READERS = ("reader1", "reader2")


class SearchingTeam(Workflow):
    """Two readers of what is found (a set of 2), then an answerer.

    The first episode of a task has the client's default patience, which outlasts a restart; the others give up after
    a second.
    """

    kind = "search"
    sets = "2 (readers), then 1 (answerer)"
    agents = (*(Agent(name) for name in READERS), Agent("answerer"))

    def __init__(self, retriever: str, folder: str):
        self.path = Path(folder) / SEARCHES
        self.patient = HTTPRetriever(retriever, topk=2, cache_size=0)
        self.impatient = HTTPRetriever(retriever, topk=2, cache_size=0, retries=2)

    async def run(self, task: Task, team: Team) -> Outcome:
        patient = task.session_id == 0
        about = {"uid": task.uid, "session": task.session_id, "patient": patient, "validate": task.validate}
        retriever = self.patient if patient else self.impatient
        try:
            (passages,) = await team.tool(retriever.search([task.question]), name="retriever")
        except ToolFailed as failure:
            self.note({**about, "error": str(failure)})
            raise
        self.note({**about, "found": [passage.id for passage in passages]})
        shown = "\n".join([task.question, *(passage.text for passage in passages)])
        await team.act_set({name: f"{shown}\nYou are {name}." for name in READERS})
        answer = await team.act({"answerer": f"{shown}\nYou are answerer."})
        return Outcome(answer=answer.text)

    def note(self, search: dict) -> None:
        with self.path.open("a") as file:  # line by line: the file is read meanwhile
            file.write(json.dumps(search) + "\n")
