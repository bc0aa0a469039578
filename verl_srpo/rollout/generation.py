"""One call to the model: view to prompt ids, the limits, the request, and what comes back checked.

Works with anything that has the `generate` of verl's `LLMServerClient`; verl itself is not imported here.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from verl_srpo.rollout.agent import Agent
from verl_srpo.rollout.errors import DefinitionError, EpisodeFailure, GenerationFailed
from verl_srpo.rollout.output import Output

logger = logging.getLogger(__name__)

View = str | Sequence[Mapping[str, Any]]
"""What an agent is shown: the text of one user message, or a list of chat messages."""


class LLMClient(Protocol):
    """The part of verl's `LLMServerClient` that is used."""

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **kwargs: Any
    ) -> Any: ...


class Codec(Protocol):
    """Text to token ids and back; every method may be slow and is called in a thread."""

    eos_token_ids: frozenset[int]

    def prompt(self, messages: list[dict[str, Any]]) -> list[int]:
        """Chat template applied, generation prompt added, nothing cut."""
        ...

    def encode(self, text: str) -> list[int]:
        """Ids of a bare text, without special tokens around it."""
        ...

    def decode(self, ids: list[int]) -> str:
        """Text without special tokens."""
        ...


@dataclass(frozen=True)
class Limits:
    """Token limits; the names in the messages are verl's options.

    Attributes:
        context: prompt and response together (`rollout.max_model_len`, else prompt_length + response_length).
        prompt: `data.max_prompt_length`, for agents that say nothing.
        response: `rollout.response_length`, for agents that say nothing.
    """

    context: int
    prompt: int
    response: int
    truncate_prompts: bool = False
    timeout: float | None = None


def as_messages(agent: Agent, view: View) -> list[dict[str, Any]]:
    """The view as chat messages, the agent's system prompt first unless the view has its own."""
    messages = [{"role": "user", "content": view}] if isinstance(view, str) else [dict(message) for message in view]
    if not messages or not all({"role", "content"} <= message.keys() for message in messages):
        raise DefinitionError(
            f"{agent.name}: a view is a text or a non-empty list of messages with role and content, got {view!r}"
        )
    if agent.system and messages[0]["role"] != "system":
        messages.insert(0, {"role": "system", "content": agent.system})
    return messages


