"""Each row's part of its set's loss and metrics, for each unit that can have a ratio and a clip of its own."""

from typing import NamedTuple

import torch
from torch import Tensor

from verl_srpo.core.ratio import LOG_RATIO_LIMIT, cardinality_coefficient, joint_log_ratio


class Clip(NamedTuple):
    """A_S on each row and the clip range."""

    advantage: Tensor
    low: float
    high: float

    def __call__(self, log_ratio: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """(loss, ratio, clipped low, clipped high) of each entry of `log_ratio`, (N,) or (N, T)."""
        ratio = log_ratio.clamp(-LOG_RATIO_LIMIT, LOG_RATIO_LIMIT).exp()
        advantage = self.advantage.to(ratio.dtype)
        if ratio.dim() == 2:
            advantage = advantage[:, None]
        loss = -torch.minimum(ratio * advantage, ratio.clamp(1 - self.low, 1 + self.high) * advantage)
        ratio = ratio.detach()
        low = ((ratio < 1 - self.low) & (advantage < 0)).to(ratio.dtype)
        high = ((ratio > 1 + self.high) & (advantage > 0)).to(ratio.dtype)
        return loss, ratio, low, high


class Terms(NamedTuple):
    """Each row's part (N,) of its set's loss and of its set's metrics: the parts of a set sum to the set's number."""

    loss: Tensor
    log_ratio: Tensor
    ratio: Tensor
    clipped_low: Tensor
    clipped_high: Tensor


def set_terms(member_log_ratios: Tensor, set_log_ratios: Tensor, size: Tensor, norm: str, clip: Clip) -> Terms:
    """One ratio a set, from L_S as a number and each row's own l_j."""
    coefficients = cardinality_coefficient(size, norm, member_log_ratios.dtype)
    log_ratio = joint_log_ratio(set_log_ratios, member_log_ratios, coefficients)
    loss, ratio, low, high = clip(log_ratio)
    # value: 1/K of the set's loss on each of its K rows. Gradient: whole, each row has that by its own l_j alone
    loss = loss.detach() / size + (loss - loss.detach())
    return Terms(loss, log_ratio.detach() / size, ratio / size, low / size, high / size)


def member_terms(log_ratio: Tensor, size: Tensor, clip: Clip) -> Terms:
    """One ratio a member; a set's loss is the mean over its members."""
    loss, ratio, low, high = clip(log_ratio)
    return Terms(*(part / size for part in (loss, log_ratio.detach(), ratio, low, high)))


def token_terms(log_prob: Tensor, old_log_prob: Tensor, mask: Tensor, tokens: Tensor, clip: Clip) -> Terms:
    """One ratio a token; a set's loss is the mean over its `tokens`."""
    dtype = torch.promote_types(log_prob.dtype, torch.float32)
    zero = torch.zeros((), dtype=dtype, device=log_prob.device)
    # masked before exp: what an excluded position holds must not reach the gradient either
    log_ratio = torch.where(mask, log_prob.to(dtype) - old_log_prob.detach().to(dtype), zero)
    loss, ratio, low, high = clip(log_ratio)
    divisor = tokens.to(dtype)
    parts = (loss, log_ratio.detach(), ratio, low, high)
    return Terms(*(torch.where(mask, part, zero).sum(-1) / divisor for part in parts))
