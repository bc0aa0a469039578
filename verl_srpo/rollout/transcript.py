"""What happened in an episode, as one JSON object and as text: who said what, which event consumed what."""

from __future__ import annotations

import json
import textwrap
from typing import Any

from verl_srpo.rollout.episode import Episode
from verl_srpo.rollout.output import Output

WIDTH = 100


def transcript(episode: Episode, workflow: str, outcome_reward: float | None) -> dict[str, Any]:
    """A JSON object of one episode.

    Args:
        workflow: its name.
        outcome_reward: None where nothing was scored; the returns are then left out.
    """
    scored = outcome_reward is not None
    returns = episode.returns(outcome_reward) if outcome_reward is not None else [None] * len(episode.events)
    return {
        "workflow": workflow,
        "uid": episode.task.uid,
        "session_id": episode.task.session_id,
        "validate": episode.task.validate,
        "data_source": episode.task.data.get("data_source"),
        "question": episode.task.question,
        "answer": episode.outcome.answer,
        "outcome_reward": outcome_reward if scored else None,
        "info": dict(episode.outcome.info),
        "dropped": episode.dropped,
        "message": episode.message,
        "costs": episode.costs,
        "events": [
            {
                "event": event.index,
                "state": event.state,
                "set_size": event.size,
                "reward": episode.event_reward(event),
                "return": returns[event.index],
                "removed": event.failure,
                "members": [_said(member) for member in event.members],
            }
            for event in episode.events
        ],
        "unconsumed": [_said(output) for output in episode.outputs if output.event is None],
    }


def _said(output: Output) -> dict[str, Any]:
    return {
        "output": output.name,
        "agent": output.agent,
        "messages": output.messages,
        "text": output.text,
        "prompt_tokens": len(output.prompt_ids),
        "response_tokens": len(output.response_ids),
        "truncated": output.truncated,
        "invalid": output.invalid,
        "failure": output.failure_message,
    }


def as_line(record: dict[str, Any]) -> str:
    """One line of a JSON-lines file, its end included."""
    return json.dumps(record, ensure_ascii=False, default=str) + "\n"


def as_text(record: dict[str, Any], *, prompts: bool = False) -> str:
    """The transcript for reading.

    Args:
        prompts: show what each agent was shown as well.
    """
    lines = [
        f"{record['workflow']}  episode {record['uid']}/{record['session_id']}",
        _indent(record["question"], "  ? "),
    ]
    for event in record["events"]:
        value = "" if event["return"] is None else f", return {event['return']:g}"
        removed = f", removed: {event['removed']}" if event["removed"] else ""
        lines.append(
            f"event {event['event']}: K = {event['set_size']}, state {event['state']}, reward {event['reward']:g}"
            f"{value}{removed}"
        )
        for member in event["members"]:
            lines += _lines_of(member, prompts)
    for output in record["unconsumed"]:
        lines.append("consumed by no event, not trained on:")
        lines += _lines_of(output, prompts)
    if record["dropped"]:
        lines.append(f"dropped, {record['dropped']}: {record['message']}")
    reward = record["outcome_reward"]
    lines.append(f"outcome: {'not scored' if reward is None else f'{reward:g}'}, answer {record['answer']!r}")
    costs = record["costs"]
    lines.append(
        f"costs: {costs['calls']:g} calls, {costs['team_tokens']:g} tokens, {costs['tool_calls']:g} tool calls, "
        f"{costs['wall_clock_s']:.2f} s"
    )
    return "\n".join(lines) + "\n"


def _lines_of(member: dict[str, Any], prompts: bool) -> list[str]:
    marks = [f"{member['response_tokens']} tokens"]
    marks += ["cut by its limit"] if member["truncated"] else []
    marks += [f"invalid: {member['invalid']}"] if member["invalid"] else []
    marks += [f"failed: {member['failure']}"] if member["failure"] else []
    lines = [f"  {member['output']} ({', '.join(marks)})"]
    if prompts:
        lines += [_indent(f"[{m['role']}] {m['content']}", "    < ") for m in member["messages"]]
    return [*lines, _indent(member["text"], "    | ")]


def _indent(text: str, prefix: str) -> str:
    wrapped = [textwrap.wrap(line, WIDTH, replace_whitespace=False) or [""] for line in str(text).split("\n")]
    return "\n".join(prefix + part for line in wrapped for part in line)
