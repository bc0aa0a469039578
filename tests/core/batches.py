"""Random batches for the tests: ragged responses, sets of mixed sizes in random row order, padding rows, garbage where
the mask is off."""

from dataclasses import dataclass, fields, replace

import torch
from hypothesis import given, settings
from hypothesis import strategies as st


@dataclass
class Batch:
    log_prob: torch.Tensor
    old_log_prob: torch.Tensor
    response_mask: torch.Tensor
    set_ids: torch.Tensor
    advantages: torch.Tensor
    episode_ids: torch.Tensor
    task_ids: torch.Tensor
    agent_ids: torch.Tensor
    event_index: torch.Tensor
    returns: torch.Tensor

    def take(self, rows) -> "Batch":
        """The batch of the given rows, in their order."""
        return Batch(**{field.name: getattr(self, field.name)[rows] for field in fields(self)})

    def with_gradient(self) -> "Batch":
        return replace(self, log_prob=self.log_prob.detach().clone().requires_grad_())

    @property
    def lengths(self) -> torch.Tensor:
        return self.response_mask.sum(-1)

    def loss_arguments(self) -> tuple[torch.Tensor, ...]:
        return self.log_prob, self.old_log_prob, self.response_mask, self.set_ids, self.advantages


def make_batch(
    seed: int,
    *,
    tasks: int = 3,
    episodes: int = 2,
    events: int = 3,
    largest_set: int = 4,
    tokens: int = 6,
    padding: int = 2,
    spread: float = 0.2,
    garbage: float = float("nan"),
    dtype: torch.dtype = torch.float64,
) -> Batch:
    """Episodes have 1 to `events` events, sets 1 to `largest_set` members, responses 0 to `tokens` tokens."""
    draw = torch.Generator().manual_seed(seed)

    def integer(low: int, high: int) -> int:
        return int(torch.randint(low, high + 1, (), generator=draw))

    columns: dict[str, list] = {
        name: [] for name in ("set", "advantage", "episode", "task", "agent", "event", "return")
    }
    taken: set[int] = set()
    for task in range(tasks):
        for episode in range(episodes):
            for event in range(integer(1, events)):
                set_id = integer(0, 2**62)
                while set_id in taken:
                    set_id = integer(0, 2**62)
                taken.add(set_id)
                advantage, team_return = (torch.randn(2, generator=draw, dtype=dtype)).tolist()
                team_return = round(team_return, 1)
                for _ in range(integer(1, largest_set)):
                    values = (set_id, advantage, 10 * task + episode, 7 * task, integer(0, 2), event, team_return)
                    for column, value in zip(columns.values(), values, strict=True):
                        column.append(value)
    for row in range(padding):
        # clones of the first row under identifiers of their own, as verl pads
        for column in columns.values():
            column.append(column[0])
        columns["set"][-1] = -1 - row
    rows = len(columns["set"])
    old = -2 + torch.randn(rows, tokens, generator=draw, dtype=dtype)
    log_prob = old + spread * torch.randn(rows, tokens, generator=draw, dtype=dtype)
    mask = torch.rand(rows, tokens, generator=draw) < torch.rand(rows, 1, generator=draw)
    excluded = ~mask
    excluded[rows - padding :] = (
        True  # the mask of padding rows stays on in half of the cases, their content is garbage
    )
    log_prob[excluded] = garbage
    old[excluded] = garbage
    if integer(0, 1):
        mask[rows - padding :] = False
    batch = Batch(
        log_prob,
        old,
        mask,
        torch.tensor(columns["set"]),
        torch.tensor(columns["advantage"], dtype=dtype),
        torch.tensor(columns["episode"]),
        torch.tensor(columns["task"]),
        torch.tensor(columns["agent"]),
        torch.tensor(columns["event"]),
        torch.tensor(columns["return"], dtype=dtype),
    )
    return batch.take(torch.randperm(rows, generator=draw))


def for_all(examples: int = 40, **strategies):
    """A Hypothesis test over `strategies`: the same examples on every run, none of them timed."""
    return lambda test: settings(deadline=None, max_examples=examples, derandomize=True)(given(**strategies)(test))


seeds = st.integers(0, 2**31)
units = st.sampled_from(["set", "member", "token"])
member_norms = st.sampled_from(["sum", "mean"])
cardinality_norms = st.sampled_from(["sqrt", "none", "mean"])
loss_options = st.fixed_dictionaries(
    {
        "unit": units,
        "member_norm": member_norms,
        "cardinality_norm": cardinality_norms,
        "clip_low": st.sampled_from([0.0, 0.05, 0.2]),
        "clip_high": st.sampled_from([0.0, 0.05, 0.28]),
    }
)
advantage_options = st.fixed_dictionaries(
    {
        "scope": st.sampled_from(["signature", "event", "signature_event", "task"]),
        "count": st.sampled_from(["episode", "set"]),
        "scale": st.sampled_from(["std", "none"]),
        "lonely": st.sampled_from(["task", "zero"]),
    }
)
reductions = st.sampled_from(["event_mean", "token_mean", "episode_mean", "task_mean"])
