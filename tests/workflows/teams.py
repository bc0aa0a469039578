"""Scripted answers in the agents' tags, and a retriever of four passages."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.rollout.scripted import ScriptedLLM, run
from verl_srpo.rollout import Episode, build_workflow

APPROVE, REJECT = "<verify>approve</verify>", "<verify>reject</verify>"
YES, NO = "<verify>yes</verify>", "<verify>no</verify>"
BOXED, FINAL = r"so \boxed{5}", r"FINAL: \boxed{5}"
STOP = "<route>STOP</route>"
ANSWER = "<think>I see</think><answer>Paris</answer>"


def route(*indices: int) -> str:
    return f"<route>{','.join(map(str, indices))}</route>"


def search(query: str) -> str:
    return f"<think>hm</think><search>{query}</search>"


@dataclass(frozen=True)
class Passage:
    id: str
    title: str
    text: str


PASSAGES = [
    Passage("0", "France", "The capital of France is Paris."),
    Passage("1", "Paris", "Paris lies on the Seine."),
    Passage("2", "Seine", "The Seine is a river in France."),
    Passage("3", "Rome", "Rome lies on the Tiber."),
]


@dataclass
class WordRetriever:
    """Passages that contain a word of the query, in their order; `error` is raised instead."""

    error: Exception | None = None
    asked: list[list[str]] = field(default_factory=list)

    async def search(self, queries: list[str], topk: int | None = None) -> Sequence[Sequence[Passage]]:
        self.asked.append(list(queries))
        if self.error:
            raise self.error
        return [[p for p in PASSAGES if set(q.split()) & set(p.text.rstrip(".").split())][:topk] for q in queries]


async def play(name: str, replies: dict, settings: dict | None = None, **team) -> tuple[Episode, ScriptedLLM]:
    """One episode of a built-in workflow with scripted agents."""
    settings = dict(settings or {})
    if name.startswith("search/"):
        settings.setdefault("retriever", WordRetriever())
    workflow, _ = build_workflow(name, settings)
    llm = ScriptedLLM(replies)
    return await run(workflow, llm, **team), llm


def consumed(episode: Episode) -> list[list[str]]:
    """Agents of each event's active set."""
    return [[member.agent for member in event.members] for event in episode.events]


def marked(episode: Episode) -> list[str]:
    """Names of the outputs that were marked invalid."""
    return [output.name for output in episode.outputs if output.invalid]
