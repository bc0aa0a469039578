"""verl's agent loop manager and worker: every row leaves with set tags, every episode is scored once."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from typing import Any, cast

import ray
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ, AgentLoopWorkerTQ

from verl_srpo.config.settings import SRPOSettings
from verl_srpo.rollout.agent_loop import LOOP_NAME, Session, configured_workflow, current_session, rules_of, session
from verl_srpo.rollout.errors import EpisodeFailure
from verl_srpo.rollout.failure_log import log_failure
from verl_srpo.rollout.rows import TaggedOutput, default_tags, finish_rows
from verl_srpo.rollout.scoring import score_episode
from verl_srpo.rollout.statistics import total
from verl_srpo.rollout.transcript import transcript
from verl_srpo.rollout.transcript_log import transcript_logs

logger = logging.getLogger(__name__)

# an actor class cannot be subclassed; this is the plain class that it wraps
_Worker: Any = cast(Any, AgentLoopWorkerTQ).__ray_metadata__.modified_class


class SRPOAgentLoopWorker(_Worker):
    """Runs workflows, and other agent loops as they are; the rows of both leave with tags."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.settings = SRPOSettings.from_config(self.config)
        self.rules = rules_of(self.settings, self.config)
        self.statistics: dict[str, Counter[str]] = {"train": Counter(), "val": Counter()}
        self.transcripts = transcript_logs(self.settings, self.config)
        self._said: set[str] = set()
        if self.settings.workflow is not None:
            configured_workflow(self.settings)  # an unknown workflow fails here, not once an episode

    async def _run_agent_loop(
        self, sampling_params: dict[str, Any], trajectory: dict[str, Any], *, agent_name: str, **kwargs: Any
    ) -> None:
        validate = bool(trajectory["validate"])
        if self.settings.workflow is not None and agent_name != LOOP_NAME:
            self._say_once(
                f"the dataset's agent_name={agent_name!r} overrides srpo.workflow={self.settings.workflow!r}"
            )
        current = Session(
            validate=validate,
            statistics=self.statistics["val" if validate else "train"],
            temperature=float(sampling_params.get("temperature", 1.0)),
        )
        log = self.transcripts["val" if validate else "train"]
        step = int(kwargs["global_steps"])
        chosen = log.choose(step, int(kwargs["session_id"]))
        with session(current):
            await super()._run_agent_loop(sampling_params, trajectory, agent_name=agent_name, **kwargs)
        if chosen and current.episode is not None:
            record = transcript(current.episode, str(self.settings.workflow), current.outcome_reward)
            await asyncio.to_thread(log.write, step, record)

    async def _agent_loop_postprocess(
        self, output: AgentLoopOutput | list[AgentLoopOutput], validate: bool, **kwargs: Any
    ) -> None:
        outputs = output if isinstance(output, list) else [output]
        if not outputs:  # a dropped episode: counted and logged where it was dropped
            return
        tagged = [isinstance(row, TaggedOutput) for row in outputs]
        if not any(tagged):  # the trainer says so, once
            outputs = list(default_tags(outputs))
        elif not all(tagged):
            without = [index for index, is_tagged in enumerate(tagged) if not is_tagged]
            raise ValueError(
                f"episode {kwargs['uid']}/{kwargs['session_id']}: outputs {without} of {len(tagged)} have no set tags "
                "while the others have; tag all outputs of a session or none"
            )
        try:
            await super()._agent_loop_postprocess(outputs, validate, **kwargs)
        except EpisodeFailure as failure:
            statistics = current_session().statistics
            statistics[f"dropped_episodes/{failure.reason}"] += 1
            episode = cast(TaggedOutput, outputs[0])._episode
            if episode is not None:  # it was counted as kept when it had been played
                statistics["episodes_kept"] -= 1
                statistics["events_kept"] -= len(episode.kept_events)
                statistics["dropped/with_episode"] += len(episode.kept_events)
            where = f"episode {kwargs['uid']}/{kwargs['session_id']}"
            log_failure(failure.reason, f"{where}: dropped, {failure.reason}: {failure}", failure)

    async def _compute_score(self, outputs: list[AgentLoopOutput], kwargs: dict[str, Any]) -> None:
        """Score the episode and complete the tags. verl then copies the last row's score to the other rows."""
        rows = cast("list[TaggedOutput]", outputs)
        last = rows[-1]
        verl_score = super()._compute_score
        if last._episode is not None:
            reward, info = await score_episode(last._episode, kwargs, verl_score, self._encode)
            current_session().outcome_reward = reward
            last.reward_score = reward
            last.extra_fields["reward_extra_info"] = info
        else:
            await verl_score([last], kwargs)  # verl's batch of all outputs cuts the last one wrongly
            last.extra_fields.setdefault("reward_extra_info", {})
        finish_rows(
            rows,
            last.reward_score or 0.0,
            uid=str(kwargs["uid"]),
            session_id=int(kwargs["session_id"]),
            gamma=self.rules.gamma,
            temperature=current_session().temperature,
        )

    def _encode(self, text: str) -> list[int]:
        return list(self.tokenizer.encode(text, add_special_tokens=False))

    def _say_once(self, message: str) -> None:
        if message not in self._said:
            self._said.add(message)
            logger.warning(message)

    async def drain_statistics(self, partition: str = "train") -> dict[str, float]:
        """Counters since the last call, and a new start."""
        counters: dict[str, float] = dict(self.statistics[partition])
        self.statistics[partition].clear()  # in place: episodes that are still running add to it
        return counters


class SRPOAgentLoopManager(AgentLoopManagerTQ):
    """verl's manager with SRPO's workers; `rollout.agent.agent_loop_manager_class` names it."""

    def __init__(self, *args: Any, **kwargs: Any):
        super().__init__(*args, **kwargs)
        self.agent_loop_workers_class = ray.remote(SRPOAgentLoopWorker)

    def drain_statistics(self, partition: str = "train") -> dict[str, float]:
        """Sum of all workers' counters since the last call; see `verl_srpo.rollout.statistics`.

        Args:
            partition: "train" or "val".
        """
        return total(ray.get([worker.drain_statistics.remote(partition) for worker in self.agent_loop_workers]))
