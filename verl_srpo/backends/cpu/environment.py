"""Environment of the process and, by inheritance, of every process that Ray and vLLM start from it."""

import os
import sys

_DEFAULTS = {
    # one machine: nothing listens on or resolves to an outside address
    "GLOO_SOCKET_IFNAME": "lo",
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",
    # compiling costs more than it saves at this size, and needs a C++ compiler
    "TORCH_COMPILE_DISABLE": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    # Ray would start one idle Python process for every logical CPU
    "RAY_enable_worker_prestart": "0",
    "RAY_prestart_worker_first_driver": "0",
    # a thread that spins while it waits takes the core from the one that it waits for, wherever anything else runs
    "OMP_WAIT_POLICY": "PASSIVE",
}


def set_defaults() -> None:
    """Set what is not set yet. What libraries imported already have read is also set in them."""
    for name, value in _DEFAULTS.items():
        os.environ.setdefault(name, value)
    # Ray would give each worker one thread; actor and rollout work in turns, so each may use all cores
    os.environ.setdefault("OMP_NUM_THREADS", str(len(os.sched_getaffinity(0))))

    from ray._private import ray_constants

    # with this Ray takes the loopback address for the node's, as it does on macOS and Windows
    ray_constants.ENABLE_RAY_CLUSTER = os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "1"
    if dynamo_config := sys.modules.get("torch._dynamo.config"):
        dynamo_config.disable = os.environ["TORCH_COMPILE_DISABLE"] == "1"
