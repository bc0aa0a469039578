"""Retrieved passages that a search team shares: merged, numbered, each passage once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from verl_srpo.rollout import Output, Team
from verl_srpo.rollout.retriever import Passage, Retriever
from verl_srpo.workflows.tags import parse_search

ENTRY = "({number}) {title}: {text}"


class Evidence:
    """Grows only at its end, so that a later prompt begins like an earlier one and its prefix stays cached."""

    def __init__(self, retriever: Retriever, topk: int):
        self._retriever, self._topk = retriever, topk
        self._seen: set[str] = set()
        self._entries: list[str] = []

    def __len__(self) -> int:
        return len(self._entries)

    def __str__(self) -> str:
        return "\n".join(self._entries) or "(no evidence)"

    async def search(self, team: Team, outputs: Iterable[Output]) -> int:
        """Retrieve for the well-formed queries of `outputs`, once each; a malformed one is marked and asks nothing.

        Returns:
            The number of queries asked.
        """
        queries: list[str] = []
        for output in outputs:
            query = parse_search(output.text)
            if query is not None:
                queries.append(query)
            elif not output.failed:
                team.invalid(output, "not <think> and then one <search>")
        queries = list(dict.fromkeys(queries))
        if queries:
            call = self._retriever.search(queries, self._topk)
            self.add(await team.tool(call, calls=len(queries), name=f"retriever, {len(queries)} queries"))
        return len(queries)

    def add(self, results: Iterable[Sequence[Passage]]) -> None:
        """Best passages of all queries first, then second best, and so on."""
        results = [list(passages) for passages in results]
        for rank in range(max(map(len, results), default=0)):
            for passage in (passages[rank] for passages in results if rank < len(passages)):
                if passage.id not in self._seen:
                    self._seen.add(passage.id)
                    text = " ".join(passage.text.split())
                    self._entries.append(ENTRY.format(number=len(self) + 1, title=passage.title, text=text))
