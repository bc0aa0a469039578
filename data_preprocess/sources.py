"""The data sets that can be prepared: where their copy on the hub is, and how a row of theirs is read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from data_preprocess.converters import (
    Example,
    boxed_solution,
    gsm8k,
    problem_and_answer,
    search_question,
    verl_shaped,
)


@dataclass(frozen=True)
class Source:
    """One data set.

    hub, subset: its repository on the hub and the configuration in it.
    splits: the split of the hub's copy (and the word in a local file's name) that serves as our "train" or "test".
    convert: reads one row; raises converters.Refused.
    columns: all that `convert` looks at.
    """

    name: str
    hub: str
    splits: Mapping[str, str]
    convert: Callable[[Mapping[str, Any]], Example]
    columns: tuple[str, ...]
    subset: str | None = None


_BOTH = {"train": "train", "test": "test"}
_TRAIN = {"train": "train"}
_TEST = {"test": "test"}
_TEST_IN_TRAIN = {"test": "train"}  # sets whose only split is called train although they serve as tests
_BOXED = ("problem", "solution", "id", "unique_id")
_ANSWER = ("problem", "answer", "id", "unique_id", "problem_idx")
_VERL = ("prompt", "reward_model", "extra_info")
_SEARCH = ("id", "question", "golden_answers", "data_source", "reward_model", "extra_info")


def _table(*sources: Source) -> dict[str, Source]:
    return {source.name: source for source in sources}


MATH = _table(
    Source("gsm8k", "openai/gsm8k", _BOTH, gsm8k, ("question", "answer"), subset="main"),
    Source("math", "DigitalLearningGmbH/MATH-lighteval", _BOTH, boxed_solution, _BOXED, subset="default"),
    Source("dapo", "BytedTsinghua-SIA/DAPO-Math-17k", _TRAIN, verl_shaped, _VERL),
    Source("dapo_filter", "aaabiao/dapo_filter", _TRAIN, verl_shaped, _VERL),
    Source("deepscaler", "agentica-org/DeepScaleR-Preview-Dataset", _TRAIN, problem_and_answer, _ANSWER),
    Source("math500", "HuggingFaceH4/MATH-500", _TEST, problem_and_answer, _ANSWER),
    Source("aime24", "HuggingFaceH4/aime_2024", _TEST_IN_TRAIN, problem_and_answer, _ANSWER),
    Source("aime25", "MathArena/aime_2025", _TEST_IN_TRAIN, problem_and_answer, _ANSWER),
    Source("amc23", "knoveleng/AMC-23", _TEST_IN_TRAIN, problem_and_answer, _ANSWER),
    Source("minerva", "zwhe99/simplerl-minerva-math", _TEST, problem_and_answer, _ANSWER),
    Source("olympiadbench", "realtreetune/olympiadbench", _TEST, problem_and_answer, _ANSWER),
)
SEARCH = _table(
    Source("nq_hotpotqa", "PeterJinGo/nq_hotpotqa_train", _BOTH, search_question, _SEARCH),
)
