"""An agent's output, and the event that consumes one or more of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(eq=False)
class Output:
    """One agent's response to one prompt. Made by `Team`; a workflow reads `text`, `failed` and `truncated`.

    Attributes:
        agent: who was asked.
        number: position among the episode's outputs, in the order they were asked for.
        state: events that the episode had consumed when the output was asked for: its pre-action state.
        text: decoded response without special tokens; "" when the call failed.
        truncated: cut by its token limit instead of ended by the model.
        failure: why the call failed, "" if it did not.
        invalid: why the output is a malformed action, "" if it is not one.
        prompt_ids, response_ids, log_probs: exactly what the server was sent and what it sampled; never re-tokenised.
        event: the event that consumed it, if any.
    """

    agent: str
    number: int
    state: int
    messages: list[dict[str, Any]]
    text: str = ""
    truncated: bool = False
    failure: str = ""
    failure_message: str = ""
    invalid: str = ""
    temperature: float = 1.0
    prompt_ids: list[int] = field(default_factory=list)
    response_ids: list[int] = field(default_factory=list)
    log_probs: list[float] | None = None
    routed_experts: Any = None
    server_fields: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    event: Event | None = None
    done: bool = False
    # ticks of the episode's clock: what was asked for after another output was there may have seen it
    asked_at: int = 0
    answered_at: int = 0

    @property
    def failed(self) -> bool:
        return bool(self.failure)

    @property
    def name(self) -> str:
        """How messages call this output: agent and number."""
        return f"{self.agent}#{self.number}"

    @property
    def view_text(self) -> str:
        """Everything that the prompt's messages say, for reading."""
        return "\n".join(str(message.get("content", "")) for message in self.messages)


@dataclass(eq=False)
class Event:
    """One transition of an episode; `members` is its active set.

    Attributes:
        index: position in the episode, from 0.
        state: pre-action state, the same for all members.
        reward: the event's own reward, without invalid-action penalties.
        failure: why the event is removed ("" if it is complete): the first failed member's reason.
    """

    index: int
    state: int
    members: tuple[Output, ...]
    reward: float = 0.0
    failure: str = ""

    @property
    def size(self) -> int:
        return len(self.members)

    @property
    def invalid_members(self) -> int:
        return sum(bool(member.invalid) for member in self.members)
