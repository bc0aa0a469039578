"""The verl adapter: trainers, actor worker, loss. Light to import; verl's trainer stack loads with `trainers`."""

from verl_srpo.trainer.estimators import get_set_advantage, register_set_advantage

__all__ = ["get_set_advantage", "register_set_advantage"]
