"""A scripted language model with the `generate` of verl's LLM client, and a codec of one id per character."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from verl_srpo.rollout import Agent, Episode, Generator, Limits, Rules, Task, Team, Workflow, play

EOS = 0
BASE = 10
"""Character c has the id BASE + ord(c): ids below are special."""


class CharCodec:
    """One id per character; a message is `<role>content` and the prompt ends with `<assistant>`."""

    eos_token_ids = frozenset({EOS})

    def prompt(self, messages: list[dict[str, Any]]) -> list[int]:
        return self.encode("".join(f"<{m['role']}>{m['content']}" for m in messages) + "<assistant>")

    def encode(self, text: str) -> list[int]:
        return [BASE + ord(character) for character in text]

    def decode(self, ids: list[int]) -> str:
        return "".join(chr(token - BASE) for token in ids if token >= BASE)


@dataclass
class Call:
    """One request as the server saw it."""

    request_id: str
    prompt: str
    prompt_ids: list[int]
    sampling: dict[str, Any]

    @property
    def agent(self) -> str:
        return self.request_id.rsplit("-", 1)[-1]


Reply = str | BaseException | SimpleNamespace | Callable[[Call], Any]


class ScriptedLLM:
    """Answers each agent from its own list of replies, or from a function of the call.

    A reply is a text, an exception to raise, a finished result, or a (possibly async) function of the call that gives
    one of these. `gates` hold back an agent's answers until their event is set; `in_flight` counts open requests.
    """

    # not a dataclass: Hydra would take an instance for a structured config when it builds the agent loop

    def __init__(
        self,
        replies: Mapping[str, Sequence[Reply] | Reply] | None = None,
        default: Reply = "ok",
        gates: Mapping[str, asyncio.Event] | None = None,
        codec: Any = None,
        step: int = 7,
    ):
        self.replies = replies or {}
        self.default = default
        self.gates = gates or {}
        self.codec = codec or CharCodec()
        self.step = step
        self.calls: list[Call] = []
        self.in_flight = 0
        self.most_in_flight = 0

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **kwargs: Any
    ) -> Any:
        call = Call(request_id, self.codec.decode(prompt_ids), list(prompt_ids), dict(sampling_params))
        reply = self._reply(call)
        self.calls.append(call)
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await asyncio.sleep(0)
            if call.agent in self.gates:
                await self.gates[call.agent].wait()
            while callable(reply) and not isinstance(reply, type):
                reply = reply(call)
                if asyncio.iscoroutine(reply):
                    reply = await reply
            if isinstance(reply, BaseException):
                raise reply
            return self.result(reply, call) if isinstance(reply, str) else reply
        finally:
            self.in_flight -= 1

    def _reply(self, call: Call) -> Any:
        replies = self.replies.get(call.agent, self.default)
        if isinstance(replies, (list, tuple)):
            asked = sum(earlier.agent == call.agent for earlier in self.calls)
            return replies[min(asked, len(replies) - 1)]
        return replies

    def result(self, text: str, call: Call) -> SimpleNamespace:
        ids = [*self.codec.encode(text), next(iter(self.codec.eos_token_ids))][: call.sampling.get("max_tokens")]
        log_probs = [-0.5] * len(ids) if call.sampling.get("logprobs") else None
        return tokens(ids, log_probs, step=self.step)


def tokens(
    ids: Sequence[int], log_probs: Sequence[float] | None, *, stop_reason: Any = "completed", step: int = 7
) -> Any:
    """A result of verl's server."""
    versions = {"global_steps": step, "min_global_steps": step, "max_global_steps": step}
    return SimpleNamespace(
        token_ids=ids, log_probs=log_probs, stop_reason=stop_reason, routed_experts=None, num_preempted=None,
        extra_fields=versions,
    )  # fmt: skip


def make_team(
    llm: Any,
    *agents: Agent | str,
    rules: Rules | None = None,
    limits: Limits | None = None,
    sampling: Mapping[str, Any] | None = None,
    validate: bool = False,
    episode: str = "u-0",
) -> Team:
    generator = Generator(
        llm,
        getattr(llm, "codec", CharCodec()),
        limits or Limits(context=2000, prompt=1500, response=200),
        {"temperature": 1.0, "logprobs": True} if sampling is None else sampling,
        episode=episode,
        validate=validate,
    )
    return Team([a if isinstance(a, Agent) else Agent(a) for a in agents], generator, rules)


def question(text: str = "What is 2 plus 3?", **fields: Any) -> Task:
    return Task(messages=({"role": "user", "content": text},), uid="u", **fields)


async def run(
    workflow: Workflow, llm: Any, *, task: Task | None = None, statistics: Any = None, **team: Any
) -> Episode:
    """Play one episode of `workflow`."""
    return await play(
        workflow,
        task or question(),
        lambda: make_team(llm, *workflow.agents, **team),
        name=type(workflow).__name__,
        statistics=statistics,
    )


def audit(episode: Episode) -> list[tuple[tuple[str, ...], int, int]]:
    """Each event as (names of the outputs consumed, pre-action state, K)."""
    return [(tuple(m.agent for m in event.members), event.state, event.size) for event in episode.events]
