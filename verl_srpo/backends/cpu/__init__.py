"""Lets verl train and generate on a machine without an accelerator.

Opt-in by `VERL_PLATFORM=cpu` in the environment; the settings that go with it are `+backend=cpu` on the command line of
verl's `main_ppo` (`verl_srpo/config/backend/cpu.yaml`). It serves any estimator, not only SRPO. Meant for learning,
development and continuous integration with small models.

| file | what it does |
|---|---|
| `platform.py`, `device.py` | the platform "cpu" for verl's registry, and a stand-in for the module `torch.cuda` |
| `environment.py` | process environment: loopback only, no compilation, thread counts |
| `resolvers.py` | values of `cpu.yaml` that depend on the machine or the run |
| `patches.py` | what neither a setting nor a registry of verl reaches |
| `vllm_worker.py` | the extension that verl loads into vLLM's worker process |
"""


def activate() -> None:
    """Prepare this process for verl on a CPU: platform, environment, resolvers, patches. Safe to call again.

    Called while verl is being imported, in every process that imports it, so nothing heavy is loaded here.
    """
    from . import environment, patches, platform, resolvers

    environment.set_defaults()
    platform.register()
    resolvers.register()
    patches.install()
