"""Loading: switched on by the estimator's name alone, loud when it cannot work, inert otherwise."""

import json
import os
import re
import subprocess
import sys
from contextlib import nullcontext

import pytest


def run_python(code, **environment):
    environment = {**os.environ, "VERL_PLATFORM": "cpu", **environment}
    command = [sys.executable, "-W", "ignore", "-c", code]
    return subprocess.run(command, capture_output=True, text=True, env=environment, timeout=200)


CHECK = "import sys; from verl_srpo.cli import main; sys.exit(main(['check', '--json']))"
SHOW = """
import json, verl
from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY as trainers
from verl.trainer.ppo import core_algos
print(json.dumps({"trainers": {k: v.__name__ for k, v in trainers.items()},
                  "estimator": "srpo" in core_algos.ADV_ESTIMATOR_REGISTRY,
                  "loss": "srpo" in core_algos.POLICY_LOSS_REGISTRY}))
"""


def test_a_process_that_only_imports_verl_knows_srpo():
    shown = json.loads(run_python(SHOW).stdout.splitlines()[-1])
    assert shown["estimator"] and shown["loss"]
    assert shown["trainers"]["sync"] == "SRPOorPPOTrainerSync"


def test_without_plugins_nothing_is_there():
    shown = json.loads(run_python(SHOW, VERL_USE_EXTERNAL_PLUGINS="none", VERL_PLATFORM="").stdout.splitlines()[-1])
    assert shown == {"trainers": {**shown["trainers"], "sync": "PPOTrainerSync"}, "estimator": False, "loss": False}


def test_importing_verl_does_not_load_the_trainer_stack():
    code = "import sys, verl; print({'verl_srpo.trainer.trainers', 'verl.trainer.ppo.v1', 'vllm'} & set(sys.modules))"
    assert run_python(code).stdout.splitlines()[-1] == "set()"


def test_another_estimator_builds_the_stock_trainer_itself():
    code = """
import verl
from types import SimpleNamespace as N
from verl.trainer.ppo.v1 import get_trainer_cls, trainer_sync
built = []
trainer_sync.PPOTrainerSync.__init__ = lambda self, config: built.append(type(self).__name__)
trainer = get_trainer_cls("sync")(config=N(algorithm=N(adv_estimator="grpo")))
print(type(trainer) is trainer_sync.PPOTrainerSync, built)
class Mine(get_trainer_cls("sync")): pass
print(type(Mine(N(algorithm=N(adv_estimator="grpo")))).__name__)
"""
    assert run_python(code).stdout.splitlines()[-2:] == ["True ['PPOTrainerSync']", "Mine"]


def test_a_failure_is_logged_at_error_with_its_reason():
    code = "import importlib.metadata as m; real = m.version\n"
    code += "m.version = lambda name: '0.10.0' if name == 'verl' else real(name)\nimport verl"
    process = run_python(code)
    assert "verl_srpo could not be registered" in process.stderr
    assert "verl 0.10.0 is installed, but this version of verl_srpo works with verl >=0.9.1,<0.10" in process.stderr


@pytest.mark.parametrize(
    ("installed", "fits"),
    [("0.9.1", True), ("0.9.1+local", True), ("0.9.2.dev0", True), ("0.9.0", False), ("0.10.0.dev0", False)],
)
def test_a_development_version_of_the_next_verl_is_not_supported(installed, fits, monkeypatch):
    import importlib.metadata

    from verl_srpo import plugin

    monkeypatch.setattr(importlib.metadata, "version", lambda name: installed)
    with nullcontext() if fits else pytest.raises(RuntimeError, match=rf"verl {re.escape(installed)} is installed"):
        plugin._check_verl_version()


@pytest.mark.parametrize("kind", ["adv_estimator_fn", "policy_loss_fn"])
def test_the_generic_code_paths_explain_themselves(kind):
    code = f"import verl\nfrom verl.trainer.ppo.core_algos import get_{kind}\nget_{kind}('srpo')(1, b=2)"
    stderr = run_python(code).stderr
    assert "SRPO needs the sets that rows belong to" in stderr and "algorithm.adv_estimator=srpo" in stderr


def test_registration_in_a_spawned_ray_process():
    """Ray workers are new processes: the entry point has to reach them by itself."""
    code = """
import ray
ray.init(num_cpus=1, address="local", include_dashboard=False)
@ray.remote
def names():
    import verl
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY
    return TRAINER_REGISTRY["sync"].__name__
print(ray.get(names.remote()))
"""
    assert "SRPOorPPOTrainerSync" in run_python(code).stdout


def test_check_says_ready_and_exits_zero():
    process = run_python(CHECK)
    report = json.loads(process.stdout[process.stdout.index("{") :])
    assert report["problems"] == [] and report["ready"] and process.returncode == 0
    assert report["found"]["trainers"]["sync"] == "SRPOorPPOTrainerSync"
    assert "math/debate" in report["found"]["workflows"]


def test_check_names_what_is_wrong_and_exits_one():
    process = run_python(
        "import sys; from verl_srpo.cli import main; sys.exit(main(['check', '--json']))",
        VERL_USE_EXTERNAL_PLUGINS="none",
    )
    report = json.loads(process.stdout[process.stdout.index("{") :])
    assert process.returncode == 1
    assert any("VERL_USE_EXTERNAL_PLUGINS=none keeps the plugin out" in problem for problem in report["problems"])


@pytest.mark.parametrize(("device", "available"), [("cuda", False), ("cuda", True), ("cpu", True)])
def test_check_says_that_the_accelerator_is_missing(device, available, monkeypatch):
    from verl_srpo.check import report as check_report

    found = {"platform": {"value": {"device": device, "available": available}}}
    answer = subprocess.CompletedProcess([], 0, stdout=f"PROBE {json.dumps(found)}\n", stderr="")
    monkeypatch.setattr(check_report.subprocess, "run", lambda *args, **kwargs: answer)
    monkeypatch.delenv("VERL_USE_EXTERNAL_PLUGINS", raising=False)
    report = check_report.collect()
    assert report.ready == available
    assert any("platform cuda is not available" in p and "VERL_PLATFORM=cpu" in p for p in report.problems) != available
