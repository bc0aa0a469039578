"""The only passes over (N, T) tokens that a set ratio needs: read the mask, sum the differences, spread the gradient.

On a CPU the sums go block by block, so that intermediate results stay in cache, and select by bits: the cost does not
depend on where the mask is set, as it does with a branch a token. Blocks are large, because each operation on one waits
for all threads.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

_CPU_BLOCK_TOKENS = 1 << 20
_BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


def read_mask(response_mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(boolean mask (N, T), response tokens of each row (N,) int64, whether the mask holds only 0 and 1: a scalar)."""
    if response_mask.dtype == torch.bool:
        lengths = torch.zeros(len(response_mask), dtype=torch.int64, device=response_mask.device)
        for rows in _blocks(response_mask):
            lengths[rows] = response_mask[rows].view(torch.uint8).sum(-1, dtype=torch.int32)
        return response_mask, lengths, torch.ones((), dtype=torch.bool, device=response_mask.device)
    exact = torch.float32 if response_mask.is_floating_point() else torch.int64
    on = torch.empty_like(response_mask, dtype=torch.uint8)
    totals = torch.zeros(len(on), dtype=exact, device=on.device)
    valid = torch.ones((), dtype=torch.bool, device=on.device)
    for rows in _blocks(on):
        part = response_mask[rows]
        totals[rows] = part.sum(-1, dtype=exact)
        on[rows] = part
        valid = valid & _is_binary(part, on[rows])
    return on.view(torch.bool), totals.long(), valid


def _is_binary(part: Tensor, on: Tensor) -> Tensor:
    if part.is_floating_point():
        return (part == on).all() & (on.amax() <= 1)
    # as a byte, -1 is 255
    return (part.amax() <= 1) & (on.amax() <= 1)


def check_mask(name: str, response_mask: Tensor, valid: Tensor) -> None:
    """Raise ValueError unless `valid`, the last result of `read_mask`."""
    if not bool(valid):
        wrong = response_mask[(response_mask != 0) & (response_mask != 1)][0].item()
        raise ValueError(f"{name} holds {wrong!r}; only 0 and 1 (or booleans) are allowed")


def masked_difference_sum(log_prob: Tensor, old_log_prob: Tensor, mask: Tensor) -> Tensor:
    """sum_t m_jt (log_prob - old_log_prob) (N,), differentiable in `log_prob`; excluded tokens may be NaN."""
    return _MaskedDifferenceSum.apply(log_prob, old_log_prob, mask)


class _MaskedDifferenceSum(torch.autograd.Function):
    """Keeps the mask alone for the backward pass."""

    @staticmethod
    def forward(ctx, log_prob: Tensor, old_log_prob: Tensor, mask: Tensor) -> Tensor:  # type: ignore[override]
        ctx.save_for_backward(mask)
        ctx.dtype = log_prob.dtype
        dtype = torch.promote_types(torch.promote_types(log_prob.dtype, old_log_prob.dtype), torch.float32)
        # excluded tokens are selected away: a product would keep NaN
        if not _by_blocks(mask):
            difference = log_prob.to(dtype) - old_log_prob.to(dtype)
            return difference.masked_fill_(~mask, 0).sum(-1)
        bits = _BITS[dtype]
        all_ones = mask.view(torch.int8).neg()  # -1, which is every bit, where the mask is on
        total = torch.zeros(len(mask), dtype=dtype)
        for rows in _blocks(mask):
            difference = log_prob[rows].to(dtype) - old_log_prob[rows].to(dtype)
            difference.view(bits).bitwise_and_(all_ones[rows])
            torch.sum(difference, -1, out=total[rows])
        return total

    @staticmethod
    def backward(ctx, grad: Tensor):  # type: ignore[override]
        (mask,) = ctx.saved_tensors
        return mask.view(torch.uint8).to(ctx.dtype).mul_(grad.to(ctx.dtype)[:, None]), None, None


def _by_blocks(mask: Tensor) -> bool:
    return mask.device.type == "cpu"


def _blocks(mask: Tensor) -> Iterator[slice]:
    rows = max(1, _CPU_BLOCK_TOKENS // max(1, mask.shape[1]) if _by_blocks(mask) else len(mask))
    for start in range(0, len(mask) if mask.numel() else 0, rows):
        yield slice(start, start + rows)
