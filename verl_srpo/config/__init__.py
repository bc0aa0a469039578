"""Settings: the YAML files that Hydra composes, and the dataclass that everything reads."""

from verl_srpo.config.settings import SRPOSettings, WarningThresholds

__all__ = ["SRPOSettings", "WarningThresholds"]
