"""The scorers behind verl's own loading code, reward manager and validation metrics."""

import inspect

import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from tensordict import TensorDict
from verl import DataProto
from verl.trainer.ppo.metric_utils import process_validation_metrics
from verl.trainer.ppo.reward import get_custom_reward_fn, load_reward_manager

import verl_srpo.rewards


class _Tokenizer:
    """Characters are tokens."""

    def decode(self, ids, skip_special_tokens=True):
        return "".join(chr(token) for token in ids)


def _config(path="pkg://verl_srpo.rewards", **function):
    return OmegaConf.create(
        {
            "reward": {
                "custom_reward_function": {"path": path, "name": "compute_score", **function},
                "reward_manager": {"source": "register", "name": "naive"},
            }
        }
    )


def _row(response: str, data_source: str, ground_truth) -> DataProto:
    ids = torch.tensor([[ord(character) for character in response]])
    row = TensorDict({"responses": ids, "attention_mask": torch.ones_like(ids)}, batch_size=1)
    others = {"data_source": data_source, "reward_model": {"ground_truth": ground_truth}, "extra_info": {"index": 0}}
    return DataProto(
        batch=row, non_tensor_batch={key: np.array([value], dtype=object) for key, value in others.items()}
    )


@pytest.mark.parametrize(
    "path",
    ["pkg://verl_srpo.rewards", "pkg://verl_srpo/rewards", verl_srpo.rewards.__file__],
    ids=["dots", "slashes", "file"],
)
@pytest.mark.parametrize("name", ["compute_score", "compute_score_async"])
async def test_verls_reward_manager_scores_with_it(path, name):
    manager = load_reward_manager(_config(path, name=name), _Tokenizer())
    assert inspect.iscoroutinefunction(manager.compute_score) is name.endswith("async")
    for response, source, truth, score in (
        (r"\boxed{\sqrt{12}}", "HuggingFaceH4/MATH-500", r"2\sqrt{3}", 1.0),
        (r"\boxed{6}", "gsm8k", "7", 0.0),
        ("<answer>Paris</answer>", "searchR1_nq", {"target": np.array(["paris"], dtype=object)}, 1.0),
    ):
        result = await manager.run_single(_row(response, source, truth))
        assert result["reward_score"] == result["reward_extra_info"]["acc"] == score


def test_reward_kwargs_reach_it():
    function = get_custom_reward_fn(_config(reward_kwargs={"data_sources": {"mine": "math"}, "grader_seconds": 20}))
    assert function(data_source="mine", solution_str=r"\boxed{2}", ground_truth="2", extra_info={})["score"] == 1.0
    # what verl adds when a reward model runs beside it
    assert function("mine", r"\boxed{2}", "2", reward_router_address="a:1", reward_model_tokenizer=None)["score"] == 1.0


def test_validation_metrics_of_mixed_sources():
    cases = [
        ("math500", r"\boxed{1}", "1"),
        ("math500", r"\boxed{2}", "1"),
        ("nq", "<answer>a b</answer>", "a b c"),
    ] * 2
    results = [verl_srpo.rewards.compute_score(*case) for case in cases]
    assert len({tuple(result) for result in results}) == 1, "one list of keys for every data source"
    columns = {key: [result[key] for result in results] for key in results[0]}
    metrics = process_validation_metrics([case[0] for case in cases], ["u", "u", "v"] * 2, columns)
    assert metrics["math500"]["acc"]["mean@4"] == 0.5
    assert metrics["math500"]["grader_timeout"]["mean@4"] == 0.0
    assert "f1" not in metrics["math500"] and "grader_error" not in metrics["nq"]
    assert metrics["nq"]["acc"]["mean@2"] == 0.0
    assert metrics["nq"]["f1"]["mean@2"] == pytest.approx(2 * 1 / (1 + 2))  # "a" is an article: {b} against {b, c}
