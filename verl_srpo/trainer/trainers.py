"""SRPO over verl's V1 trainers: batches in whole sets, advantages per set, the set loss on the workers."""

from __future__ import annotations

import json
import logging
import math

import numpy as np
import ray
import torch
import transfer_queue as tq
from omegaconf import open_dict
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.trainer_colocate_async import PPOTrainerColocateAsync
from verl.trainer.ppo.v1.trainer_separate_async import PPOTrainerSeparateAsync
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils.metric import reduce_metrics
from verl.utils.py_functional import rename_dict

from verl_srpo.config import SRPOSettings
from verl_srpo.core import packing
from verl_srpo.rollout import build_workflow
from verl_srpo.trainer import metrics as srpo_metrics
from verl_srpo.trainer.checks import MANAGER, check_config, check_roster
from verl_srpo.trainer.early_warning import EarlyWarning
from verl_srpo.trainer.metrics_file import lines_until, metrics_path, write_back
from verl_srpo.trainer.objective import Objective
from verl_srpo.trainer.rows import DRIVER_COLUMNS, apart, complete_rows, read_rows
from verl_srpo.trainer.validation import macro_metrics

logger = logging.getLogger(__name__)

# a reference policy of its own is among them, because rows differ in temperature there too
WORKER_ROLES = (Role.Actor, Role.ActorRollout, Role.ActorRolloutRef, Role.RefPolicy)


def for_workers(batch: KVBatchMeta) -> KVBatchMeta:
    """The batch without the columns that only the driver reads: each one that a worker fetches takes it time."""
    if batch.fields is not None:
        batch.fields = [name for name in batch.fields if name not in DRIVER_COLUMNS]
    return batch


