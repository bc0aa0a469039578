"""A_S: one advantage an event, relative to comparable events of the same task (eq. 6)."""

from typing import NamedTuple

import torch
from torch import Tensor

from verl_srpo.core.arguments import check_floating, check_ids, check_like, check_number, check_option
from verl_srpo.core.populations import PopulationStatistics, episode_values, population_statistics
from verl_srpo.core.sets import (
    SetRows,
    check_equal_within_sets,
    check_finite,
    dense_numbers,
    first_rows,
    group_rows,
    signatures,
)

SCOPES = ("signature", "event", "signature_event", "task")
COUNTS = ("episode", "set")
SCALES = ("std", "none")
LONELY = ("task", "zero")

# below this a standard deviation is rounding, not a signal
_NO_SPREAD = 1e-6


class Populations(NamedTuple):
    """The population that each row's set is compared with under `scope`, one entry (N,) a row.

    size: n, the sum of the weights of its sets. mean, std: of its values. lonely: n < 2, so that it says nothing about
    the set. Padding rows hold 0 and False.
    """

    size: Tensor
    mean: Tensor
    std: Tensor
    lonely: Tensor


def set_relative_advantages(
    returns: Tensor,
    set_ids: Tensor,
    episode_ids: Tensor,
    task_ids: Tensor,
    *,
    agent_ids: Tensor | None = None,
    event_index: Tensor | None = None,
    scope: str = "signature",
    count: str = "episode",
    scale: str = "std",
    lonely: str = "task",
    epsilon: float = 1e-6,
    episode_returns: Tensor | None = None,
) -> Tensor:
    """Advantage A_S = (v_S - mean) / (std + epsilon) of each row's set within its population (eq. 6).

    Args:
        returns: (N,) R_S, the team return from the set's event on, equal within a set.
        set_ids: (N,) integers, negative for padding rows.
        episode_ids, task_ids: (N,) integers; an episode is the pair of both.
        agent_ids: (N,) integers; the signature of a set is the multiset of its members' agents.
        event_index: (N,) integers, the event's position in its episode.
        scope: which sets of a task are comparable. "signature": those of the same agents (the paper's); needs
            `agent_ids`. "event": those with the same event index; needs `event_index`. "signature_event": both. "task":
            all; the value of a set is then its episode's whole return.
        count: "episode" weighs a set by 1 / (sets of its episode in the population), so that each episode counts once;
            "set" weighs each set by 1.
        scale: "std" as above, "none" without the division.
        lonely: what a set gets whose population has n < 2: "task", its value under `scope="task"`, if n >= 2 there;
            "zero", no advantage. Never its raw return.
        epsilon: added to the standard deviation.
        episode_returns: (N,) whole return of each row's episode, for `scope="task"` and `lonely="task"`. None: the
            return of the episode's first event among the rows, by `event_index`.

    Returns:
        (N,) A_S on each row of its set, in the type of `returns`. 0 on padding rows, on sets with nothing to be
        compared with, and in populations without spread (std < 1e-6).

    Raises:
        ValueError: unknown option, missing column, wrong shape or device, a column that differs within a set, a return
            that is not finite, an episode whose first event can not be told.

    >>> returns, set_ids = torch.tensor([1.0, 1.0, 0.0, 0.0]), torch.tensor([4, 4, 9, 9])
    >>> episode_ids, task_ids = torch.tensor([0, 0, 1, 1]), torch.tensor([0, 0, 0, 0])
    >>> agent_ids = torch.tensor([0, 1, 1, 0])
    >>> A = set_relative_advantages(returns, set_ids, episode_ids, task_ids, agent_ids=agent_ids)
    >>> [round(a, 4) for a in A.tolist()]
    [0.7071, 0.7071, -0.7071, -0.7071]
    """
    _check_options(scope=scope, count=count, scale=scale, lonely=lonely, epsilon=epsilon)
    sets = _SetColumns(returns, set_ids, episode_ids, task_ids, agent_ids, event_index, episode_returns)
    value, own = sets.value(scope), sets.statistics(scope, count)
    used = own
    alone = own.size < 2
    if lonely == "task" and scope != "task" and bool(alone.any()):
        task = sets.statistics("task", count)
        value = torch.where(alone, sets.value("task"), value)
        used = PopulationStatistics(*(torch.where(alone, *pair) for pair in zip(task, own, strict=True)))
    advantage = value - used.mean
    if scale == "std":
        advantage = advantage / (used.std + epsilon)
    # std is 0 where n < 2
    return sets.on_rows(torch.where(used.std >= _NO_SPREAD, advantage, 0.0)).to(returns.dtype)


