"""Between the policy that sampled and the one that trains: a set's importance weight, and verl's metrics of the gap."""

from __future__ import annotations

import numpy as np
import torch
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_corr_metrics_from_logprobs

from verl_srpo import core
from verl_srpo.core.ratio import LOG_RATIO_LIMIT


def set_importance(
    old_log_prob: torch.Tensor,
    rollout_log_prob: torch.Tensor,
    response_mask: torch.Tensor,
    set_ids: torch.Tensor,
    *,
    threshold: float,
    member_norm: str,
    cardinality_norm: str,
) -> tuple[torch.Tensor, dict[str, float]]:
    """Truncated importance weight min(exp(L_S), threshold) of each row's set (ours).

    L_S is the log-ratio of eq. 3 and 4 with pi_old in place of the current and pi_rollout in place of the old policy.

    Args:
        old_log_prob: (N, T), recomputed by the trainer.
        rollout_log_prob: (N, T), reported by the rollout.
        response_mask: (N, T) bool or 0/1.
        set_ids: (N,) integers, negative for padding and removed rows; at least one is not.
        threshold: upper truncation.
        member_norm, cardinality_norm: as for the ratio of the loss.

    Returns:
        (N,) float64 weights, 1 on rows in no set; and metrics in which each set counts once.

    Raises ValueError for what `core.member_log_ratio` and `core.set_log_ratio` refuse.
    """
    members = core.member_log_ratio(old_log_prob, rollout_log_prob, response_mask, member_norm=member_norm)
    log_ratios = core.set_log_ratio(members.double(), set_ids, cardinality_norm=cardinality_norm)
    weights = log_ratios.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
    ids = set_ids.numpy()
    present, first = np.unique(ids, return_index=True)
    one_a_set = torch.from_numpy(first[present >= 0])
    of_sets, log_of_sets = weights[one_a_set], log_ratios[one_a_set]
    metrics = {
        "srpo/set_importance/mean": of_sets.mean().item(),
        "srpo/set_importance/truncated_fraction": (of_sets > threshold).double().mean().item(),
        "srpo/set_importance/log_ratio_extreme": log_of_sets[log_of_sets.abs().argmax()].item(),
    }
    return torch.where(set_ids >= 0, weights.clamp(max=threshold), 1.0), metrics


def off_policy_metrics(
    old_log_prob: torch.Tensor, rollout_log_prob: torch.Tensor, response_mask: torch.Tensor, set_ids: torch.Tensor
) -> dict[str, float]:
    """verl's own `rollout_corr/*` per token and sequence, over the rows of sets that have a response token.

    Args:
        old_log_prob, rollout_log_prob, response_mask: (N, T).
        set_ids: (N,) integers, negative for padding and removed rows, which enter nothing.

    Returns:
        verl's metrics; empty where no row is left.
    """
    counted = (set_ids >= 0) & (response_mask.sum(-1) > 0)
    if not counted.any():
        return {}
    return compute_rollout_corr_metrics_from_logprobs(
        old_log_prob[counted], rollout_log_prob[counted], response_mask[counted]
    )
