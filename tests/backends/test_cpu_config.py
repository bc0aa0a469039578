"""`+backend=cpu` on main_ppo's own configuration."""

from pathlib import Path

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from verl.utils.config import omega_conf_to_dataclass

from verl_srpo.backends.cpu import resolvers

CPU_YAML = Path(resolvers.__file__).parents[2] / "config/backend/cpu.yaml"
# what verl's own YAML does not have: arguments of Ray and vLLM, and options that only its dataclasses know
ADDED = {
    "ray_kwargs.ray_init.address",
    "ray_kwargs.ray_init.num_gpus",
    "ray_kwargs.ray_init._temp_dir",
    "ray_kwargs.ray_init.include_dashboard",
    "ray_kwargs.ray_init.object_store_memory",
    "actor_rollout_ref.model.override_config.attn_implementation",
    "actor_rollout_ref.rollout.enable_sleep_mode",
    "actor_rollout_ref.rollout.engine_kwargs.vllm.worker_extension_cls",
    "actor_rollout_ref.rollout.engine_kwargs.vllm.kv_cache_memory_bytes",
    *(
        f"{section}.mixed_precision.{name}_dtype"
        for section in ("actor_rollout_ref.actor.fsdp_config", "actor_rollout_ref.ref.fsdp_config", "critic.fsdp")
        for name in ("param", "reduce", "buffer")
    ),
}


@pytest.fixture(autouse=True)
def run_folder(monkeypatch, tmp_path):
    """Composing must leave no folder behind, and needs no activated backend."""
    monkeypatch.setattr(resolvers, "run_dir", lambda: str(tmp_path / "run"))
    resolvers.register()
    yield
    monkeypatch.undo()
    resolvers.register()


def composed(*overrides: str):
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=list(overrides))


def leaves(node, prefix=""):
    for key, value in node.items():
        path = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) and value:
            yield from leaves(value, path)
        else:
            yield path, value


def test_every_setting_names_an_option_that_verl_has():
    stock = dict(leaves(OmegaConf.to_container(composed())))
    settings = dict(leaves(OmegaConf.to_container(OmegaConf.load(CPU_YAML))))
    assert settings.keys() - stock.keys() == ADDED


def test_every_setting_arrives():
    config = composed("+backend=cpu", "trainer.n_gpus_per_node=2")
    for path, value in leaves(OmegaConf.to_container(OmegaConf.load(CPU_YAML))):
        if not str(value).startswith("${") and path != "trainer.n_gpus_per_node":
            assert OmegaConf.select(config, path) == value, path


@pytest.mark.parametrize(("ranks", "cpus"), [(1, 8), (2, 16)])
def test_ray_is_told_of_as_many_devices_as_there_are_ranks(ranks, cpus, tmp_path):
    config = composed("+backend=cpu", f"trainer.n_gpus_per_node={ranks}")
    ray_init = OmegaConf.to_container(config.ray_kwargs.ray_init, resolve=True)
    assert (ray_init["num_gpus"], ray_init["num_cpus"], ray_init["address"]) == (ranks, cpus, "local")
    assert ray_init["_temp_dir"] == str(tmp_path / "run")


def test_the_command_line_wins_over_the_backend():
    config = composed(
        "+backend=cpu", "actor_rollout_ref.rollout.max_num_seqs=3", "ray_kwargs.ray_init._temp_dir=/tmp/k"
    )
    assert config.actor_rollout_ref.rollout.max_num_seqs == 3
    assert config.ray_kwargs.ray_init._temp_dir == "/tmp/k"


def test_verls_dataclasses_accept_it():
    config = composed("+backend=cpu")
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    assert (actor.engine.strategy, actor.engine.use_torch_compile) == ("fsdp2", False)
    assert actor.engine.mixed_precision["param_dtype"] == "fp32"
    rollout = omega_conf_to_dataclass(config.actor_rollout_ref.rollout)
    assert (rollout.dtype, rollout.enable_sleep_mode) == ("float32", False)


def test_the_reference_model_takes_the_actors_choices():
    config = composed("+backend=cpu")
    assert config.actor_rollout_ref.ref.strategy == "fsdp2"
    assert config.actor_rollout_ref.ref.use_torch_compile is False
    assert config.actor_rollout_ref.ref.log_prob_use_dynamic_bsz is True
    assert config.actor_rollout_ref.rollout.log_prob_use_dynamic_bsz is True


def test_a_long_run_of_ranks_does_not_add_other_processes():
    config = composed("+backend=cpu", "trainer.n_gpus_per_node=2")
    assert config.actor_rollout_ref.rollout.agent.num_workers == config.reward.num_workers == 1
    assert config.transfer_queue.backend.SimpleStorage.num_data_storage_units == 1
