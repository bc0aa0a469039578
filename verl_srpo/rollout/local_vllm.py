"""A vLLM engine in this process, with the `generate` of verl's LLM client: episodes without a trainer."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Any

from verl_srpo.rollout.errors import DefinitionError

# whole blocks are cached, on a GPU of 16 tokens: vLLM's 128 on a CPU would hide short prefixes. And without a size its
# cache is to be most of the machine's memory there, which is an error where that is not free
ON_CPU: dict[str, Any] = {"dtype": "float32", "enforce_eager": True, "block_size": 16, "kv_cache_memory_bytes": 1 << 30}


@dataclass
class Sampled:
    """What verl's server returns for one call, as far as it is used."""

    token_ids: list[int]
    log_probs: list[float] | None
    stop_reason: str
    routed_experts: Any = None
    extra_fields: dict[str, Any] = field(default_factory=dict)


class LocalVLLM:
    """Many requests at a time on one engine; prefix caching is on."""

    def __init__(self, model: str, *, context: int, seed: int = 0):
        os.environ.setdefault("VLLM_LOGGING_LEVEL", "ERROR")  # its log goes to standard output, as the transcripts do
        try:
            import torch
            from vllm import AsyncEngineArgs
            from vllm.v1.engine.async_llm import AsyncLLM
        except ImportError as error:
            raise DefinitionError(f"playing episodes needs vLLM, which does not import: {error}") from error
        on_gpu = torch.cuda.is_available()
        self._engine = AsyncLLM.from_engine_args(
            AsyncEngineArgs(
                model=model,
                max_model_len=context,
                seed=seed,
                enable_prefix_caching=True,
                **({} if on_gpu else ON_CPU),
                disable_log_stats=True,
            )
        )
        self._calls = 0

    async def generate(
        self, request_id: str, *, prompt_ids: list[int], sampling_params: dict[str, Any], **kwargs: Any
    ) -> Sampled:
        from vllm import SamplingParams
        from vllm.inputs import TokensPrompt

        parameters = dict(sampling_params)
        parameters["logprobs"] = 0 if parameters.pop("logprobs", False) else None
        self._calls += 1
        result = None
        async for partial in self._engine.generate(
            TokensPrompt(prompt_token_ids=prompt_ids),
            SamplingParams(**parameters),
            f"{request_id}-{self._calls}",  # the engine wants every request to have an id of its own
        ):
            result = partial
        if result is None or not result.outputs:
            return Sampled([], None, "aborted")
        output = result.outputs[0]
        ids = list(output.token_ids)
        log_probs = None
        if output.logprobs is not None:
            log_probs = [given[token].logprob for token, given in zip(ids, output.logprobs, strict=True) if given]
        stop_reason = {"abort": "aborted", "length": "length"}.get(output.finish_reason or "", "completed")
        return Sampled(ids, log_probs, stop_reason, extra_fields={"num_cached_tokens": result.num_cached_tokens})

    def close(self) -> None:
        self._engine.shutdown()
