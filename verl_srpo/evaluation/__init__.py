"""Evaluation of generations as the SRPO paper does it: accuracy with intervals, costs, comparisons of runs."""

from .comparison import BudgetCurves, Comparison, Difference, compare, matched_budget
from .episodes import Episodes, join_records
from .evaluate import evaluate
from .intervals import bootstrap_draws, interval_of, mean_interval, sign_flip_p_value, t_quantile
from .monitoring import validation_metrics
from .reading import Reading, UnusableFile, read_generations
from .records import Record, parse_record
from .sampling import majority_correct, pass_at_k
from .summary import Estimate, Run, RunSummary, Summary, summarise
from .tables import QuestionTable, question_tables

__all__ = [
    "BudgetCurves",
    "Comparison",
    "Difference",
    "Episodes",
    "Estimate",
    "QuestionTable",
    "Reading",
    "Record",
    "Run",
    "RunSummary",
    "Summary",
    "UnusableFile",
    "bootstrap_draws",
    "compare",
    "evaluate",
    "interval_of",
    "join_records",
    "majority_correct",
    "matched_budget",
    "mean_interval",
    "parse_record",
    "pass_at_k",
    "question_tables",
    "read_generations",
    "sign_flip_p_value",
    "summarise",
    "t_quantile",
    "validation_metrics",
]
