"""docs/advantages.md says what the code computes."""

import pytest
import torch

from tests.core import worked_example as example
from verl_srpo.core import event_weights, set_relative_advantages, srpo_loss
from verl_srpo.core.advantages import COUNTS, LONELY, SCALES, SCOPES
from verl_srpo.core.weights import REDUCTIONS


def advantages(count: str) -> torch.Tensor:
    return set_relative_advantages(
        example.RETURNS, example.SET_IDS, example.EPISODES, example.TASKS, agent_ids=example.AGENTS, count=count
    )


def weights(reduction: str) -> torch.Tensor:
    columns = {"episode_ids": example.EPISODES, "task_ids": example.TASKS, "response_lengths": example.TOKENS}
    return event_weights(example.SET_IDS, reduction=reduction, **columns).double()


def rounded(values: torch.Tensor) -> list[str]:
    return [f"{value:.4f}" for value in values.tolist()]


def test_the_example_on_the_page_is_the_one_tested():
    rows = example.table("set")
    assert tuple(row["set"] for row in rows) == example.SETS
    assert [int(row["task"]) for row in rows] == example.TASKS.tolist()
    assert ["ABCD".index(row["episode"]) for row in rows] == example.EPISODES.tolist()
    assert [int(row["tokens"]) for row in rows] == example.TOKENS.tolist()
    assert [float(row["R_S"]) for row in rows] == example.RETURNS.tolist()


@pytest.mark.parametrize("count", COUNTS)
def test_advantages_on_the_page(count):
    assert [row[f"A, {count}"] for row in example.table("set")] == rounded(advantages(count))


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_weights_on_the_page(reduction):
    assert [row[f"w, {reduction}"] for row in example.table("set")] == rounded(weights(reduction))


def test_gradient_shares_on_the_page():
    rows = example.table("`event_reduction` | `count`")
    assert {(row["event_reduction"], row["count"]) for row in rows} == {(r, c) for r in REDUCTIONS for c in COUNTS}
    for row in rows:
        # one token a set: minus the gradient by its log-probability is w_S A_S where the ratio is 1
        log_prob = torch.zeros(8, 1, dtype=torch.float64, requires_grad=True)
        of_sets = advantages(row["count"])
        constants = (torch.zeros(8, 1), torch.ones(8, 1), example.SET_IDS, of_sets)
        loss, _ = srpo_loss(log_prob, *constants, weights=weights(row["event_reduction"]))
        (slope,) = torch.autograd.grad(loss, log_prob)
        shares = torch.zeros(4, dtype=torch.float64).index_add(0, example.EPISODES, -slope[:, 0])
        assert [row[episode] for episode in "ABCD"] == rounded(shares)


def test_every_option_value_has_its_line_on_the_page():
    listed: dict[str, list[str]] = {}
    option = ""
    for row in example.table("option"):
        option = row["option"] or option
        listed.setdefault(option, []).append(row["value"].replace("` (default)", "").strip("`"))
    assert {name: tuple(values) for name, values in listed.items()} == {
        "scope": SCOPES,
        "count": COUNTS,
        "scale": SCALES,
        "lonely": LONELY,
    }
    reductions = [
        row["event_reduction"].removesuffix("` (default)")
        for row in example.table("`event_reduction` | w_S is proportional to")
    ]
    assert tuple(reductions) == REDUCTIONS


def test_a_set_of_two_outputs_counts_as_one():
    rows = torch.tensor([0, 1, 1, 2, 3, 4, 5, 6, 7])
    of_rows = set_relative_advantages(
        example.RETURNS[rows],
        example.SET_IDS[rows],
        example.EPISODES[rows],
        example.TASKS[rows],
        event_index=example.EVENT_INDEX[rows],
        scope="task",
    )
    assert torch.equal(of_rows, advantages("episode")[rows])
    for reduction in set(REDUCTIONS) - {"token_mean"}:
        columns = {"episode_ids": example.EPISODES[rows], "task_ids": example.TASKS[rows]}
        of_rows = event_weights(example.SET_IDS[rows], reduction=reduction, **columns).double()
        assert torch.equal(of_rows, weights(reduction)[rows])
