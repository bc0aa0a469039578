"""Runs in a fresh process: imports verl as a training process does, and prints what is registered as JSON.

Kept apart from `report` so that nothing that the reporting process has imported or set can make it look better.
"""

from __future__ import annotations

import json
import sys
import traceback


def _trainers() -> dict[str, str]:
    from verl.trainer.ppo.v1.trainer_base import TRAINER_REGISTRY

    return {mode: cls.__name__ for mode, cls in TRAINER_REGISTRY.items()}


def _registries() -> dict[str, bool]:
    from verl.trainer.ppo import core_algos

    return {
        "advantage estimator srpo": "srpo" in core_algos.ADV_ESTIMATOR_REGISTRY,
        "policy loss srpo": "srpo" in core_algos.POLICY_LOSS_REGISTRY,
    }


def _platform() -> dict[str, str | bool]:
    from verl.plugin.platform import get_platform

    platform = get_platform()
    return {"device": platform.device_name, "available": bool(platform.is_available())}


def _configuration() -> dict[str, str]:
    from hydra import compose, initialize_config_module

    with initialize_config_module("verl.trainer.config", version_base=None):
        config = compose("srpo_trainer")
    return {"estimator": config.algorithm.adv_estimator, "preset": config.srpo.preset}


def _workflows() -> list[str]:
    from verl_srpo.rollout import list_workflows

    return list(list_workflows())


def _trainer_stack() -> str:
    from verl_srpo.trainer.trainers import trainer_class

    return trainer_class("sync").__name__


PROBES = {
    "trainers": _trainers,
    "registries": _registries,
    "platform": _platform,
    "configuration": _configuration,
    "workflows": _workflows,
    "trainer stack": _trainer_stack,
}


def main() -> None:
    import verl  # noqa: F401  # loads the plugins, as every training process does

    results = {}
    for name, probe in PROBES.items():
        try:
            results[name] = {"value": probe()}
        except Exception as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            results[name] = {"error": f"{type(error).__name__}: {error} ({last.filename}:{last.lineno})"}
    print("\nPROBE " + json.dumps(results))


if __name__ == "__main__":
    sys.exit(main())
