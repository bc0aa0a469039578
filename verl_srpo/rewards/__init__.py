"""Rule-based rewards for math and question answering, usable as verl's custom reward function.

    reward.custom_reward_function.path=pkg://verl_srpo.rewards

Nothing heavy is imported here: sympy and math-verify live in the grader's own processes.
"""

from verl_srpo.rewards.registry import known_data_sources, register_data_source
from verl_srpo.rewards.score import compute_score, compute_score_async

__all__ = ["compute_score", "compute_score_async", "known_data_sources", "register_data_source"]
