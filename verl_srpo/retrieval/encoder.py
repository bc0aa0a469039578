"""Sentence encoders: any Hugging Face encoder, with prefixes, a pooling, and vectors of length one."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

POOLINGS = ("mean", "cls")


@dataclass(frozen=True)
class EncoderSettings:
    """How text becomes a vector.

    `model`: a Hugging Face name or folder. `query_prefix` and `passage_prefix` are put before the text (for E5:
    "query: " and "passage: "). `pooling`: `mean` over the tokens, or the first token (`cls`).
    """

    model: str
    query_prefix: str = ""
    passage_prefix: str = ""
    pooling: str = "mean"
    max_length: int = 256
    batch_size: int = 64
    device: str = "cpu"

    def __post_init__(self) -> None:
        if self.pooling not in POOLINGS:
            raise ValueError(f"pooling is {self.pooling!r}; one of {', '.join(POOLINGS)} is expected")
        for name in ("max_length", "batch_size"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; at least 1 is expected")


class TextEncoder:
    """Encodes texts in batches of similar length. Thread-safe: one call at a time."""

    def __init__(self, settings: EncoderSettings):
        from transformers import AutoModel, AutoTokenizer

        self.settings = settings
        self._tokenizer: Any = AutoTokenizer.from_pretrained(settings.model)
        self._model: Any = AutoModel.from_pretrained(settings.model).float().eval().to(settings.device)
        self._lock = threading.Lock()

    @property
    def dimension(self) -> int:
        return int(self._model.config.hidden_size)

    @property
    def num_bytes(self) -> int:
        return sum(parameter.numel() * parameter.element_size() for parameter in self._model.parameters())

    def encode_queries(self, texts: Sequence[str]) -> np.ndarray:
        """(len(texts), dimension) float32, each row of length one."""
        return self._encode([self.settings.query_prefix + text for text in texts])

    def encode_passages(self, texts: Sequence[str]) -> np.ndarray:
        """(len(texts), dimension) float32, each row of length one."""
        return self._encode([self.settings.passage_prefix + text for text in texts])

    def _encode(self, texts: list[str]) -> np.ndarray:
        vectors = np.empty((len(texts), self.dimension), dtype=np.float32)
        by_length = sorted(range(len(texts)), key=lambda i: len(texts[i]))
        with self._lock:
            for start in range(0, len(texts), self.settings.batch_size):
                rows = by_length[start : start + self.settings.batch_size]
                vectors[rows] = self._encode_batch([texts[i] for i in rows])
        return vectors

    def _encode_batch(self, texts: list[str]) -> np.ndarray:
        import torch

        with torch.inference_mode():
            tokens = self._tokenizer(
                texts, padding=True, truncation=True, max_length=self.settings.max_length, return_tensors="pt"
            ).to(self.settings.device)
            hidden = self._model(**tokens).last_hidden_state
            if self.settings.pooling == "cls":
                pooled = hidden[:, 0]
            else:
                mask = tokens["attention_mask"].unsqueeze(-1).to(hidden.dtype)
                pooled = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)
            return torch.nn.functional.normalize(pooled, dim=-1).cpu().numpy()
