"""What a retriever takes and gives: passages, hits, the retriever interface, and its one error."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, runtime_checkable

DEFAULT_TOPK = 3


class RetrievalError(RuntimeError):
    """A search that could not be answered. It must fail the episode; it never becomes text that an agent reads."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrieved passage.

    `title` is the first line of the document's `contents` without the quotes around it, `text` is the rest.
    `score` is the retriever's own (BM25 or cosine); 0.0 where the retriever gave none.
    """

    id: str
    title: str
    text: str
    score: float = 0.0

    @property
    def contents(self) -> str:
        """The corpus form: the title in quotes on the first line, then the text."""
        return f'"{self.title}"\n{self.text}' if self.text else f'"{self.title}"'

    @classmethod
    def from_document(cls, document: Mapping[str, Any], score: float = 0.0) -> Passage:
        """The passage of a document `{"id", "contents", ...}`; ValueError says what is missing."""
        for field in ("id", "contents"):
            if field not in document:
                raise ValueError(f'a document needs "{field}", this one has {sorted(document)}')
        title, _, text = str(document["contents"]).partition("\n")
        title = title.strip()
        if len(title) >= 2 and title[0] == title[-1] == '"':
            title = title[1:-1]
        return cls(str(document["id"]), title, text, float(score))


@runtime_checkable
class Retriever(Protocol):
    """Anything that can be asked for passages."""

    async def search(self, queries: list[str], topk: int | None = None) -> list[list[Passage]]:
        """The best passages of each query, best first, at most `topk` of them (a falsy `topk`: the default).

        Raises RetrievalError where there is no answer; a query that matches nothing gets an empty list.
        """
        ...


class Hit(NamedTuple):
    """A found document: its JSON as it stands in the index, and its score."""

    document: bytes
    score: float


class SearchIndex(Protocol):
    """A loaded index. `search` blocks, may be called from any thread, and answers many queries at once.

    `workers`: how many threads should call it; `max_batch`: with how many queries at most.
    """

    kind: str
    max_batch: int
    workers: int

    def __len__(self) -> int: ...

    def search(self, queries: Sequence[str], topk: int) -> list[list[Hit]]: ...
