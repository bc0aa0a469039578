"""The outcome reward of an episode: the workflow's own, or verl's reward function on the team's answer."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput

from verl_srpo.rollout.episode import Episode
from verl_srpo.rollout.errors import EpisodeFailure

VerlScore = Callable[[list[AgentLoopOutput], dict[str, Any]], Awaitable[None]]


async def score_episode(
    episode: Episode, kwargs: Mapping[str, Any], verl_score: VerlScore, encode: Callable[[str], list[int]]
) -> tuple[float, dict[str, Any]]:
    """Outcome reward and `reward_extra_info`.

    Args:
        kwargs: the dataset row, as verl's worker hands it to the reward manager.
        verl_score: verl's own `_compute_score`.
        encode: text to ids, for an answer that is no output's whole text.

    Raises:
        EpisodeFailure: the reward function raised, or no reward worker is there.
    """
    outcome = episode.outcome
    info = dict(outcome.info)
    if outcome.reward is not None:
        reward, scored = float(outcome.reward), {}
    else:
        reward, scored = await _verl_reward(episode, kwargs, verl_score, encode)
    # verl's validation dump has no column for it, and evaluation goes by data set
    source = {"data_source": str(kwargs["data_source"])} if kwargs.get("data_source") is not None else {}
    return reward, {**source, **{key: _plain(value) for key, value in info.items()}, **episode.costs, **scored}


async def _verl_reward(
    episode: Episode, kwargs: Mapping[str, Any], verl_score: VerlScore, encode: Callable[[str], list[int]]
) -> tuple[float, dict[str, Any]]:
    answer, said_by = episode.outcome.answer or "", episode.answer_output
    ids = list(said_by.response_ids) if said_by else encode(answer)
    probe = AgentLoopOutput(
        prompt_ids=list(said_by.prompt_ids) if said_by else list(episode.trained[-1].prompt_ids),
        response_ids=ids,
        response_mask=[1] * len(ids),
        num_turns=len(episode.outputs),
        metrics=AgentLoopMetrics(),
        extra_fields={},
    )
    extra_info = {**(kwargs.get("extra_info") or {}), "team": {**episode.outcome.info, **episode.costs}}
    try:
        await verl_score([probe], {**kwargs, "extra_info": extra_info})
    except Exception as error:
        raise EpisodeFailure("reward_error", f"the reward function failed: {type(error).__name__}: {error}") from error
    if probe.reward_score is None:
        raise EpisodeFailure(
            "reward_error",
            "no reward worker scored the answer: a colocated reward model cannot score a team's answer; use a reward "
            "function, or give the reward model resources of its own (reward.reward_model.enable_resource_pool=True)",
        )
    return float(probe.reward_score), dict(probe.extra_fields.get("reward_extra_info") or {})


def _plain(value: Any) -> Any:
    """Numbers and texts as they are, which is what verl's validation metrics can take; the rest as JSON."""
    if isinstance(value, bool):
        return int(value)
    return value if isinstance(value, int | float | str) else json.dumps(value, default=str, ensure_ascii=False)
