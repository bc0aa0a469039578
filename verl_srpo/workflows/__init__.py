"""Built-in workflows, one file each; importing this package registers them."""

from verl_srpo.workflows import demo_joint, math_debate

__all__ = ["demo_joint", "math_debate"]
