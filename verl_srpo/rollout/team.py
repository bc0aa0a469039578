"""The team during one episode: asks agents, and keeps the account of what each event consumed."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Awaitable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from verl_srpo.rollout.agent import Agent, no_such
from verl_srpo.rollout.errors import DefinitionError, EpisodeFailure, GenerationFailed, SetRuleError, ToolFailed
from verl_srpo.rollout.failure_log import log_failure
from verl_srpo.rollout.generation import Generator, View, as_messages
from verl_srpo.rollout.output import Event, Output
from verl_srpo.rollout.visibility import VERBATIM_TOKENS, shown_to

Views = Mapping[str, View] | Sequence[tuple[str, View]]
T = TypeVar("T")


@dataclass(frozen=True)
class Rules:
    """How an episode treats failures and malformed outputs (`srpo.failure` and its neighbours).

    Attributes:
        failure: `drop_set`, `drop_episode` or `refill`.
        refill_attempts: further attempts under `refill`.
        invalid_penalty: taken from the event's reward for each of its outputs that is marked invalid.
        gamma: discount of the returns over events.
    """

    failure: str = "drop_set"
    refill_attempts: int = 2
    invalid_penalty: float = 0.1
    gamma: float = 1.0


class Team:
    """What a workflow acts through. One instance belongs to one episode.

    The active set is whatever one event consumes: `act` and `act_set` ask and consume in one step; `ask` and
    `consume` do it apart. An output that no event consumes is not trained on.
    """

    def __init__(self, roster: Iterable[Agent], generator: Generator, rules: Rules | None = None):
        self.roster = {agent.name: agent for agent in roster}
        self.rules = rules or Rules()
        self.outputs: list[Output] = []
        self.events: list[Event] = []
        self.tool_calls = 0
        self.closed = False
        self.failure: EpisodeFailure | None = None
        self._generator = generator
        self._requests: dict[Output, asyncio.Task[None]] = {}
        self._clock = 0

    # ---- acting ---------------------------------------------------------------------------------------------------

    async def act(self, views: Views, *, reward: float = 0.0) -> Any:
        """Ask the agents of `views` side by side; one event consumes their outputs: an active set of len(views).

        Args:
            views: agent name to view; or pairs, which may name an agent more than once.
            reward: the event's own reward.

        Returns:
            One view: its Output. Several: a tuple of Outputs in the order given. Under `drop_set` an Output whose
            call failed has `failed` set and the text ""; its event is removed and the episode goes on.
        """
        outputs = await self.act_set(views, reward=reward)
        return outputs[0] if len(outputs) == 1 else outputs

    async def act_set(self, views: Views, *, reward: float = 0.0) -> tuple[Output, ...]:
        """As `act`, but always a tuple: for sets whose size is only known while the episode runs."""
        pairs = list(views.items() if isinstance(views, Mapping) else views)
        if not pairs:
            raise SetRuleError("act() needs at least one view: an event consumes one or more outputs")
        agents = [self._agent(name) for name, _ in pairs]  # all names first: no request starts before they are right
        messages = [as_messages(agent, view) for agent, (_, view) in zip(agents, pairs, strict=True)]
        outputs = tuple(self._start(agent, view) for agent, view in zip(agents, messages, strict=True))
        await self._settle(outputs)
        self.consume(outputs, reward=reward)
        self._stop_on_failure(outputs)
        return outputs

    async def ask(self, agent: str, view: View) -> Output:
        """Ask one agent; the output is pending until `consume` names it.

        Several calls may run side by side, as tasks. Where such a task is cancelled the request runs on, is awaited
        before the episode ends, and is not trained on.
        """
        member = self._agent(agent)
        output = self._start(member, as_messages(member, view))
        await self._settle((output,))
        self._stop_on_failure((output,))
        return output

    def consume(self, outputs: Output | Iterable[Output], *, reward: float = 0.0) -> Event:
        """One transition that consumes `outputs`: they are its active set.

        Raises:
            SetRuleError: nothing to consume; an output that is not of this episode, still being generated, consumed
                before or named twice; outputs asked for in different states; one shown to the agent of another.
        """
        if self.closed:
            raise DefinitionError("consume() after the episode has ended; await everything inside run()")
        members = (outputs,) if isinstance(outputs, Output) else tuple(outputs)
        self._check_members(members)
        self._check_state(members)
        self._check_visibility(members)
        failure = next((member.failure for member in members if member.failed), "")
        event = Event(len(self.events), members[0].state, members, float(reward), failure)
        self.events.append(event)
        for member in members:
            member.event = event
        return event

    # ---- rewards, tools -------------------------------------------------------------------------------------------

    def reward(self, consumed: Event | Output, amount: float) -> None:
        """Add `amount` to the reward of an event, given by itself or by an output that it consumed."""
        if isinstance(consumed, Output):
            if consumed.event is None:
                raise SetRuleError(f"{consumed.name} was consumed by no event, so there is no event to reward")
            consumed = consumed.event
        consumed.reward += amount

    def invalid(self, output: Output, reason: str) -> None:
        """Mark a malformed action. It is kept as it is; the event that consumes it pays `srpo.invalid_penalty`."""
        output.invalid = output.invalid or reason or "malformed"

    async def tool(self, call: Awaitable[T], *, calls: int = 1, name: str = "tool") -> T:
        """Await a tool and count `calls` of it. What it returns is an observation and never a member of a set.

        Raises:
            ToolFailed: the tool raised; the episode then has no next state and is dropped, with reason `tool_error`.
        """
        self.tool_calls += calls
        try:
            return await call
        except Exception as error:
            self.failure = ToolFailed("tool_error", f"{name}: {type(error).__name__}: {error}")
            raise self.failure from error

    # ---- the episode's end ----------------------------------------------------------------------------------------

    async def close(self) -> None:
        """Wait for requests that are still running, so that none outlives its episode. No asking after this."""
        self.closed = True
        if self._requests:
            await asyncio.wait(list(self._requests.values()))

    def cancel(self) -> None:
        """Give up the requests that are still running, where the whole episode is cancelled."""
        for request in self._requests.values():
            request.cancel()

    def counters(self) -> Counter[str]:
        """What happened so far, under the names of `statistics`."""
        count: Counter[str] = Counter(
            calls=len(self.outputs),
            tool_calls=self.tool_calls,
            events=len(self.events),
            generated_tokens=sum(len(output.response_ids) for output in self.outputs),
            prompt_tokens=sum(len(output.prompt_ids) for output in self.outputs if not output.failed),
            cached_prompt_tokens=sum(output.server_fields.get("num_cached_tokens") or 0 for output in self.outputs),
            unconsumed_outputs=sum(output.event is None for output in self.outputs),
            invalid_outputs=sum(bool(output.invalid) for output in self.outputs),
            truncated_outputs=sum(output.truncated for output in self.outputs),
            empty_outputs=sum(not output.failed and output.done and not output.response_ids for output in self.outputs),
        )
        count.update(f"failed_calls/{output.failure}" for output in self.outputs if output.failed)
        count.update(f"dropped/{event.failure}" for event in self.events if event.failure)
        return count

    # ---- inside ---------------------------------------------------------------------------------------------------

    def _agent(self, name: str) -> Agent:
        if name not in self.roster:
            raise DefinitionError(no_such(name, self.roster, "agent"))
        return self.roster[name]

    def _start(self, agent: Agent, messages: list[dict[str, Any]]) -> Output:
        if self.closed:
            raise DefinitionError(f"{agent.name} is asked after the episode has ended; await it inside run()")
        self._clock += 1
        output = Output(agent.name, len(self.outputs), len(self.events), messages, asked_at=self._clock)
        self.outputs.append(output)
        task = asyncio.ensure_future(self._generator.fill(agent, output))
        self._requests[output] = task
        return output

    async def _settle(self, outputs: Sequence[Output]) -> None:
        """Wait for all of `outputs`. Failures are on the outputs; if the caller is cancelled, the requests run on."""
        tasks = [self._requests[output] for output in outputs]
        await asyncio.wait(tasks)
        self._clock += 1
        for output in outputs:
            output.done, output.answered_at = True, self._clock
            self._requests.pop(output).result()

    def _stop_on_failure(self, outputs: Sequence[Output]) -> None:
        for output in outputs:
            if output.failed:
                failure = GenerationFailed(output.failure, output.failure_message)
                log_failure(output.failure, f"call failed, {output.failure}: {output.failure_message}")
                if self.rules.failure != "drop_set":
                    self.failure = failure
                    raise failure

    def _check_members(self, members: tuple[Output, ...]) -> None:
        if not members:
            raise SetRuleError("consume() needs at least one output: an event consumes one or more outputs")
        seen: set[Output] = set()
        for member in members:
            if not isinstance(member, Output):
                raise SetRuleError(f"consume() takes outputs, got {member!r:.80}")
            if not (member.number < len(self.outputs) and self.outputs[member.number] is member):
                raise SetRuleError(f"{member.name} belongs to another episode")
            if not member.done:
                raise SetRuleError(f"{member.name} is still being generated: await it before an event consumes it")
            if member in seen:
                raise SetRuleError(f"{member.name} is named twice in one event")
            if member.event is not None:
                raise SetRuleError(
                    f"{member.name} was already consumed by event {member.event.index}; an output belongs to one set"
                )
            seen.add(member)

    def _check_state(self, members: tuple[Output, ...]) -> None:
        first = members[0]
        for member in members[1:]:
            if member.state != first.state:
                raise SetRuleError(
                    f"{first.name} was asked for in state {first.state} and {member.name} in state {member.state}: "
                    "members of a set act from the same state; consume them as two events"
                )

    def _check_visibility(self, members: tuple[Output, ...]) -> None:
        # members asked for before any of the others was there cannot have seen them: the usual, free case
        asked, answered = max(m.asked_at for m in members), min(m.answered_at for m in members)
        if len(members) < 2 or asked < answered:
            return
        earlier = [member for event in self.events for member in event.members]
        for output in members:
            for reader in members:
                if reader is not output and shown_to(output, reader, earlier, self._generator.codec.encode):
                    raise SetRuleError(
                        f"{output.name} stands in the prompt of {reader.name} ({VERBATIM_TOKENS} tokens or more, "
                        "verbatim): what an agent has seen before it acts belongs to an earlier event; consume "
                        f"{output.name} first, then {reader.name}"
                    )
