"""Set advantages by name: eq. 6, or any other action-independent estimator that a user registers."""

from __future__ import annotations

from collections.abc import Callable

SetAdvantage = Callable[..., "torch.Tensor"]  # noqa: F821  # torch is imported where it is used

_ESTIMATORS: dict[str, SetAdvantage] = {}


def register_set_advantage(name: str) -> Callable[[SetAdvantage], SetAdvantage]:
    """Registers a function as the estimator `srpo.advantage=name`.

    The function is called as `verl_srpo.core.set_relative_advantages` is, with all of its arguments by keyword beyond
    `returns, set_ids, episode_ids, task_ids`, and returns the advantage of its set on each row, (N,).
    Raises ValueError if the name is taken by another function.
    """

    def decorator(function: SetAdvantage) -> SetAdvantage:
        taken = name == "set_relative" or _ESTIMATORS.get(name, function) is not function
        if taken:
            raise ValueError(f"set advantage {name!r} is registered already; choose another name")
        _ESTIMATORS[name] = function
        return function

    return decorator


def get_set_advantage(name: str) -> SetAdvantage:
    """The estimator of that name; ValueError lists the known ones."""
    if name == "set_relative":
        from verl_srpo.core import set_relative_advantages

        return set_relative_advantages
    if name not in _ESTIMATORS:
        known = ", ".join(["set_relative", *sorted(_ESTIMATORS)])
        raise ValueError(f"srpo.advantage={name!r} is not registered; known: {known}")
    return _ESTIMATORS[name]
