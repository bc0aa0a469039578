"""Plays episodes, and is the one boundary where a failure becomes a dropped episode with a reason."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

from verl_srpo.rollout.errors import DefinitionError, EpisodeFailure, SetRuleError
from verl_srpo.rollout.failure_log import log_failure
from verl_srpo.rollout.output import Event, Output
from verl_srpo.rollout.returns import event_returns
from verl_srpo.rollout.team import Rules, Team
from verl_srpo.rollout.workflow import Outcome, Task, Workflow


@dataclass
class Episode:
    """What is left of a played episode.

    Attributes:
        agents: names of the roster, in order; a row's `agent_id` is the index.
        events: all of them, removed ones included.
        outputs: all of them, consumed or not.
        dropped: why nothing of the episode is trained on; "" if something is.
        costs: generated team tokens, calls, tool calls, wall clock and more, as plain numbers.
    """

    task: Task
    agents: tuple[str, ...]
    events: list[Event]
    outputs: list[Output]
    outcome: Outcome
    rules: Rules
    dropped: str = ""
    message: str = ""
    costs: dict[str, float] = field(default_factory=dict)

    @property
    def kept_events(self) -> list[Event]:
        """Events of which every member is there."""
        return [] if self.dropped else [event for event in self.events if not event.failure]

    @property
    def trained(self) -> list[Output]:
        """Outputs that become rows: members of kept events, in the order of events and members."""
        return [member for event in self.kept_events for member in event.members]

    def event_reward(self, event: Event) -> float:
        """The event's own reward, less the penalty for each malformed output."""
        return event.reward - self.rules.invalid_penalty * event.invalid_members

    def returns(self, outcome_reward: float) -> list[float]:
        """R_S of every event, removed ones included; the outcome belongs to the last one."""
        return event_returns([self.event_reward(e) for e in self.events], outcome_reward, gamma=self.rules.gamma)

    @property
    def answer_output(self) -> Output | None:
        """The output of which the answer is the whole text, if there is one; the last such."""
        answer = self.outcome.answer
        return next((o for o in reversed(self.outputs) if answer and not o.failed and o.text == answer), None)


async def play(
    workflow: Workflow,
    task: Task,
    new_team: Callable[[], Team],
    *,
    name: str = "workflow",
    statistics: Counter[str] | None = None,
) -> Episode:
    """Play one episode; under `refill` again while it fails, up to `refill_attempts` more times.

    Args:
        new_team: a fresh team for every attempt.
        name: the workflow's name, for messages.
        statistics: counters to add to.

    Raises:
        DefinitionError: the workflow itself is wrong, for example it asks an agent that its roster lacks.
    """
    statistics = Counter() if statistics is None else statistics
    statistics["episodes"] += 1
    attempt = 0
    while True:
        team = new_team()
        episode = await _attempt(workflow, task, team, name)
        statistics.update(team.counters())
        statistics["events_kept"] += len(episode.kept_events)
        if not episode.dropped:
            statistics["episodes_kept"] += 1
            return episode
        statistics["dropped/with_episode"] += sum(not event.failure for event in episode.events)
        if team.rules.failure != "refill" or attempt == team.rules.refill_attempts:
            break
        attempt += 1
        statistics["refilled_episodes"] += 1
    statistics[f"dropped_episodes/{episode.dropped}"] += 1
    return episode


async def _attempt(workflow: Workflow, task: Task, team: Team, name: str) -> Episode:
    start = time.monotonic()
    outcome, reason, message, cause = Outcome(), "", "", None
    try:
        outcome = _checked(await workflow.run(task, team))
    except asyncio.CancelledError:
        team.cancel()
        raise
    except DefinitionError:
        raise
    except EpisodeFailure as failure:
        reason, message = failure.reason, str(failure)
    except SetRuleError as error:
        reason, message = "set_rule", str(error)
    except Exception as error:
        message = f"{type(error).__name__}: {error}"
        if team.failure is None:  # else: a failed call or tool, wrapped by the workflow on its way here
            reason = "workflow_error"
            cause = error
    finally:
        await team.close()
    if not reason:
        reason, message = _why_dropped(team, outcome)
    if reason:
        log_failure(f"episode {reason}", f"{_where(name, task, team)}: dropped, {reason}: {message}", cause)
    return Episode(
        task=task,
        agents=tuple(team.roster),
        events=list(team.events),
        outputs=list(team.outputs),
        outcome=outcome,
        rules=team.rules,
        dropped=reason,
        message=message,
        costs=_costs(team, time.monotonic() - start),
    )


def _checked(outcome: Outcome) -> Outcome:
    if not isinstance(outcome, Outcome):
        raise DefinitionError(f"run() must return an Outcome, got {outcome!r:.80}")
    if outcome.answer is not None and not isinstance(outcome.answer, str):
        raise DefinitionError(f"Outcome.answer must be a text or None, got {outcome.answer!r:.80}")
    if outcome.reward is not None and not math.isfinite(outcome.reward):
        raise ValueError(f"Outcome.reward={outcome.reward} is not a finite number")
    return outcome


def _why_dropped(team: Team, outcome: Outcome) -> tuple[str, str]:
    """The reason why a finished run gives no rows, if it does not."""
    if team.failure is not None:  # also where the workflow caught it: the rule holds all the same
        return team.failure.reason, str(team.failure)
    failed = next((output for output in team.outputs if output.failed), None)
    if outcome.reward is None and outcome.answer is None:
        if failed is not None:
            return failed.failure, failed.failure_message
        return "no_answer", "run() returned an Outcome with neither answer nor reward"
    if not team.events:
        return "no_events", "no event consumed an output"
    last = team.events[-1]
    if outcome.reward is None and not outcome.answer and last.failure:
        return last.failure, f"the call that should have given the answer failed: {last.members[0].failure_message}"
    if all(event.failure for event in team.events):
        return "no_rows", "every event was removed"
    return "", ""


def _where(name: str, task: Task, team: Team) -> str:
    asked = f"last asked: {team.outputs[-1].name}" if team.outputs else "nobody asked yet"
    return f"workflow {name}, episode {task.uid}/{task.session_id}, event {len(team.events)}, {asked}"


def _costs(team: Team, seconds: float) -> dict[str, float]:
    count = team.counters()
    return {
        "team_tokens": float(count["generated_tokens"]),
        "calls": float(count["calls"]),
        "tool_calls": float(count["tool_calls"]),
        "wall_clock_s": seconds,
        "events": float(len(team.events)),
        "mean_set_size": sum(event.size for event in team.events) / max(1, len(team.events)),
        "invalid_outputs": float(count["invalid_outputs"]),
        "failed_calls": float(sum(output.failed for output in team.outputs)),
    }
