"""Weighted statistics of populations of sets, in float64 (the mean and std of eq. 6)."""

from typing import NamedTuple

import torch
from torch import Tensor

from verl_srpo.core.sets import dense_numbers


class PopulationStatistics(NamedTuple):
    """Each set's population (S,): size n = sum of weights, mean = sum w v / n, std^2 = sum w (v - mean)^2 / (n - 1)."""

    size: Tensor
    mean: Tensor
    std: Tensor


def population_statistics(values: Tensor, population: Tensor, episode: Tensor, *, count: str) -> PopulationStatistics:
    """Statistics of `values` (S,) float64 over the sets with the same `population` number (S,), on each set.

    count: "episode" gives a set the weight 1 / (sets of its `episode` in the population), "set" the weight 1. The
    standard deviation of a population with n < 2 is 0.
    """
    groups = int(population.max()) + 1 if len(population) else 0
    if count == "episode":
        share, shares = dense_numbers(population, episode)
        weight = 1.0 / torch.bincount(share, minlength=shares)[share].double()
        population_of_share = torch.zeros(shares, dtype=torch.int64, device=values.device)
        population_of_share[share] = population
        # counted, not summed: three times one third must be one
        size = torch.bincount(population_of_share, minlength=groups).double()
    else:
        weight = torch.ones_like(values)
        size = torch.bincount(population, minlength=groups).double()

    # relative to the population's least value: equal values then differ by exactly 0, large shifts cost no digits
    least = torch.full((groups,), torch.inf, dtype=torch.float64, device=values.device)
    least = least.scatter_reduce(0, population, values, "amin")
    distance = values - least[population]
    mean = _group_sum(weight * distance, population, groups) / size
    deviation = distance - mean[population]
    variance = _group_sum(weight * deviation.square(), population, groups) / (size - 1).clamp(min=1)
    std = torch.where(size >= 2, variance.sqrt(), 0.0)
    return PopulationStatistics(size[population], (least + mean)[population], std[population])


def episode_values(
    returns: Tensor,
    episode: Tensor,
    episode_ids: Tensor,
    event_index: Tensor | None,
    episode_returns: Tensor | None,
) -> Tensor:
    """Whole return of each set's episode (S,): `episode_returns`, else the return of its first event present.

    `episode` numbers the episodes densely; `episode_ids` names them in errors.
    """
    if episode_returns is not None:
        name, values, candidate = "episode_returns", episode_returns, torch.ones_like(episode, dtype=torch.bool)
        remedy = "one value an episode is needed"
    else:
        name, values = "returns", returns
        position = torch.zeros_like(episode) if event_index is None else event_index
        candidate = position == _group_least(position, episode)[episode]
        remedy = "its first event can not be told: pass event_index (unique in the episode) or episode_returns"
    low = _group_least(torch.where(candidate, values, torch.inf), episode)[episode]
    high = -_group_least(torch.where(candidate, -values, torch.inf), episode)[episode]
    ambiguous = low != high
    if bool(ambiguous.any()):
        where = int(ambiguous.nonzero()[0])
        raise ValueError(
            f"{name} goes from {low[where].item()} to {high[where].item()} over the sets of episode "
            f"{int(episode_ids[where])}; {remedy}"
        )
    return low


def _group_sum(values: Tensor, group: Tensor, groups: int) -> Tensor:
    return torch.zeros(groups, dtype=values.dtype, device=values.device).index_add(0, group, values)


def _group_least(values: Tensor, group: Tensor) -> Tensor:
    groups = int(group.max()) + 1 if len(group) else 0
    start = torch.zeros(groups, dtype=values.dtype, device=values.device)
    return start.scatter_reduce(0, group, values, "amin", include_self=False)
