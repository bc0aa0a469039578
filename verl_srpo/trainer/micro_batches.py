"""Micro-batches that keep sets whole, in place of verl's split by tokens alone, for the length of one call."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
from tensordict import TensorDict
from verl.utils import tensordict_utils as tu
from verl.utils.device import get_device_id

from verl_srpo.core import packing


@dataclass(frozen=True)
class MicroBatchPlan:
    """Rows of each micro-batch of this rank, and whether on every rank every set lies whole in one of them."""

    parts: list[np.ndarray]
    whole: bool


def plan_micro_batches(data: TensorDict, engine, *, max_tokens: int | None, max_rows: int | None) -> MicroBatchPlan:
    """Plans a rank's mini-batch; all ranks get the same number of micro-batches and the same answer to `whole`.

    Args:
        data: the rank's rows, with set_id and srpo_set_size (K of the whole set) on each.
        engine: verl's engine, for its data-parallel group.
        max_tokens, max_rows: the budget of a micro-batch (one of them).
    """
    set_ids = data["set_id"].cpu().numpy()
    tokens = data["input_ids"].offsets().diff().cpu().numpy()
    group = engine.get_data_parallel_group()
    budget = {"max_tokens": max_tokens, "max_rows": max_rows}
    count = _agree(packing.micro_batch_count(set_ids, tokens, **budget), dist.ReduceOp.MAX, group)
    parts = packing.pack_micro_batches(set_ids, tokens, count=count, **budget)
    if _agree(int(len(parts) != count), dist.ReduceOp.MAX, group):
        raise RuntimeError(f"{len(parts)} micro-batches were packed on this rank where {count} were agreed on")
    whole = _agree(int(_all_whole(set_ids, data["srpo_set_size"].cpu().numpy(), parts)), dist.ReduceOp.MIN, group)
    return MicroBatchPlan(parts=parts, whole=bool(whole))


def _all_whole(set_ids: np.ndarray, set_sizes: np.ndarray, parts: list[np.ndarray]) -> bool:
    for part in parts:
        ids, sizes = set_ids[part], set_sizes[part]
        live = ids >= 0
        _, index, counts = np.unique(ids[live], return_inverse=True, return_counts=True)
        if (counts[index] != sizes[live]).any():
            return False
    return True


def _agree(value: int, operation, group) -> int:
    if group is None or dist.get_world_size(group) == 1:
        return value
    shared = torch.tensor([value], device=get_device_id())
    dist.all_reduce(shared, op=operation, group=group)
    return int(shared.item())


def _engine_module(engine):
    """The module whose `prepare_micro_batches` the engine's forward_backward_batch looks up."""
    for cls in type(engine).__mro__:
        if "forward_backward_batch" in vars(cls):
            return sys.modules[cls.__module__]
    raise TypeError(f"{type(engine).__name__} has no forward_backward_batch")


@contextmanager
def planned_micro_batches(engine, plan: MicroBatchPlan):
    """While active, the engine splits its batch as planned.

    verl has no argument for a partition (`force_group_size` knows only equal, consecutive groups), so the name that its
    engine module calls is exchanged for the length of the call; a test pins that the name is there and is called.
    """
    module = _engine_module(engine)
    stock = module.prepare_micro_batches

    def prepare_micro_batches(data, **kwargs):
        parts = [part.tolist() for part in plan.parts]
        return [tu.index_select_tensor_dict(data, part) for part in parts], parts

    module.prepare_micro_batches = prepare_micro_batches
    try:
        yield
    finally:
        module.prepare_micro_batches = stock
