"""A bad argument is a ValueError that says what was given and what is allowed."""

import re
from functools import partial

import numpy as np
import pytest
import torch

from verl_srpo.core import (
    event_weights,
    member_log_ratio,
    set_log_ratio,
    set_populations,
    set_relative_advantages,
    set_statistics,
    srpo_loss,
)

N, T = 4, 3
IDS = torch.tensor([7, 7, 8, 9])
TOKENS = torch.zeros(N, T)
MASK = torch.ones(N, T)
ZEROS = torch.zeros(N, dtype=torch.int64)
RETURNS = torch.tensor([1.0, 1.0, 0.0, 2.0])

loss = partial(srpo_loss, TOKENS, TOKENS, MASK, IDS, RETURNS)
advantages = partial(set_relative_advantages, RETURNS, IDS, IDS, ZEROS)
statistics = partial(set_statistics, RETURNS, IDS, RETURNS)


def split(**numbers):
    return {name: torch.tensor(values) for name, values in numbers.items()}


@pytest.mark.parametrize(
    ("call", "said"),
    [
        # unknown options: name, value, what is allowed
        (lambda: loss(unit="row"), "unit='row' is not one of 'set', 'member', 'token'"),
        (lambda: loss(member_norm="max"), "member_norm='max' is not one of 'sum', 'mean'"),
        (lambda: loss(cardinality_norm=None), "cardinality_norm=None is not one of 'sqrt', 'none', 'mean'"),
        (lambda: loss(clip_low=1.5), "clip_low=1.5 is not a number in [0.0, 1.0]"),
        (lambda: loss(clip_high=-0.1), "clip_high=-0.1 is not a number in [0.0, inf]"),
        (lambda: loss(clip_high=float("nan")), "clip_high=nan is not a number"),
        (lambda: loss(clip_low="0.2"), "clip_low='0.2' is not a number"),
        (
            lambda: event_weights(IDS, reduction="sum"),
            "reduction='sum' is not one of 'event_mean', 'token_mean', 'episode",
        ),
        (
            lambda: advantages(scope="agent"),
            "scope='agent' is not one of 'signature', 'event', 'signature_event', 'task'",
        ),
        (lambda: advantages(count="row"), "count='row' is not one of 'episode', 'set'"),
        (lambda: advantages(scale="var"), "scale='var' is not one of 'std', 'none'"),
        (lambda: advantages(lonely="raw"), "lonely='raw' is not one of 'task', 'zero'"),
        (lambda: advantages(epsilon=-1.0), "epsilon=-1.0 is not a number in [0.0, inf]"),
        (lambda: statistics(unit="row"), "unit='row' is not one of 'set', 'member', 'token'"),
        (lambda: set_log_ratio(RETURNS, IDS, cardinality_norm="cube"), "cardinality_norm='cube' is not one of"),
        (lambda: member_log_ratio(TOKENS, TOKENS, MASK, member_norm="none"), "member_norm='none' is not one of 'sum'"),
        # missing columns
        (lambda: event_weights(IDS, reduction="token_mean"), "response_lengths=None: reduction='token_mean' needs it"),
        (
            lambda: event_weights(IDS, reduction="episode_mean", task_ids=IDS),
            "episode_ids=None: reduction='episode_mean'",
        ),
        (lambda: event_weights(IDS, reduction="task_mean"), "task_ids=None: reduction='task_mean' needs it"),
        (lambda: advantages(), "agent_ids=None: scope='signature' needs the agent of each row"),
        (lambda: advantages(scope="event"), "event_index=None: scope='event' needs the event index of each row"),
        (lambda: advantages(scope="signature_event", agent_ids=IDS), "event_index=None: scope='signature_event'"),
        (lambda: set_populations(RETURNS, IDS, IDS, ZEROS), "agent_ids=None: scope='signature'"),
        # shapes and types
        (lambda: member_log_ratio(TOKENS[0], TOKENS, MASK), "log_prob has shape (3,); (N, T) is needed"),
        (lambda: member_log_ratio(TOKENS.long(), TOKENS, MASK), "log_prob has type torch.int64; a floating-point type"),
        (lambda: member_log_ratio(TOKENS, TOKENS[:, :2], MASK), "old_log_prob has shape (4, 2); (4, 3) is needed"),
        (lambda: member_log_ratio(TOKENS, TOKENS, MASK[:2]), "response_mask has shape (2, 3); (4, 3) is needed"),
        (
            lambda: member_log_ratio(TOKENS, np.zeros((N, T)), MASK),
            "old_log_prob is a ndarray; a torch.Tensor is needed",
        ),
        (lambda: srpo_loss(TOKENS, TOKENS, MASK, IDS[:3], RETURNS), "set_ids has shape (3,); (4,) is needed"),
        (
            lambda: srpo_loss(TOKENS, TOKENS, MASK, IDS.double(), RETURNS),
            "set_ids has shape (4,) and type torch.float64",
        ),
        (lambda: srpo_loss(TOKENS, TOKENS, MASK, IDS > 7, RETURNS), "set_ids has shape (4,) and type torch.bool"),
        (lambda: srpo_loss(TOKENS, TOKENS, MASK, IDS, RETURNS[:, None]), "advantages has shape (4, 1); (4,) is needed"),
        (lambda: srpo_loss(TOKENS, TOKENS, MASK, IDS, IDS), "advantages has type torch.int64; a floating-point type"),
        (lambda: loss(weights=torch.ones(3)), "weights has shape (3,); (4,) is needed"),
        (lambda: advantages(agent_ids=IDS[:2]), "agent_ids has shape (2,); (4,) is needed"),
        (lambda: set_relative_advantages(IDS, IDS, IDS, IDS), "returns has type torch.int64; a floating-point type"),
        (
            lambda: set_relative_advantages(RETURNS, IDS, None, IDS),
            "episode_ids is a NoneType; a torch.Tensor is needed",
        ),
        (
            lambda: event_weights(IDS, reduction="task_mean", task_ids=RETURNS),
            "task_ids has shape (4,) and type torch.float",
        ),
        (lambda: set_statistics(RETURNS, IDS, RETURNS[:1]), "advantages has shape (1,); (4,) is needed"),
        # contents
        (lambda: srpo_loss(TOKENS, TOKENS, MASK * 2, IDS, RETURNS), "response_mask holds 2.0; only 0 and 1"),
        (lambda: srpo_loss(TOKENS, TOKENS, MASK * 0.5, IDS, RETURNS), "response_mask holds 0.5; only 0 and 1"),
        (lambda: member_log_ratio(TOKENS, TOKENS, -MASK.long()), "response_mask holds -1; only 0 and 1"),
        (lambda: member_log_ratio(TOKENS, TOKENS, -256 * MASK.long()), "response_mask holds -256; only 0 and 1"),
        (lambda: member_log_ratio(TOKENS, TOKENS, MASK.long() << 32), "response_mask holds 4294967296; only 0 and 1"),
        (lambda: member_log_ratio(TOKENS, TOKENS, MASK * float("nan")), "response_mask holds nan; only 0 and 1"),
        (
            lambda: member_log_ratio(TOKENS, TOKENS, torch.tensor([[0.5, 1.5, 1.0]] * N)),
            "response_mask holds 0.5; only 0 and 1",
        ),
        # several numbers for one set, or none
        (
            lambda: srpo_loss(TOKENS, TOKENS, MASK, IDS, torch.tensor([1.0, 2.0, 3.0, 4.0])),
            "advantages differs within set 7 (row 0: 1.0, row 1: 2.0)",
        ),
        (
            lambda: loss(weights=torch.tensor([0.5, 0.1, 0.2, 0.3])),
            "weights differs within set 7 (row 0: 0.5, row 1: 0.1",
        ),
        (
            lambda: set_relative_advantages(torch.arange(4.0), IDS, IDS, ZEROS, agent_ids=IDS),
            "returns differs within set 7 (row 0: 0.0, row 1: 1.0)",
        ),
        (
            lambda: set_relative_advantages(RETURNS, IDS, torch.arange(4), ZEROS, agent_ids=IDS),
            "episode_ids differs within set 7 (row 0: 0, row 1: 1)",
        ),
        (lambda: advantages(event_index=torch.arange(4), scope="event"), "event_index differs within set 7"),
        (lambda: advantages(agent_ids=IDS, episode_returns=torch.arange(4.0)), "episode_returns differs within set 7"),
        (
            lambda: event_weights(IDS, reduction="episode_mean", episode_ids=torch.arange(4)),
            "episode_ids differs within set 7 (row 0: 0, row 1: 1)",
        ),
        (
            lambda: srpo_loss(TOKENS, TOKENS, MASK, IDS, torch.tensor([1.0, 1.0, float("nan"), 1.0])),
            "advantages=nan on row 2 (set 8); finite numbers are needed",
        ),
        (
            lambda: set_relative_advantages(
                torch.tensor([1.0, 1.0, 0.0, float("inf")]), IDS, IDS, ZEROS, agent_ids=IDS
            ),
            "returns=inf on row 3 (set 9); finite numbers are needed",
        ),
        # numbers of sets that are not whole in the call
        (
            lambda: loss(**split(set_log_ratios=[0.0] * 4)),
            "set_sizes=None while set_log_ratios is given; unit='set' needs both or neither",
        ),
        (
            lambda: loss(**split(set_sizes=[2, 2, 1, 1])),
            "set_log_ratios=None while set_sizes is given; unit='set' needs both or neither",
        ),
        (
            lambda: loss(unit="member", **split(set_log_ratios=[0.0] * 4)),
            "set_sizes=None while set_log_ratios is given; unit='member' needs set_sizes",
        ),
        (
            lambda: loss(unit="token", **split(set_sizes=[2, 2, 1, 1])),
            "set_tokens=None while sets are said to be split",
        ),
        (
            lambda: loss(**split(set_log_ratios=[0.0] * 4, set_sizes=[1, 1, 1, 1])),
            "set_sizes=1 for set 7, of which 2 rows are in this call; the number of the whole set is needed",
        ),
        (
            lambda: loss(unit="token", **split(set_tokens=[6, 6, 3, 2])),
            "set_tokens=2 for set 9, of which 3 response tokens are in this call; the number of the whole set",
        ),
        (
            lambda: loss(**split(set_log_ratios=[0.0, 0.1, 0.0, 0.0], set_sizes=[2, 2, 1, 1])),
            "set_log_ratios differs within set 7",
        ),
        # episodes whose first event can not be told
        (
            lambda: set_relative_advantages(RETURNS, IDS, ZEROS, ZEROS, scope="task"),
            "returns goes from 0.0 to 2.0 over the sets of episode 0; its first event can not be told: pass event_",
        ),
        (
            lambda: set_relative_advantages(RETURNS, IDS, ZEROS, ZEROS, scope="task", episode_returns=RETURNS),
            "episode_returns goes from 0.0 to 2.0 over the sets of episode 0; one value an episode is needed",
        ),
    ],
)
def test_error_names_argument_value_and_remedy(call, said):
    with pytest.raises(ValueError, match=re.escape(said)):
        call()


