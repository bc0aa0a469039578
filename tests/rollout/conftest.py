"""Every test hears the first failures of a kind."""

import pytest

from verl_srpo.rollout.failure_log import forget


@pytest.fixture(autouse=True)
def failures_are_new():
    forget()
