"""What a search workflow asks for passages."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from verl_srpo.rollout.errors import DefinitionError


class Passage(Protocol):
    """One retrieved passage."""

    @property
    def id(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def text(self) -> str: ...


@runtime_checkable
class Retriever(Protocol):
    """Answers queries; raises where it cannot, and never answers with an error text."""

    async def search(self, queries: list[str], topk: int | None = None) -> Sequence[Sequence[Passage]]:
        """The best passages of each query, best first."""
        ...


def as_retriever(given: Retriever | str | None, *, topk: int) -> Retriever:
    """The retriever itself, or the one of `verl_srpo.retrieval` that a URL, an index folder or a corpus file names.

    Raises:
        DefinitionError: nothing given, or something that is no retriever.
    """
    if isinstance(given, str):
        return importlib.import_module("verl_srpo.retrieval").open_retriever(given, topk=topk)
    if given is None or not isinstance(given, Retriever):
        raise DefinitionError(
            f"retriever={given!r}: set srpo.workflow_kwargs.retriever to a server (http://host:8000), an index folder, "
            "a corpus (.jsonl), or an object with async search(queries, topk)"
        )
    return given
