"""R_S = sum over k' >= k of gamma^(k'-k) r_k', the outcome with the last event."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_srpo.rollout.returns import event_returns

reward = st.floats(-10, 10, allow_nan=False)


def test_closed_form():
    assert event_returns([1.0, -0.5, 0.25], 2.0) == [2.75, 1.75, 2.25]
    assert event_returns([1.0, -0.5, 0.25], 2.0, gamma=0.5) == [1.0 - 0.25 + 0.25 * 2.25, -0.5 + 0.5 * 2.25, 2.25]
    assert event_returns([0.5], 1.0, gamma=0.0) == [1.5]
    assert event_returns([], 1.0) == []


@given(st.lists(reward, min_size=1, max_size=8), reward, st.floats(0, 1))
def test_equals_the_sum_written_out(rewards, outcome, gamma):
    total = [*rewards[:-1], rewards[-1] + outcome]
    expected = [sum(gamma ** (j - k) * total[j] for j in range(k, len(total))) for k in range(len(total))]
    assert event_returns(rewards, outcome, gamma=gamma) == pytest.approx(expected)
