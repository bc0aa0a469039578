"""Actor side: every optimizer step sees whole sets, wherever their rows lie."""

from __future__ import annotations

import time
from functools import partial
from typing import NamedTuple

import torch
import torch.distributed as dist
from tensordict import TensorDict
from verl.experimental.separation.engine_workers import DetachActorWorker
from verl.single_controller.base.decorator import Dispatch, register
from verl.utils import tensordict_utils as tu
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

from verl_srpo.core import diagnostics, set_log_ratio
from verl_srpo.trainer.loss import RowRecord, record_member_log_ratios, set_policy_loss
from verl_srpo.trainer.micro_batches import MicroBatchPlan, plan_micro_batches, planned_micro_batches


class GatheredRows(NamedTuple):
    """Rows of the mini-batch on all ranks, in rank order; `start` is where this rank's rows begin."""

    set_ids: torch.Tensor
    member_log_ratios: torch.Tensor
    advantages: torch.Tensor
    start: int


class SRPOTrainingWorker(TrainingWorker):
    """Trains on mini-batches of whole sets.

    A set that lies whole in one micro-batch needs nothing further. Where one is split over micro-batches or ranks, its
    log-ratio L_S is found first by one pass without gradients over the mini-batch (`joint_log_ratio`
    in core/ratio.py says why that is exact), except when pi_cur is still pi_old, where L_S = 0.
    """

    _position = 0
    actor_config = None

    def train_mini_batch(self, data: TensorDict) -> TensorDict:
        """verl's loop over the mini-batches and epochs of this rank's part of a batch."""
        self._position = 0
        return super().train_mini_batch(data)

    def train_batch(self, data: TensorDict) -> TensorDict:
        """One optimizer step on one mini-batch; `data` is this rank's part of it, with the columns that
        `set_policy_loss` reads but `srpo_row` and `srpo_set_log_ratio`, which are found here."""
        options = dict(tu.get(data, "srpo"))
        policy_is_old = self._position == 0 and options["first_is_old"]
        self._position += 1
        rows = len(data)
        use_row_temperatures(data)
        data["srpo_row"] = torch.arange(rows)
        plan = plan_micro_batches(data, self.engine, **self._budget())

        needs_pass = not plan.whole and options["unit"] == "set" and not policy_is_old
        started = time.perf_counter()
        log_ratios = self._set_log_ratios(data, options, plan) if needs_pass else torch.zeros(rows)
        seconds = time.perf_counter() - started
        data["srpo_set_log_ratio"] = log_ratios
        tu.assign_non_tensor(data, srpo={**options, "whole": plan.whole})

        record = RowRecord(rows)
        self.loss_fn = partial(set_policy_loss, self.actor_config, record)
        with planned_micro_batches(self.engine, plan):
            output = super().train_batch(data)
        statistics = self._statistics(data, options, record.collect())
        if output is not None:
            statistics |= {"srpo/extra_pass": float(needs_pass), "srpo/extra_pass_seconds": seconds}
            tu.get(output, "metrics").update(statistics)
        return output

    def infer_batch(self, data: TensorDict) -> TensorDict:
        """verl's pass for log-probs, at each row's own temperature."""
        use_row_temperatures(data)
        return super().infer_batch(data)

    def _budget(self) -> dict[str, int | None]:
        config = self.engine_config
        if config.use_dynamic_bsz:
            sequence_parallel = getattr(self.engine, "ulysses_sequence_parallel_size", 1)
            return {"max_tokens": config.max_token_len_per_gpu * sequence_parallel, "max_rows": None}
        return {"max_tokens": None, "max_rows": config.micro_batch_size_per_gpu}

    def _set_log_ratios(self, data: TensorDict, options: dict, plan: MicroBatchPlan) -> torch.Tensor:
        """L_S on each of this rank's rows, (rows,), from a pass without gradients over the whole mini-batch."""
        batch = data.select(*data.keys())  # shallow: what the pass sets must not stay in the training batch
        tu.assign_non_tensor(
            batch,
            calculate_entropy=False,
            use_remove_padding=self.model_config.get("use_remove_padding", False),
            use_fused_kernels=self.engine_config.use_fused_kernels,
            use_dynamic_bsz=self.engine_config.use_dynamic_bsz,
            max_token_len_per_gpu=self.engine_config.max_token_len_per_gpu,
            micro_batch_size_per_gpu=self.engine_config.micro_batch_size_per_gpu,
        )
        record = RowRecord(len(data))
        loss = partial(record_member_log_ratios, record, options["member_norm"])
        with self.engine.eval_mode(disable_auto_offload=True), planned_micro_batches(self.engine, plan):
            self.engine.infer_batch(batch, loss_function=loss)
        rows = self._gather(data, record.collect())
        norm = options["cardinality_norm"]
        log_ratios = set_log_ratio(rows.member_log_ratios, rows.set_ids, cardinality_norm=norm)
        return log_ratios[rows.start : rows.start + len(data)].float()

    def _gather(self, data: TensorDict, members: torch.Tensor) -> GatheredRows:
        own = (data["set_id"].cpu(), members, data["srpo_advantage"].double().cpu())
        parts = [None] * self.engine.get_data_parallel_size()
        dist.all_gather_object(parts, own, group=self.engine.get_data_parallel_group())
        start = sum(len(part[0]) for part in parts[: self.engine.get_data_parallel_rank()])
        return GatheredRows(*(torch.cat(column) for column in zip(*parts, strict=True)), start)

    def _statistics(self, data: TensorDict, options: dict, members: torch.Tensor) -> dict[str, float]:
        rows = self._gather(data, members)
        statistics = diagnostics.set_statistics(
            rows.member_log_ratios,
            rows.set_ids,
            rows.advantages,
            unit=options["unit"],
            cardinality_norm=options["cardinality_norm"],
            clip_low=options["clip_low"],
            clip_high=options["clip_high"],
        )
        return diagnostics.as_metrics(statistics)


def use_row_temperatures(data: TensorDict) -> None:
    """Log-probs of each row at the temperature that its agent sampled at, where agents differ from `rollout`'s.

    verl's engine takes one number for a batch or a tensor (rows,); the number stays where it is right for every row.
    """
    if "sampling_temperature" not in data:
        return
    temperatures = data["sampling_temperature"].to(torch.float32)
    if not torch.allclose(temperatures, torch.tensor(float(tu.get(data, "temperature"))), rtol=0, atol=1e-6):
        data.pop("temperature")
        data["temperature"] = temperatures


class TrainsOnSets:
    """Mixin for verl's workers that hold an actor: puts SRPO's training worker inside."""

    actor_worker_cls = SRPOTrainingWorker
    ref_worker_cls = SRPOTrainingWorker  # for the rows' temperatures; it never trains

    @register(dispatch_mode=Dispatch.ONE_TO_ALL)
    def init_model(self):
        """Builds the engines; the training worker then knows the actor's coefficients, as verl's loss would."""
        super().init_model()
        if self.actor is not None:
            self.actor.actor_config = self.loss_fn.keywords["config"]


class SRPOActorRolloutRefWorker(TrainsOnSets, ActorRolloutRefWorker):
    """verl's worker of the modes `sync` and `colocate_async`."""


class SRPODetachActorWorker(TrainsOnSets, DetachActorWorker):
    """verl's worker of the mode `separate_async`."""
