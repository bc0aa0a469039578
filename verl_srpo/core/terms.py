"""Each row's part of its set's loss and metrics, for each unit that can have a ratio and a clip of its own."""

from typing import NamedTuple

import torch
from torch import Tensor

from verl_srpo.core.ratio import LOG_RATIO_LIMIT


class Clip(NamedTuple):
    """A_S on each row and the clip range."""

    advantage: Tensor
    low: float
    high: float

    def __call__(self, log_ratio: Tensor) -> tuple[Tensor, Tensor]:
        """Loss of each entry of `log_ratio`, (N,) or (N, T), and what `STATISTICS` names of each, in front."""
        ratio = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
        advantage = self.advantage.to(ratio.dtype)
        if ratio.dim() == 2:
            advantage = advantage[:, None]
        # the minimum of eq. 7 is the clipped product on exactly these entries
        low = (ratio < 1 - self.low) & (advantage < 0)
        high = (ratio > 1 + self.high) & (advantage > 0)
        loss = -advantage * ratio.masked_fill(low, 1 - self.low).masked_fill(high, 1 + self.high)
        return loss, torch.stack([log_ratio.detach(), ratio.detach(), low, high])


STATISTICS = ("log_ratio_mean", "ratio_mean", "clip_fraction_low", "clip_fraction_high")


class Terms(NamedTuple):
    """Each row's part of its set's loss (N,) and of its set's `STATISTICS` (4, N): the parts of a set sum to it."""

    loss: Tensor
    statistics: Tensor


def set_terms(log_ratio: Tensor, size: Tensor, clip: Clip) -> Terms:
    """One ratio a set: L_S on each of its rows, differentiable by the row's own l_j (`joint_log_ratio`)."""
    loss, statistics = clip(log_ratio)
    # value: 1/K of the set's loss on each of its K rows. Gradient: whole, each row has that by its own l_j alone
    value = loss.detach()
    return Terms(value / size + (loss - value), statistics / size)


def member_terms(log_ratio: Tensor, size: Tensor, clip: Clip) -> Terms:
    """One ratio a member; a set's loss is the mean over its members."""
    loss, statistics = clip(log_ratio)
    return Terms(loss / size, statistics / size)


def token_terms(log_prob: Tensor, old_log_prob: Tensor, mask: Tensor, tokens: Tensor, clip: Clip) -> Terms:
    """One ratio a token; a set's loss is the mean over its `tokens`."""
    dtype = torch.promote_types(log_prob.dtype, torch.float32)
    zero = torch.zeros((), dtype=dtype, device=log_prob.device)
    # masked before exp: what an excluded position holds must not reach the gradient either
    log_ratio = torch.where(mask, log_prob.to(dtype) - old_log_prob.detach().to(dtype), zero)
    loss, statistics = clip(log_ratio)
    divisor = tokens.to(dtype)
    return Terms(*(torch.where(mask, part, zero).sum(-1) / divisor for part in (loss, statistics)))
