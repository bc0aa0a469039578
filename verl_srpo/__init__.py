"""SRPO (Setwise Relative Policy Optimization) as a plugin for verl."""

__version__ = "0.1.0"
