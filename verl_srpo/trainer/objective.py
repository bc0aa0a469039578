"""From rows and rewards to what the loss needs on each row: advantage, weight, size and tokens of its whole set."""

from __future__ import annotations

import numpy as np
import torch
from tensordict import TensorDict

from verl_srpo import core
from verl_srpo.config import SRPOSettings
from verl_srpo.core.arguments import check_floating, check_like
from verl_srpo.core.packing import Layout
from verl_srpo.core.sets import check_equal_within_sets, check_finite, group_rows
from verl_srpo.trainer import metrics as srpo_metrics
from verl_srpo.trainer.estimators import get_set_advantage
from verl_srpo.trainer.off_policy import off_policy_metrics, set_importance
from verl_srpo.trainer.rows import Rows


class Objective:
    """The settings of the objective, applied to one batch after another on the driver."""

    def __init__(self, config, settings: SRPOSettings):
        self.settings = settings
        self.estimate = get_set_advantage(settings.advantage)
        actor = config.actor_rollout_ref.actor
        self.clip_low = float(actor.clip_ratio if actor.clip_ratio_low is None else actor.clip_ratio_low)
        self.clip_high = float(actor.clip_ratio if actor.clip_ratio_high is None else actor.clip_ratio_high)
        correction = config.algorithm.get("rollout_correction") or {}
        self.bypass = bool(correction.get("bypass_mode", False))

    def worker_options(self, first_is_old: bool) -> dict:
        """What the actor workers need beside the columns.

        `first_is_old`: the first mini-batch meets the very weights that recomputed the old log-probs.
        """
        clip = {"clip_low": self.clip_low, "clip_high": self.clip_high}
        return {**self.settings.ratio_options(), **clip, "first_is_old": first_is_old and not self.bypass}

    def columns(self, rows: Rows, layout: Layout, data: TensorDict) -> tuple[TensorDict, dict[str, float]]:
        """The columns that the loss and verl's metrics read, and the step's metrics.

        Args:
            rows: tags of the P laid-out rows; padding and removed rows have negative set_id.
            layout: which mini-batch each row is in.
            data: jagged `response_mask` of the rows, and where the rollout reports log-probs, `old_log_probs` and
                `rollout_log_probs` too.

        Returns:
            Columns with one entry a row (P,), `advantages` and `returns` jagged as the mask; and metrics by name.
        """
        mask = data["response_mask"]
        lengths = segment_sums(mask.values(), mask.offsets())
        ids = torch.from_numpy(rows.set_id)
        advantages, lonely = self._advantages(rows, ids)
        weights = self._weights(rows, layout, ids, lengths)
        metrics = srpo_metrics.signal_metrics(rows, advantages.numpy(), lonely.numpy())
        metrics["srpo/empty_responses"] = int(((lengths == 0) & (ids >= 0)).sum())
        importance, importance_metrics = self._importance(data, ids)
        metrics |= importance_metrics
        per_token = torch.repeat_interleave(advantages.float(), mask.offsets().diff()) * mask.values()
        per_token = torch.nested.nested_tensor_from_jagged(per_token, mask.offsets())
        columns = {
            "srpo_advantage": advantages.float(),
            "srpo_weight": weights.float(),
            "srpo_importance": importance.float(),
            "srpo_set_size": _of_set(ids, torch.ones_like(ids)),
            "srpo_set_tokens": _of_set(ids, lengths),
            "advantages": per_token,  # verl's own metrics read these two
            "returns": per_token.clone(),
        }
        return TensorDict(columns, batch_size=len(ids)), metrics

    def agent_metrics(self, rows: Rows, roster: list[str], data: TensorDict) -> dict[str, float]:
        """`srpo/agent/NAME/*` of each agent of the `roster`; `data` holds jagged `response_mask`, maybe `entropy`."""
        mask = data["response_mask"]
        lengths = segment_sums(mask.values(), mask.offsets()).numpy()
        entropy = None
        if "entropy" in data:
            entropy = segment_sums(data["entropy"].values() * mask.values(), mask.offsets()).numpy()
        return srpo_metrics.agent_metrics(rows, roster, lengths, entropy)

    def _advantages(self, rows: Rows, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        returns, episodes, tasks = map(torch.from_numpy, (rows.event_return, rows.episode, rows.task))
        columns = {
            "agent_ids": torch.from_numpy(rows.agent_id),
            "event_index": torch.from_numpy(rows.event_index),
            "episode_returns": torch.from_numpy(rows.episode_return),
            **self.settings.advantage_options(),
        }
        populations = core.set_populations(returns, ids, episodes, tasks, **columns)
        advantages = self.estimate(returns, ids, episodes, tasks, **columns)
        check_advantages(f"the result of srpo.advantage={self.settings.advantage}", advantages, ids)
        return torch.where(ids >= 0, advantages, 0.0), populations.lonely

    def _weights(self, rows: Rows, layout: Layout, ids: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        """w_S on each row, summing to 1 over the sets of each global mini-batch."""
        weights = torch.zeros(len(ids), dtype=torch.float64)
        mini_batch = layout.mini_batch_of()
        for index in range(layout.mini_batches):
            chosen = torch.from_numpy(np.flatnonzero(mini_batch == index))
            weights[chosen] = core.event_weights(
                ids[chosen],
                reduction=self.settings.event_reduction,
                episode_ids=torch.from_numpy(rows.episode)[chosen],
                task_ids=torch.from_numpy(rows.task)[chosen],
                response_lengths=lengths[chosen],
            ).double()
        return weights

    def _importance(self, data: TensorDict, ids: torch.Tensor) -> tuple[torch.Tensor, dict[str, float]]:
        """Factor of each row's set in the policy loss, (N,): 1 without `set_importance_threshold`; and metrics."""
        importance = torch.ones(len(ids), dtype=torch.float64)
        if "rollout_log_probs" not in data or self.bypass:  # in bypass mode the two are the same numbers
            return importance, {}
        padded = data.select("response_mask", "old_log_probs", "rollout_log_probs").to_padded_tensor()
        log_probs = padded["old_log_probs"], padded["rollout_log_probs"], padded["response_mask"].bool()
        metrics = off_policy_metrics(*log_probs, ids)
        if self.settings.set_importance_threshold is not None:
            importance, importance_metrics = set_importance(
                *log_probs,
                ids,
                threshold=self.settings.set_importance_threshold,
                member_norm=self.settings.member_norm,
                cardinality_norm=self.settings.cardinality_norm,
            )
            metrics |= importance_metrics
        return importance, metrics


def check_advantages(name: str, advantages: torch.Tensor, ids: torch.Tensor) -> None:
    """Raise ValueError unless `advantages` are floats (N,), finite and equal on the rows of each set of `ids` (N,)."""
    check_floating(name, advantages)
    check_like(name, advantages, "set_ids", ids, dims=1)
    rows = group_rows(ids)
    check_finite(name, advantages, ids, rows)
    check_equal_within_sets(name, advantages, ids, rows)


def segment_sums(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Sums of the jagged rows (N,) of `values` (total,) with `offsets` (N+1,); integers stay integers."""
    running = torch.cat([values.new_zeros(1, dtype=_wide(values)), values.to(_wide(values)).cumsum(0)])
    return running[offsets[1:]] - running[offsets[:-1]]


def _wide(values: torch.Tensor) -> torch.dtype:
    return torch.float64 if values.is_floating_point() else torch.int64


def _of_set(ids: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Sum of `values` over each row's set, on each row; a padding row keeps its own value."""
    _, index = torch.unique(ids, return_inverse=True)
    return torch.zeros_like(values).index_add_(0, index, values)[index]
