"""Training rows: verl's AgentLoopOutput with the columns that tag a row's set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import torch
from pydantic import PrivateAttr
from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from verl_srpo.rollout.episode import Episode
from verl_srpo.rollout.identifiers import set_identifier, state_identifier
from verl_srpo.rollout.output import Output
from verl_srpo.rollout.returns import event_returns


@dataclass(frozen=True)
class Tags:
    """The columns of one row; types as declared here reach the trainer as int64 and float32.

    Where an agent loop of one's own makes the rows, it says `event_index`, `member_index`, `set_size`, `agent_id` and
    what it knows of the rest; the worker fills in identifiers, outcome and returns.

    Attributes:
        state: events that the episode had consumed when the output was asked for; -1 means as many as `event_index`.
        num_events: events of the episode, removed ones included.
        invalid, truncated: malformed action; cut by its token limit.
        sampling_temperature: what the output was sampled at, agents may differ; -1 means the batch's.
        tagged: 0 on rows that were given a set of their own because their agent loop knows no sets.
    """

    event_index: int
    member_index: int = 0
    set_size: int = 1
    agent_id: int = 0
    event_reward: float = 0.0
    num_events: int = 0
    invalid: int = 0
    truncated: int = 0
    sampling_temperature: float = -1.0
    tagged: int = 1
    state: int = -1
    set_id: int = -1
    state_id: int = -1
    outcome_reward: float = 0.0
    event_return: float = 0.0
    episode_return: float = 0.0


_COLUMNS = [(f.name, torch.float32 if f.type == "float" else torch.int64) for f in fields(Tags) if f.name != "state"]


class TaggedOutput(AgentLoopOutput):
    """A row with set tags. `finish_rows` completes the tags once the episode's outcome reward is known."""

    _tags: Tags | None = PrivateAttr(default=None)
    _episode: Episode | None = PrivateAttr(default=None)
    _finished: bool = PrivateAttr(default=False)

    @classmethod
    def of(cls, output: AgentLoopOutput, tags: Tags) -> TaggedOutput:
        """`output` with tags; a subclass of AgentLoopOutput keeps its own fields and its own `as_dict`."""
        row = _tagged_class(type(output)).model_construct(_fields_set=set(output.model_fields_set), **dict(output))
        row._tags = tags
        return row

    @property
    def tags(self) -> Tags:
        if self._tags is None:
            raise ValueError("this TaggedOutput has no tags; make it with TaggedOutput.of(output, Tags(...))")
        return self._tags

    def as_dict(self) -> dict[str, Any]:
        """verl's columns and the tags as 0-d tensors, which TransferQueue keeps as dense columns."""
        if not self._finished:
            raise ValueError(
                "tags without identifiers and returns: rows with set tags need the agent loop manager "
                "verl_srpo.rollout.manager.SRPOAgentLoopManager (rollout.agent.agent_loop_manager_class)"
            )
        columns = {name: torch.tensor(getattr(self.tags, name), dtype=dtype) for name, dtype in _COLUMNS}
        return {**super().as_dict(), **columns}


@cache
def _tagged_class(cls: type[AgentLoopOutput]) -> type[TaggedOutput]:
    if issubclass(cls, TaggedOutput):
        return cls
    return TaggedOutput if cls is AgentLoopOutput else type(f"Tagged{cls.__name__}", (TaggedOutput, cls), {})


def episode_rows(episode: Episode, *, eos_token_id: int, fill_log_probs: bool) -> list[TaggedOutput]:
    """One row for each output that is trained on; the last row carries the episode's score.

    Args:
        eos_token_id: stands, masked, for a response of no tokens: verl writes the score to a row's last token.
        fill_log_probs: whether rows carry log-probs, so that such a token gets one as well.
    """
    event_rewards = [episode.event_reward(event) for event in episode.events]
    agent_ids = {name: index for index, name in enumerate(episode.agents)}
    rows = []
    for event in episode.kept_events:
        for member_index, member in enumerate(event.members):
            tags = Tags(
                event_index=event.index,
                member_index=member_index,
                set_size=event.size,
                agent_id=agent_ids[member.agent],
                event_reward=event_rewards[event.index],
                num_events=len(episode.events),
                invalid=int(bool(member.invalid)),
                truncated=int(member.truncated),
                sampling_temperature=member.temperature,
                state=event.state,
            )
            row = TaggedOutput.of(_verl_output(episode, member, eos_token_id, fill_log_probs), tags)
            row._episode = episode
            rows.append(row)
    return rows


def _verl_output(episode: Episode, member: Output, eos_token_id: int, fill_log_probs: bool) -> AgentLoopOutput:
    ids, log_probs = list(member.response_ids), member.log_probs
    mask = [1] * len(ids)
    if not ids:
        ids, mask, log_probs = [eos_token_id], [0], [0.0] if fill_log_probs else None
    extra: dict[str, Any] = {
        "min_global_steps": member.server_fields.get("min_global_steps"),
        "max_global_steps": member.server_fields.get("max_global_steps"),
        "agent": member.agent,
        "roster": list(episode.agents),
        "invalid": member.invalid,
        "costs": episode.costs,
        "reward_extra_info": {},
    }
    optional: dict[str, Any] = {} if member.routed_experts is None else {"routed_experts": member.routed_experts}
    return AgentLoopOutput(
        prompt_ids=member.prompt_ids,
        response_ids=ids,
        response_mask=mask,
        response_logprobs=log_probs,
        num_turns=len(member.messages) + 1,
        metrics=AgentLoopMetrics(generate_sequences=member.seconds),
        extra_fields=extra,
        **optional,
    )


def default_tags(outputs: Sequence[AgentLoopOutput]) -> list[TaggedOutput]:
    """Rows of an agent loop that knows no sets: each output is a set of its own, in the order returned."""
    return [
        TaggedOutput.of(output, Tags(event_index=index, num_events=len(outputs), tagged=0))
        for index, output in enumerate(outputs)
    ]


def finish_rows(
    rows: Sequence[TaggedOutput],
    outcome_reward: float,
    *,
    uid: str,
    session_id: int,
    gamma: float,
    temperature: float,
) -> None:
    """Fill in identifiers, outcome and returns of one episode's rows.

    Events without rows count with the rewards that the episode says they had (0 where there is no Episode).

    Args:
        temperature: the batch's sampling temperature.
    """
    episode = rows[0]._episode
    if episode is not None:
        returns = episode.returns(outcome_reward)
    else:
        events = max(row.tags.num_events or row.tags.event_index + 1 for row in rows)
        rewards = {row.tags.event_index: row.tags.event_reward for row in rows}
        returns = event_returns([rewards.get(index, 0.0) for index in range(events)], outcome_reward, gamma=gamma)
    for row in rows:
        tags = row.tags
        state = tags.event_index if tags.state < 0 else tags.state
        row._tags = replace(
            tags,
            num_events=len(returns),
            sampling_temperature=temperature if tags.sampling_temperature < 0 else tags.sampling_temperature,
            set_id=set_identifier(uid, session_id, tags.event_index),
            state_id=state_identifier(uid, session_id, state),
            outcome_reward=outcome_reward,
            event_return=returns[tags.event_index],
            episode_return=returns[0],
        )
        row._finished = True
