"""SRPO's loss as verl's engines call it: one micro-batch of rows, jagged log-probs, columns written by the trainer."""

from __future__ import annotations

import torch
from tensordict import TensorDict
from verl.trainer.ppo.core_algos import kl_penalty
from verl.utils import tensordict_utils as tu
from verl.utils.metric import AggregationType, Metric
from verl.workers.utils.padding import no_padding_2_padding

from verl_srpo.core import member_log_ratio, srpo_loss
from verl_srpo.core.ratio import LOG_RATIO_LIMIT

RATIO_OPTIONS = ("unit", "member_norm", "cardinality_norm", "clip_low", "clip_high")


class RowRecord:
    """Collects each row's detached member log-ratio, in the order of a rank's mini-batch, over its micro-batches."""

    def __init__(self, rows: int):
        self.member_log_ratios = torch.zeros(rows, dtype=torch.float64)
        self._parts: list[tuple[torch.Tensor, torch.Tensor]] = []

    def add(self, positions: torch.Tensor, values: torch.Tensor) -> None:
        """Takes l_j of a micro-batch's rows, (n,), and their places in the mini-batch, (n,)."""
        self._parts.append((positions, values.detach()))

    def collect(self) -> torch.Tensor:
        """(rows,) float64 on the CPU; one transfer for all micro-batches."""
        if self._parts:
            positions, values = (torch.cat(part) for part in zip(*self._parts, strict=True))
            self.member_log_ratios[positions.cpu()] = values.double().cpu()
            self._parts.clear()
        return self.member_log_ratios


def _log_probs(model_output, data: TensorDict) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Current and old log-probs and mask of the response tokens, (N, T), padded on the right with zeros."""
    rows = data.select("response_mask", "old_log_probs").to_padded_tensor()
    log_prob = no_padding_2_padding(model_output["log_probs"], data)
    return log_prob, rows["old_log_probs"], rows["response_mask"].to(bool)


def record_member_log_ratios(record: RowRecord, member_norm: str, *, model_output, data: TensorDict, dp_group=None):
    """Loss function of the pass without gradients: records l_j of each row and returns a zero loss."""
    log_prob, old_log_prob, mask = _log_probs(model_output, data)
    record.add(data["srpo_row"], member_log_ratio(log_prob, old_log_prob, mask, member_norm=member_norm))
    return torch.zeros((), device=log_prob.device), {}


def set_policy_loss(config, record: RowRecord, *, model_output, data: TensorDict, dp_group=None):
    """Loss of one micro-batch (eq. 7); summed over micro-batches and ranks it is the mini-batch's loss.

    `data` carries, beside verl's columns, on each row: set_id, srpo_advantage (A_S), srpo_weight (w_S), srpo_importance
    (the set's importance weight, 1 where there is none), srpo_set_size, srpo_set_tokens and srpo_set_log_ratio of its
    whole set, srpo_row (its place in the rank's mini-batch), and the non-tensor `srpo` with the ratio options and
    `whole` (True: every set lies whole in its micro-batch).

    Entropy and KL follow verl's definitions per token; a set's term is its mean over response tokens, weighted by w_S.
    The importance weight is the policy gradient's alone, as in verl.
    FSDP averages gradients over ranks, hence the factor dp_size.
    """
    options = tu.get(data, "srpo")
    log_prob, old_log_prob, mask = _log_probs(model_output, data)
    weights = data["srpo_weight"].to(log_prob)
    parts = {}
    if not options["whole"]:
        parts = {"set_sizes": data["srpo_set_size"], "set_tokens": data["srpo_set_tokens"]}
        if options["unit"] == "set":
            parts["set_log_ratios"] = data["srpo_set_log_ratio"].to(log_prob)
    loss, _ = srpo_loss(
        log_prob,
        old_log_prob,
        mask,
        data["set_id"],
        data["srpo_advantage"].to(log_prob),
        weights=weights * data["srpo_importance"].to(weights),
        **parts,
        **{name: options[name] for name in RATIO_OPTIONS},
    )
    with torch.no_grad():
        values = member_log_ratio(log_prob, old_log_prob, mask, member_norm=options["member_norm"])
    record.add(data["srpo_row"], values)

    dp_size = data["dp_size"]
    terms = {"pg_loss": loss.detach()}
    token_weights = weights / data["srpo_set_tokens"].clamp(min=1).to(weights)
    if options["unit"] == "token":  # of sets and members the worker's statistics say it, for each set size
        clipped = clipped_tokens(log_prob.detach() - old_log_prob, data["srpo_advantage"].to(log_prob), options)
        terms["pg_clipfrac"] = _weighted(clipped, mask, token_weights)
    if config.entropy_coeff != 0 or model_output.get("entropy") is not None:
        entropy = _weighted(no_padding_2_padding(model_output["entropy"], data), mask, token_weights)
        terms["entropy_loss"] = entropy.detach()
        if config.entropy_coeff != 0:
            loss = loss - config.entropy_coeff * entropy
    if config.use_kl_loss:
        reference = data.select("ref_log_prob").to_padded_tensor()["ref_log_prob"]
        kl = kl_penalty(logprob=log_prob, ref_logprob=reference, kl_penalty=config.kl_loss_type)
        kl = _weighted(kl, mask, token_weights)
        terms["kl_loss"] = kl.detach()
        loss = loss + config.kl_loss_coef * kl
    metrics = {key: Metric(value=value * dp_size, aggregation=AggregationType.SUM) for key, value in terms.items()}
    return loss * dp_size, metrics


def clipped_tokens(log_ratio: torch.Tensor, advantages: torch.Tensor, options: dict) -> torch.Tensor:
    """1 where a token's own clip decides its loss, else 0, (N, T): log-ratios (N, T), A_S of each row (N,)."""
    ratio, advantage = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp(), advantages[:, None]
    low = (ratio < 1 - options["clip_low"]) & (advantage < 0)
    high = (ratio > 1 + options["clip_high"]) & (advantage > 0)
    return (low | high).to(ratio)


def _weighted(per_token: torch.Tensor, mask: torch.Tensor, token_weights: torch.Tensor) -> torch.Tensor:
    return (torch.where(mask, per_token, 0).sum(-1) * token_weights).sum()
