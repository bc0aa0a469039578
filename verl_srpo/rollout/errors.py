"""What can go wrong in an episode. Every error names the agent, output or option, and the way out."""

from __future__ import annotations


class RolloutError(Exception):
    """Base class of everything that verl_srpo.rollout raises."""


class DefinitionError(RolloutError, ValueError):
    """The workflow or its settings are wrong: no episode can run, so it is raised and not counted as a drop."""


class SetRuleError(RolloutError, ValueError):
    """A workflow consumed outputs that cannot form one active set. Drops the episode under the reason `set_rule`."""


class EpisodeFailure(RolloutError):
    """One episode cannot go on.

    `reason` is a short word that counters carry; it must not contain "max" or "min", because verl reduces metrics
    with such names differently.
    """

    def __init__(self, reason: str, message: str):
        super().__init__(message)
        self.reason = reason


class GenerationFailed(EpisodeFailure):
    """One call to the model gave nothing that can be trained on."""


class ToolFailed(EpisodeFailure):
    """A tool (retriever, sandbox, ...) failed for good; an error text is never shown to an agent as an observation."""
