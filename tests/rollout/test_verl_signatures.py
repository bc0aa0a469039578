"""What is overridden or relied on in verl, so that an upgrade fails here and loudly."""

import inspect

import pytest
from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, _agent_loop_registry
from verl.trainer.ppo.v1.agent_loop_tq import AgentLoopManagerTQ
from verl.utils.tokenizer.continuous_token import ContinuousTokenBuilder
from verl.workers.rollout.llm_server import LLMServerClient
from verl.workers.rollout.replica import TokenOutput

from verl_srpo.rollout.agent_loop import LOOP_NAME
from verl_srpo.rollout.manager import SRPOAgentLoopManager, SRPOAgentLoopWorker

BASE = SRPOAgentLoopWorker.__mro__[1]


@pytest.mark.parametrize(
    ("function", "parameters"),
    [
        (BASE._run_agent_loop, ["self", "sampling_params", "trajectory", "agent_name", "trace", "kwargs"]),
        (BASE._agent_loop_postprocess, ["self", "output", "validate", "kwargs"]),
        (BASE._compute_score, ["self", "outputs", "kwargs"]),
        (BASE._run_prompt, ["self", "prompt", "sampling_params", "trajectory", "trace"]),
        (AgentLoopBase.run, ["self", "sampling_params", "kwargs"]),
        (AgentLoopOutput.as_dict, ["self"]),
        (AgentLoopManagerTQ.generate_sequences, ["self", "prompts"]),
        (
            ContinuousTokenBuilder.build_initial_tokens,
            ["self", "messages", "tools", "images", "videos", "audios", "mm_inputs_out"],
        ),
        (
            inspect.unwrap(LLMServerClient.generate),
            ["self", "request_id", "prompt_ids", "sampling_params", "image_data", "video_data", "audio_data",
             "mm_processor_kwargs", "kwargs"],
        ),
    ],
)  # fmt: skip
def test_signature(function, parameters):
    # Ray adds a parameter of its own to the methods of an actor class
    assert [name for name in inspect.signature(function).parameters if name != "_ray_trace_ctx"] == parameters


def test_what_comes_back_from_the_server():
    assert {
        "token_ids",
        "log_probs",
        "routed_experts",
        "stop_reason",
        "extra_fields",
    } <= TokenOutput.model_fields.keys()


def test_the_loop_is_registered_and_the_manager_runs_our_worker():
    assert _agent_loop_registry[LOOP_NAME] == {"_target_": "verl_srpo.rollout.agent_loop.WorkflowAgentLoop"}
    assert issubclass(SRPOAgentLoopManager, AgentLoopManagerTQ)
    assert "agent_loop_workers_class" in inspect.getsource(AgentLoopManagerTQ.__mro__[1]._init_agent_loop_workers)