@pytest.mark.parametrize(
    "call",
    [
        lambda: srpo_loss(TOKENS, TOKENS, MASK.to("meta"), IDS, RETURNS),
        lambda: srpo_loss(TOKENS, TOKENS, MASK, IDS.to("meta"), RETURNS),
        lambda: srpo_loss(TOKENS, TOKENS, MASK, IDS, RETURNS.to("meta")),
        lambda: loss(weights=torch.ones(4, device="meta")),
        lambda: member_log_ratio(TOKENS, TOKENS.to("meta"), MASK),
        lambda: set_log_ratio(RETURNS.to("meta"), IDS),
        lambda: event_weights(IDS, reduction="task_mean", task_ids=IDS.to("meta")),
        lambda: advantages(agent_ids=IDS.to("meta")),
        lambda: set_statistics(RETURNS.to("meta"), IDS, RETURNS),
    ],
)
def test_arguments_on_two_devices_are_refused(call):
    with pytest.raises(ValueError, match=r"is on (meta|cpu) and \w+ on (meta|cpu); both must be on one device"):
        call()


def test_padding_rows_are_exempt_from_every_rule_on_contents():
    ids, nan = torch.tensor([-1, -1, -1, 5]), float("nan")
    numbers = torch.tensor([nan, 1.0, 2.0, 0.5])
    value, _ = srpo_loss(TOKENS, TOKENS, MASK, ids, numbers, weights=numbers)
    assert value.item() == -0.25
    sizes = torch.tensor([0, 0, -3, 1])
    value, _ = srpo_loss(
        TOKENS, TOKENS, MASK, ids, numbers, set_log_ratios=torch.tensor([nan, 1, 2, 0]), set_sizes=sizes
    )
    assert value.item() == -0.5
