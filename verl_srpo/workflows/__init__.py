"""Built-in workflows, one file each; importing this package registers them."""

from verl_srpo.workflows import (
    demo_joint,
    math_debate,
    math_solver_verifier,
    math_team,
    search_hierarchical,
    search_parallel,
    search_team,
)

__all__ = [
    "demo_joint",
    "math_debate",
    "math_solver_verifier",
    "math_team",
    "search_hierarchical",
    "search_parallel",
    "search_team",
]