class SRPOTrainer:
    """Mixin over a PPOTrainer of verl; see `check_config` for what it refuses."""

    worker = "SRPOActorRolloutRefWorker"

    def __init__(self, config):
        self.settings = SRPOSettings.from_config(config)
        check_config(config, self.settings)
        self.roster = ["agent"]
        # the task runner reads the manager class from this very object after the trainer has been set up
        with open_dict(config):
            agent = config.actor_rollout_ref.rollout.agent
            agent.agent_loop_manager_class = MANAGER
            if self.settings.workflow is not None:
                s = self.settings
                _, agents = build_workflow(s.workflow, s.workflow_kwargs, s.agents)
                check_roster(agents, config)
                self.roster = [a.name for a in agents]
                agent.default_agent_loop = "srpo_workflow"
        super().__init__(config)
        if self.settings.poll_interval is not None:
            self.replay_buffer.poll_interval = self.settings.poll_interval
        self.objective = Objective(config, self.settings)
        self.early_warning = EarlyWarning(self.settings.warn)
        self._said_untagged = False
        logger.info(self.describe())

    def describe(self) -> str:
        """One line that says what was switched on; logged once at start."""
        s = self.settings
        who = (
            f"workflow {s.workflow} ({', '.join(self.roster)})"
            if s.workflow
            else "verl's own agent loops, one row a set"
        )
        return (
            f"[SRPO] preset {s.preset}: {who}; unit={s.unit} member_norm={s.member_norm} "
            f"cardinality_norm={s.cardinality_norm} scope={s.scope} count={s.count} scale={s.scale} lonely={s.lonely} "
            f"event_reduction={s.event_reduction}; trainer {type(self).__name__}, {self._num_mini_batches()} optimizer "
            f"steps x {self.config.actor_rollout_ref.actor.ppo_epochs} epochs a step"
        )

    @property
    def logger(self):
        """verl's tracking. `fit` sets it up; a resumed run's metrics file then keeps its earlier lines."""
        return self._tracking

    @logger.setter
    def logger(self, tracking):
        self._tracking = tracking
        write_back(tracking, self._earlier_lines)

    def fit(self, agent_loop_manager):
        """verl's training loop; a resumed run first reads what its metrics file says of the steps before."""
        self._earlier_lines = lines_until(metrics_path(self.config), self.global_steps) if self.global_steps else []
        self.early_warning.take_up(json.loads(line)["data"] for line in self._earlier_lines)
        super().fit(agent_loop_manager)

    def _init_resource_pool_mgr(self):
        super()._init_resource_pool_mgr()
        from verl_srpo.trainer import actor_worker

        for role in WORKER_ROLES:
            if role in self.role_worker_mapping:
                self.role_worker_mapping[role] = ray.remote(getattr(actor_worker, self.worker))

    def _num_mini_batches(self) -> int:
        """Optimizer steps a batch and epoch: set by the configuration alone, never by how many turns agents took."""
        tasks = self.config.data.train_batch_size // self.parameter_sync_step
        return max(1, tasks // self.config.actor_rollout_ref.actor.ppo_mini_batch_size)

    def _row_multiple(self) -> int:
        """Without dynamic batch sizes verl's log-prob pass wants whole micro-batches on each rank."""
        rollout = self.config.actor_rollout_ref.rollout
        passes = [rollout, self.config.actor_rollout_ref.ref] if self.use_reference_policy else [rollout]
        sizes = [one.log_prob_micro_batch_size_per_gpu for one in passes if not one.log_prob_use_dynamic_bsz]
        return math.lcm(*(size or 1 for size in sizes))

    def _data_parallel_size(self) -> int:
        group = self.actor_rollout_wg
        if "actor" not in group._dispatch_info:
            group._dispatch_info["actor"] = group._query_dispatch_info("actor")
        return max(group._dispatch_info["actor"]) + 1

    def _step_once(self, metrics: dict, timing_raw: dict, sample_batch_size: int) -> KVBatchMeta:
        try:
            return super()._step_once(metrics, timing_raw, sample_batch_size)
        except RuntimeError as error:
            if "no materializable trajectories" not in str(error):
                raise
            dropped = self._counters(self.agent_loop_manager.drain_statistics("train"))
            raise RuntimeError(self._nothing_left(dropped)) from error

    def _balance_batch(self, batch: KVBatchMeta, metrics, logging_prefix="global_seqlen", keep_minibatch=False):
        """Removes incomplete sets, packs whole tasks and sets into mini-batches and ranks, pads, and reorders."""
        if len(batch) == 0:
            raise RuntimeError(self._nothing_left(self._counters(self.agent_loop_manager.drain_statistics("train"))))
        rows = read_rows(batch)
        complete = complete_rows(rows, batch.keys)  # of whole events, also where their outputs are then taken apart
        if self.settings.active_set == "output":
            rows = apart(rows)
        if not rows.tagged.any() and not self._said_untagged:
            self._said_untagged = True
            logger.warning("[SRPO] rows come without set tags: every row is an active set of its own")
        statistics = self._counters(self.agent_loop_manager.drain_statistics("train"))
        if not complete.any():
            raise RuntimeError(
                self._nothing_left({**statistics, "srpo/dropped/incomplete": len(np.unique(rows.set_id))})
            )
        kept_ids = np.where(complete, rows.set_id, -1 - np.arange(len(rows)))
        layout = packing.pack_mini_batches(
            kept_ids,
            np.array([tag["seq_len"] for tag in batch.tags]),
            ranks=self._data_parallel_size(),
            mini_batches=self._num_mini_batches(),
            task_ids=rows.task,
            multiple=self._row_multiple(),
        )
        padding_rows = len(layout.order) - len(rows)
        metrics.update(srpo_metrics.batch_metrics(rows, complete, padding_rows) | statistics)
        rows.set_id = kept_ids

        batch = upsample_batch_to_divisible_size(batch, len(layout.order), self.tokenizer.eos_token_id)
        padding = layout.order < 0
        batch.reorder(np.where(padding, len(rows) + np.cumsum(padding) - 1, layout.order).tolist())
        self.rows, self.layout = rows.take(layout.order), layout
        # padding rows are clones of the first row, tags included: take them, and what was removed, out of every set
        fields = TensorDict({"set_id": torch.from_numpy(self.rows.set_id)}, batch_size=len(batch))
        batch.fields = tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields).fields
        metrics.update(self._balance_metrics(batch, logging_prefix))
        return for_workers(batch)

    def _balance_metrics(self, batch: KVBatchMeta, prefix: str) -> dict[str, float]:
        tokens = np.array([tag["seq_len"] for tag in batch.tags])
        per_rank = np.bincount(self.layout.rank_of(), weights=tokens)
        return {
            f"{prefix}/min": per_rank.min(),
            f"{prefix}/max": per_rank.max(),
            f"{prefix}/mean": per_rank.mean(),
            f"{prefix}/minmax_diff": per_rank.max() - per_rank.min(),
            "srpo/mixed_version_sets": srpo_metrics.mixed_versions(
                self.rows.set_id,
                np.array([tag["min_global_steps"] or 0 for tag in batch.tags]),
                np.array([tag["max_global_steps"] or 0 for tag in batch.tags]),
            ),
        }

    @staticmethod
    def _counters(statistics: dict[str, float]) -> dict[str, float]:
        """The agent loop workers' counters: what was dropped beside our own such counts, the rest apart."""
        apart = {n: "" if n.startswith(("dropped", "failed_calls")) else "rollout/" for n in statistics}
        return {f"srpo/{apart[name]}{name}": value for name, value in statistics.items()}

    def _nothing_left(self, dropped: dict[str, float]) -> str:
        counts = {k.removeprefix("srpo/"): v for k, v in dropped.items() if "dropped" in k or "failed" in k}
        reasons = ", ".join(f"{k}={v:g}" for k, v in counts.items()) or "no episode returned a row"
        return (
            f"no complete set is left to train on in step {self.global_steps}: {reasons}. The agent loop workers' log "
            "has the first error of each kind; srpo.failure=refill replaces failed episodes"
        )

    def _compute_old_log_prob(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        return for_workers(super()._compute_old_log_prob(batch, metrics))

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        fields = ["response_mask", "entropy"]
        if self.config.actor_rollout_ref.rollout.calculate_log_probs:
            fields += ["old_log_probs", "rollout_log_probs"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        columns, step_metrics = self.objective.columns(self.rows, self.layout, data)
        metrics.update(step_metrics)
        metrics.update(self.objective.agent_metrics(self.rows, self.roster, data))
        return for_workers(tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=columns))

    def _update_actor(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        actor = self.config.actor_rollout_ref.actor
        mini_batches = self.layout.mini_batches
        batch.extra_info.update(
            {
                "calculate_entropy": actor.calculate_entropy or actor.entropy_coeff != 0.0,
                "distillation_use_topk": False,
                "distillation_only": False,
                "global_batch_size": len(batch) // mini_batches,
                "num_mini_batch": mini_batches,
                "epochs": actor.ppo_epochs,
                "seed": actor.data_loader_seed,
                "dataloader_kwargs": {"shuffle": False},
                "temperature": self.config.actor_rollout_ref.rollout.temperature,
                "srpo": self.objective.worker_options(first_is_old=self.local_trigger_step == 0),
            }
        )
        output = self.actor_rollout_wg.update_actor(batch)["metrics"]
        own = {key: output.pop(key) for key in list(output) if key.startswith("srpo/")}
        metrics.update(srpo_metrics.reduce_update_metrics(own, actor.ppo_epochs))
        output = rename_dict(output, "actor/")
        output["perf/mfu/actor"] = output.pop("actor/mfu")
        metrics.update(reduce_metrics(output))
        return batch

    def _compute_metrics(self, batch: KVBatchMeta, metrics, timing_raw, global_steps, epoch):
        super()._compute_metrics(batch, metrics, timing_raw, global_steps, epoch)
        found = self.early_warning.look(metrics)
        metrics["srpo/warnings"] = len(found)
        for warning in found:
            logger.warning("[SRPO] step %d: %s", global_steps, warning)
        if self.early_warning.stop:
            logger.error("[SRPO] warnings in %d steps in a row: stopping", self.early_warning.streak)
            self._save_checkpoint()
            self.total_training_steps = self.global_steps  # fit's loop ends after this step

    def _validate(self) -> dict[str, float]:
        metrics = super()._validate()
        statistics = self._counters(self.agent_loop_manager.drain_statistics("val"))
        return metrics | {f"val-aux/{name}": value for name, value in statistics.items()}

    def _val_metrics_update(
        self, data_sources, sample_uids, reward_extra_infos_dict, sample_turns, expected_acc_counts=None
    ) -> dict[str, float]:
        metrics = super()._val_metrics_update(
            data_sources, sample_uids, reward_extra_infos_dict, sample_turns, expected_acc_counts=expected_acc_counts
        )
        return metrics | macro_metrics(data_sources, sample_uids, reward_extra_infos_dict, expected_acc_counts)


class SRPOTrainerSync(SRPOTrainer, PPOTrainerSync):
    """SRPO where rollout and training take turns."""


class SRPOTrainerColocateAsync(SRPOTrainer, PPOTrainerColocateAsync):
    """SRPO on verl's asynchronous trainer whose rollout shares the trainer's devices."""


class SRPOTrainerSeparateAsync(SRPOTrainer, PPOTrainerSeparateAsync):
    """SRPO on verl's asynchronous trainer whose rollout has devices of its own."""

    worker = "SRPODetachActorWorker"


_TRAINERS = {
    "sync": SRPOTrainerSync,
    "colocate_async": SRPOTrainerColocateAsync,
    "separate_async": SRPOTrainerSeparateAsync,
}


def trainer_class(mode: str) -> type[SRPOTrainer]:
    """SRPO's trainer for verl's `trainer.v1.trainer_mode`; ValueError lists the known modes."""
    if mode not in _TRAINERS:
        raise ValueError(f"trainer.v1.trainer_mode={mode} has no SRPO trainer; known: {', '.join(_TRAINERS)}")
    return _TRAINERS[mode]