@dataclass
class Generator:
    """Fills outputs by asking the model.

    Attributes:
        sampling: verl's own sampling parameters of this batch (those of validation when `validate`).
        episode: names the episode in request ids; one id per episode and agent keeps its prefix cache warm.
        unique_requests: give every call an id of its own (verl's `full_determinism` hands ids to the engine as is).
    """

    llm: LLMClient
    codec: Codec
    limits: Limits
    sampling: Mapping[str, Any] = field(default_factory=dict)
    episode: str = "episode"
    validate: bool = False
    unique_requests: bool = False

    async def fill(self, agent: Agent, output: Output) -> None:
        """Ask the model; on return `output` holds what was sampled, or the reason why there is nothing."""
        start = time.monotonic()
        try:
            await self._fill(agent, output)
        except EpisodeFailure as failure:
            output.failure, output.failure_message = failure.reason, str(failure)
            output.response_ids, output.log_probs, output.text, output.truncated = [], None, "", False
        finally:
            output.seconds = time.monotonic() - start

    async def _fill(self, agent: Agent, output: Output) -> None:
        loop = asyncio.get_running_loop()
        parameters = agent.sampling_parameters(self.sampling, validate=self.validate, max_tokens=self.limits.response)
        try:
            prompt = await loop.run_in_executor(None, self.codec.prompt, output.messages)
        except Exception as error:
            raise GenerationFailed("chat_template", f"{output.name}: {type(error).__name__}: {error}") from error
        output.prompt_ids = self._fit(agent, output, list(prompt), parameters["max_tokens"])
        output.temperature = float(parameters.get("temperature", 1.0))
        result = await self._request(agent, output, dict(parameters))
        wants_log_probs = bool(parameters.get("logprobs"))
        ids, log_probs = _sampled(output, result, wants_log_probs)
        output.response_ids, output.log_probs = ids, log_probs
        output.routed_experts = getattr(result, "routed_experts", None)
        output.server_fields = dict(getattr(result, "extra_fields", None) or {})
        try:
            output.text = await loop.run_in_executor(None, self.codec.decode, ids)
        except Exception as error:
            raise GenerationFailed(
                "garbage", f"{output.name}: ids {ids[:8]}... do not decode: {type(error).__name__}: {error}"
            ) from error
        output.truncated = self._is_truncated(output, result, parameters)

    def _fit(self, agent: Agent, output: Output, prompt: list[int], max_tokens: int) -> list[int]:
        """The prompt, if it fits; else cut from the left if that was asked for."""
        limit = self.limits.prompt if agent.max_prompt_tokens is None else agent.max_prompt_tokens
        option = "data.max_prompt_length" if agent.max_prompt_tokens is None else "Agent.max_prompt_tokens"
        room = self.limits.context - max_tokens
        if len(prompt) <= min(limit, room):
            return prompt
        if self.limits.truncate_prompts and room > 0:
            logger.warning(
                "%s: prompt of %d tokens cut to its last %d (srpo.truncate_prompts)",
                output.name, len(prompt), min(limit, room),
            )  # fmt: skip
            return prompt[-min(limit, room) :]
        if len(prompt) > limit:
            why = f"is longer than {option}={limit}; raise it"
        else:
            why = (
                f"and {max_tokens} to generate do not fit into rollout.max_model_len={self.limits.context}; raise it, "
                f"lower srpo.agents.{agent.name}.max_tokens"
            )
        raise GenerationFailed(
            "prompt_too_long",
            f"{output.name}: prompt of {len(prompt)} tokens {why}, shorten the view, or set srpo.truncate_prompts=True",
        )

    async def _request(self, agent: Agent, output: Output, parameters: dict[str, Any]) -> Any:
        request_id = f"{self.episode}-{output.name if self.unique_requests else agent.name}"
        call = self.llm.generate(request_id=request_id, prompt_ids=output.prompt_ids, sampling_params=parameters)
        try:
            return await asyncio.wait_for(call, self.limits.timeout)
        except (asyncio.TimeoutError, TimeoutError) as error:
            raise GenerationFailed(
                "timeout", f"{output.name}: no answer within srpo.call_timeout={self.limits.timeout} s"
            ) from error
        except Exception as error:
            raise GenerationFailed("server_error", f"{output.name}: {type(error).__name__}: {error}") from error

    def _is_truncated(self, output: Output, result: Any, parameters: Mapping[str, Any]) -> bool:
        """verl calls both a natural end and a full budget "completed", so look at how the tokens end."""
        ids = output.response_ids
        if getattr(result, "stop_reason", None) == "length":
            return True
        if len(ids) < parameters["max_tokens"] or ids[-1] in self.codec.eos_token_ids:
            return False
        return not output.text.rstrip().endswith(tuple(stop.rstrip() for stop in parameters.get("stop", ())))


def _sampled(output: Output, result: Any, wants_log_probs: bool) -> tuple[list[int], list[float] | None]:
    """The sampled ids and log-probs, if they are what a server may return."""
    stop_reason = getattr(result, "stop_reason", None)
    if stop_reason in ("aborted", "abort"):
        raise GenerationFailed("aborted", f"{output.name}: the server aborted the request")
    try:
        ids = [int(token) for token in result.token_ids]
    except (AttributeError, TypeError, ValueError) as error:
        raise GenerationFailed("garbage", f"{output.name}: the server returned {result!r:.120}") from error
    if not wants_log_probs:
        return ids, None
    log_probs = [float(value) for value in (result.log_probs or ())]
    if len(log_probs) != len(ids):
        raise GenerationFailed(
            "log_prob_mismatch",
            f"{output.name}: the server returned {len(ids)} token ids and {len(log_probs)} log-probs",
        )
    if not all(map(math.isfinite, log_probs)):
        raise GenerationFailed("garbage", f"{output.name}: the server returned log-probs that are not finite")
    return ids, log_probs
