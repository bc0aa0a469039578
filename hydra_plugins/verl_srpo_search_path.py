"""Lets verl's main_ppo find our YAML files: `--config-name srpo_trainer`, `+srpo=PRESET`, `+backend=cpu`."""

from hydra.core.config_search_path import ConfigSearchPath
from hydra.plugins.search_path_plugin import SearchPathPlugin


class VerlSRPOSearchPath(SearchPathPlugin):
    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        search_path.append(provider="verl-srpo", path="pkg://verl_srpo.config")
