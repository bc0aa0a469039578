"""What of verl is overridden, exchanged or called from the inside: an upgrade that changes it fails here, by name."""

import inspect

import pytest
from verl.experimental.agent_loop.agent_loop import AgentLoopOutput, AgentLoopWorker, register
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.v1 import agent_loop_tq, trainer_base
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils import tracking
from verl.workers.engine.fsdp import transformer_impl
from verl.workers.engine_workers import ActorRolloutRefWorker, TrainingWorker

WORKER_TQ = agent_loop_tq.AgentLoopWorkerTQ.__ray_metadata__.modified_class
SIGNATURES = {
    (PPOTrainer, "__init__"): "(self, config)",
    (PPOTrainer, "_init_resource_pool_mgr"): "(self)",
    (PPOTrainer, "_step_once"): "(self, metrics, timing_raw, sample_batch_size)",
    (PPOTrainer, "_balance_batch"): "(self, batch, metrics, logging_prefix, keep_minibatch)",
    (PPOTrainer, "_compute_advantage"): "(self, batch, metrics)",
    (PPOTrainer, "_update_actor"): "(self, batch, metrics)",
    (PPOTrainer, "_validate"): "(self)",
    (PPOTrainer, "_val_metrics_update"): (
        "(self, data_sources, sample_uids, reward_extra_infos_dict, sample_turns, expected_acc_counts)"
    ),
    (PPOTrainer, "_compute_metrics"): "(self, batch, metrics, timing_raw, global_steps, epoch)",
    (PPOTrainer, "fit"): "(self, agent_loop_manager)",
    (TrainingWorker, "train_mini_batch"): "(self, data)",
    (TrainingWorker, "train_batch"): "(self, data)",
    (TrainingWorker, "infer_batch"): "(self, data)",
    (ActorRolloutRefWorker, "init_model"): "(self)",
    (AgentLoopWorker, "_compute_score"): "(self, outputs, kwargs)",
    (WORKER_TQ, "_agent_loop_postprocess"): "(self, output, validate, kwargs)",
    (AgentLoopOutput, "as_dict"): "(self)",
}


@pytest.mark.parametrize(("owner", "name"), SIGNATURES, ids=lambda x: getattr(x, "__name__", x))
def test_overridden_methods_keep_their_parameters(owner, name):
    parameters = list(inspect.signature(inspect.unwrap(getattr(owner, name))).parameters)
    parameters = [p for p in parameters if p != "_ray_trace_ctx"]  # Ray adds it to the methods of an actor class
    assert f"({', '.join(parameters)})" == SIGNATURES[owner, name]


def test_the_engine_module_calls_the_name_that_is_exchanged():
    source = inspect.getsource(transformer_impl.FSDPEngine.forward_backward_batch)
    assert "micro_batches, indices = prepare_micro_batches(" in source
    assert callable(transformer_impl.prepare_micro_batches)


def test_fit_sets_up_tracking_once_and_reads_the_last_step_each_time():
    source = inspect.getsource(PPOTrainer.fit)
    assert source.count("self.logger = Tracking(") == 1
    assert "self.global_steps <= self.total_training_steps" in source
    assert "open(self.filepath" in inspect.getsource(tracking.FileLogger)


def test_the_engine_takes_a_temperature_for_each_row():
    assert "temperature.shape[0] == input_ids.shape[0]" in inspect.getsource(transformer_impl)


def test_registries_and_names_that_are_relied_on():
    assert isinstance(trainer_base.TRAINER_REGISTRY, dict)
    assert isinstance(core_algos.ADV_ESTIMATOR_REGISTRY, dict) and isinstance(core_algos.POLICY_LOSS_REGISTRY, dict)
    assert ActorRolloutRefWorker.actor_worker_cls is TrainingWorker
    assert list(inspect.signature(upsample_batch_to_divisible_size).parameters) == [
        "batch",
        "batch_multiple",
        "eos_token_id",
    ]
    assert "no materializable trajectories" in inspect.getsource(ReplayBuffer.sample)
    assert callable(register)
    assert "self.agent_loop_workers_class" in inspect.getsource(agent_loop_tq.AgentLoopManagerTQ.__init__)
