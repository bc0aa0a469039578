"""SRPO's mathematics on tensors: sets, ratios, advantages, weights, loss, packing, diagnostics. Needs torch and numpy.

Array dimensions: `N` rows, `T` response tokens, `S` sets. Equations are those of arXiv 2609.08452.
"""

from verl_srpo.core.advantages import Populations, set_populations, set_relative_advantages
from verl_srpo.core.diagnostics import SetStatistics, as_metrics, set_statistics
from verl_srpo.core.loss import srpo_loss
from verl_srpo.core.packing import Layout, micro_batch_count, pack_micro_batches, pack_mini_batches
from verl_srpo.core.ratio import member_log_ratio, set_log_ratio
from verl_srpo.core.weights import event_weights

__all__ = [
    "Layout",
    "Populations",
    "SetStatistics",
    "as_metrics",
    "event_weights",
    "member_log_ratio",
    "micro_batch_count",
    "pack_micro_batches",
    "pack_mini_batches",
    "set_log_ratio",
    "set_populations",
    "set_relative_advantages",
    "set_statistics",
    "srpo_loss",
]
