"""The only passes over (N, T) tokens that a set ratio needs: count the mask, sum the differences, spread the gradient.

On a CPU the differences go block by block through one workspace, which stays in cache and is the only memory that is
touched for the first time, and are selected as integers: the cost does not depend on where the mask is set, as it does
with a branch a token. Blocks are not smaller, because each operation on one waits for all threads.
"""

import sys

import torch
from torch import Tensor

_CPU_BLOCK_TOKENS = 1 << 17
_BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


def count_tokens(response_mask: Tensor) -> tuple[Tensor, Tensor]:
    """(Response tokens of each row (N,) int64, whether the mask (N, T) holds only 0 and 1: a boolean scalar)."""
    if response_mask.dtype == torch.bool:
        valid = torch.ones((), dtype=torch.bool, device=response_mask.device)
        return response_mask.view(torch.uint8).sum(-1, dtype=torch.int32).long(), valid
    exact = torch.float32 if response_mask.is_floating_point() else torch.int64
    return response_mask.sum(-1, dtype=exact).long(), _is_binary(response_mask)


def _is_binary(mask: Tensor) -> Tensor:
    if mask.is_floating_point() or mask.numel() == 0:
        return ((mask == 0) | (mask == 1)).all()
    least, most = mask.aminmax()
    return (least >= 0) & (most <= 1)


def check_mask(name: str, response_mask: Tensor, valid: Tensor) -> None:
    """Raise ValueError unless `valid`, the last result of `count_tokens`."""
    if not bool(valid):
        wrong = response_mask[(response_mask != 0) & (response_mask != 1)][0].item()
        raise ValueError(f"{name} holds {wrong!r}; only 0 and 1 (or booleans) are allowed")


def masked_difference_sum(log_prob: Tensor, old_log_prob: Tensor, response_mask: Tensor) -> Tensor:
    """sum_t m_jt (log_prob - old_log_prob) (N,), differentiable in `log_prob`; excluded tokens may be NaN.

    The mask is not checked here; with anything but 0 and 1 in it the result means nothing (`check_mask`).
    """
    return _MaskedDifferenceSum.apply(log_prob, old_log_prob, response_mask)


class _MaskedDifferenceSum(torch.autograd.Function):
    """Keeps the caller's mask alone for the backward pass."""

    @staticmethod
    def forward(ctx, log_prob: Tensor, old_log_prob: Tensor, response_mask: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(response_mask)
        ctx.dtype = log_prob.dtype
        dtype = torch.promote_types(torch.promote_types(log_prob.dtype, old_log_prob.dtype), torch.float32)
        if not _by_blocks(response_mask):
            difference = log_prob.to(dtype) - old_log_prob.to(dtype)
            # selected away: a product would keep NaN
            return difference.masked_fill_(response_mask == 0, 0).sum(-1)
        total = torch.zeros(len(response_mask), dtype=dtype)
        rows = max(1, _CPU_BLOCK_TOKENS // max(1, response_mask.shape[1]))
        workspace, bits = torch.empty_like(log_prob[:rows], dtype=dtype), _BITS[dtype]
        keep = _factor(response_mask, bits)
        blocks = (tensor.split(rows) for tensor in (log_prob, old_log_prob, keep, total))
        for new, old, mask, block_total in zip(*blocks, strict=True):
            difference = torch.sub(new.to(dtype), old.to(dtype), out=workspace[: len(new)])
            # as integers, so that a product with 0 is 0 whatever the bits stand for
            difference.view(bits).mul_(mask)
            torch.sum(difference, -1, out=block_total)
        return total

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        (response_mask,) = ctx.saved_tensors
        spread = torch.empty_like(response_mask, dtype=ctx.dtype).copy_(response_mask)
        return spread.mul_(grad.to(ctx.dtype)[:, None]), None, None


def _by_blocks(response_mask: Tensor) -> bool:
    return response_mask.device.type == "cpu"


def _factor(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """The 0/1 mask as a factor of integers of `dtype`, without a copy where that can be: other mixtures are slow."""
    if mask.dtype == dtype:
        return mask
    if (mask.dtype, dtype) == (torch.int64, torch.int32) and mask.stride(-1) == 1 and sys.byteorder == "little":
        return mask.view(dtype)[:, ::2]  # the low halves
    return mask.bool()
