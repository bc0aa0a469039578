"""Every data_source name that is in use finds its scorer; an unknown one is named."""

import pytest

from verl_srpo.rewards import compute_score, known_data_sources, register_data_source
from verl_srpo.rewards.registry import _DATA_SOURCES, kind_of

MATH_NAMES = [
    "openai/gsm8k", "DigitalLearningGmbH/MATH-lighteval", "lighteval/MATH", "HuggingFaceH4/MATH-500",
    "BytedTsinghua-SIA/DAPO-Math-17k", "aaabiao/dapo_filter", "agentica-org/DeepScaleR-Preview",
    "agentica-org/DeepScaleR-Preview-Dataset", "HuggingFaceH4/aime_2024", "MathArena/aime_2025", "knoveleng/AMC-23",
    "zwhe99/simplerl-minerva-math", "realtreetune/olympiadbench", "math_dapo", "math_dapo_reasoning", "aime_2026",
    "gsm8k", "math", "math500", "dapo", "deepscaler", "aime24", "aime25", "amc23", "minerva", "olympiadbench",
    "AIME24", "math/mine",
]  # fmt: skip
SEARCH_NAMES = ["srpo_world", "nq", "triviaqa", "popqa", "hotpotqa", "2wikimultihopqa", "musique", "bamboogle"]


@pytest.mark.parametrize("name", MATH_NAMES)
def test_math_names(name):
    assert compute_score(name, r"\boxed{5}", "5")["score"] == 1.0


@pytest.mark.parametrize("prefix", ["", "searchR1_"])
@pytest.mark.parametrize("name", SEARCH_NAMES)
def test_search_names_with_and_without_prefix(prefix, name):
    assert compute_score(prefix + name, "<answer>5</answer>", {"target": ["5"]})["score"] == 1.0


@pytest.mark.parametrize("name", ["mmlu", "Hothan/OlympiadBench", "", None, "searchR1_mmlu"])
def test_an_unknown_name_is_named_with_the_known_ones(name):
    with pytest.raises(ValueError) as raised:
        compute_score(name, r"\boxed{5}", "5")
    for part in (repr(name), "olympiadbench", "hotpotqa", "register_data_source", "reward_kwargs.data_sources"):
        assert part in str(raised.value)


def test_further_names_from_the_configuration_and_by_registration():
    assert compute_score("my_set", r"\boxed{5}", "5", data_sources={"My_Set": "math"})["score"] == 1.0
    assert compute_score("nq", r"\boxed{5}", "5", data_sources={"nq": "math"})["score"] == 1.0
    with pytest.raises(ValueError, match="allowed: math, search"):
        compute_score("my_set", "", "5", data_sources={"my_set": "code"})
    register_data_source("My_Other_Set", "search")
    try:
        assert kind_of("my_other_set") == "search"
        assert known_data_sources()["my_other_set"] == "search"
    finally:
        del _DATA_SOURCES["my_other_set"]
    with pytest.raises(ValueError, match="'code'"):
        register_data_source("x", "code")
    with pytest.raises(ValueError, match="needs a name"):
        register_data_source("", "math")


def test_a_row_without_truth_names_its_data_source():
    with pytest.raises(ValueError, match=r"data_source='nq'.*holds no answer"):
        compute_score("nq", "<answer>5</answer>", {"target": []})
