"""verl's extension of vLLM's worker, for vLLM's CPU engine. `cpu.yaml` names it as `worker_extension_cls`."""

import os

import vllm._custom_ops
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension

from .patches import weight_socket
from .resolvers import RUN_DIR_VARIABLE

# vLLM packs a linear layer's weight into a oneDNN handle and drops the parameter, so a second `load_weights` finds
# nothing to load into. Without oneDNN it computes with the parameter itself. Set here, as this module is imported
# before the model is loaded.
vllm._custom_ops._supports_onednn = False


class CPUColocateWorkerExtension(vLLMColocateWorkerExtension):
    """Receives the actor's weights."""

    def _get_zmq_handle(self) -> str:
        handle = super()._get_zmq_handle()
        if RUN_DIR_VARIABLE not in os.environ:
            return handle
        local_rank = handle.removesuffix(".sock").rsplit("-", 1)[1]
        return weight_socket(os.environ.get("VERL_REPLICA_RANK", "0"), local_rank)
