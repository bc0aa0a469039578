"""Text to token ids and back, with a Hugging Face tokenizer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from verl_srpo.rollout.errors import DefinitionError


class TokenizerCodec:
    """A tokenizer as `generation.Codec`.

    Args:
        build_prompt: messages to ids with the generation prompt; default: the tokenizer's own chat template.
    """

    def __init__(self, tokenizer: Any, build_prompt: Callable[[list[dict[str, Any]]], list[int]] | None = None):
        if build_prompt is None and not tokenizer.chat_template:
            raise DefinitionError(f"the tokenizer of {tokenizer.name_or_path} has no chat template")
        self._tokenizer = tokenizer
        self._build_prompt = build_prompt
        self.eos_token_id = int(tokenizer.eos_token_id)
        # some models (Qwen) end a turn with their pad token as well
        ends = (tokenizer.eos_token_id, tokenizer.pad_token_id)
        self.eos_token_ids = frozenset(int(token) for token in ends if token is not None)

    def prompt(self, messages: list[dict[str, Any]]) -> list[int]:
        if self._build_prompt is not None:
            return list(self._build_prompt(messages))
        return list(self._tokenizer.apply_chat_template(messages, add_generation_prompt=True, return_dict=False))

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)