def set_populations(
    returns: Tensor,
    set_ids: Tensor,
    episode_ids: Tensor,
    task_ids: Tensor,
    *,
    agent_ids: Tensor | None = None,
    event_index: Tensor | None = None,
    scope: str = "signature",
    count: str = "episode",
    scale: str = "std",
    lonely: str = "task",
    epsilon: float = 1e-6,
    episode_returns: Tensor | None = None,
) -> Populations:
    """The populations behind `set_relative_advantages`, for the log; the same arguments, shapes and errors.

    They are those of `scope`; the population that a lonely set falls back to is `scope="task"`'s.
    """
    _check_options(scope=scope, count=count, scale=scale, lonely=lonely, epsilon=epsilon)
    sets = _SetColumns(returns, set_ids, episode_ids, task_ids, agent_ids, event_index, episode_returns)
    size, mean, std = sets.statistics(scope, count)
    return Populations(*(sets.on_rows(column) for column in (size, mean, std, size < 2)))


def _check_options(*, scope: str, count: str, scale: str, lonely: str, epsilon: float) -> None:
    check_option("scope", scope, SCOPES)
    check_option("count", count, COUNTS)
    check_option("scale", scale, SCALES)
    check_option("lonely", lonely, LONELY)
    check_number("epsilon", epsilon, low=0.0)


class _SetColumns:
    """The row columns cut down to one entry a set (S,), checked; and the way back to rows."""

    def __init__(
        self,
        returns: Tensor,
        set_ids: Tensor,
        episode_ids: Tensor,
        task_ids: Tensor,
        agent_ids: Tensor | None,
        event_index: Tensor | None,
        episode_returns: Tensor | None,
    ):
        check_ids("set_ids", set_ids)
        self.rows = group_rows(set_ids)
        self.first = first_rows(self.rows)
        for name, values in (("returns", returns), ("episode_returns", episode_returns)):
            if values is not None:
                _check_values(name, values, set_ids, self.rows)
        ids = {"episode_ids": episode_ids, "task_ids": task_ids, "agent_ids": agent_ids, "event_index": event_index}
        for name, column in ids.items():
            if column is None and name in ("agent_ids", "event_index"):
                continue
            check_like(name, column, "set_ids", set_ids, dims=1)  # type: ignore[arg-type]
            check_ids(name, column)  # type: ignore[arg-type]
            if column is not None and name != "agent_ids":
                check_equal_within_sets(name, column, set_ids, self.rows)
        self.agent_ids = agent_ids
        self.returns = returns.detach()[self.first].double()
        self.event_index = None if event_index is None else event_index[self.first]
        self.task = task_ids[self.first]
        self.episode_id = episode_ids[self.first]
        self.episode, _ = dense_numbers(self.task, self.episode_id)
        self.episode_returns = None if episode_returns is None else episode_returns.detach()[self.first].double()

    def value(self, scope: str) -> Tensor:
        """v_S under `scope` (S,)."""
        if scope != "task":
            return self.returns
        return episode_values(self.returns, self.episode, self.episode_id, self.event_index, self.episode_returns)

    def statistics(self, scope: str, count: str) -> PopulationStatistics:
        """Statistics of each set's population under `scope`."""
        return population_statistics(self.value(scope), self._population(scope), self.episode, count=count)

    def on_rows(self, column: Tensor) -> Tensor:
        """A column a set (S,) on the sets' rows (N,); padding rows 0."""
        by_number = torch.zeros(len(self.rows.number), dtype=column.dtype, device=column.device)
        by_number[self.rows.number[self.first]] = column
        return by_number[self.rows.number]

    def _population(self, scope: str) -> Tensor:
        columns = [self.task]
        if scope in ("signature", "signature_event"):
            if self.agent_ids is None:
                raise ValueError(f"agent_ids=None: scope={scope!r} needs the agent of each row")
            columns.append(signatures(self.agent_ids, self.rows))
        if scope in ("event", "signature_event"):
            if self.event_index is None:
                raise ValueError(f"event_index=None: scope={scope!r} needs the event index of each row")
            columns.append(self.event_index)
        return dense_numbers(*columns)[0]


def _check_values(name: str, values: Tensor, set_ids: Tensor, rows: SetRows) -> None:
    check_floating(name, values)
    check_like(name, values, "set_ids", set_ids, dims=1)
    check_finite(name, values, set_ids, rows)
    check_equal_within_sets(name, values, set_ids, rows)
