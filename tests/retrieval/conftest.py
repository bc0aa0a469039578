"""A corpus, its indexes, and an encoder made on the spot."""

import json
import random
from pathlib import Path

import faiss
import pytest
import torch

from verl_srpo.retrieval.bm25 import BM25Index
from verl_srpo.retrieval.build import build_index
from verl_srpo.retrieval.store import PassageStore

WORDS = [f"{first}{second}" for first in "bdfgklmnprst" for second in ("ara", "emo", "ilu", "ono", "uki")]


def document(identifier: object, title: str, text: str) -> bytes:
    return json.dumps({"id": str(identifier), "contents": f'"{title}"\n{text}'}, ensure_ascii=False).encode()


def write_corpus(path: Path, documents: list[bytes]) -> Path:
    path.write_bytes(b"".join(line + b"\n" for line in documents))
    return path


@pytest.fixture(scope="session", autouse=True)
def one_thread() -> None:
    """Tiny models lose more by sharing cores than they gain."""
    torch.set_num_threads(1)
    faiss.omp_set_num_threads(1)


@pytest.fixture(scope="session")
def documents() -> list[bytes]:
    rng = random.Random(7)
    return [document(i, " ".join(rng.sample(WORDS, 2)), " ".join(rng.choices(WORDS, k=30))) for i in range(200)]


@pytest.fixture(scope="session")
def corpus(documents: list[bytes], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_corpus(tmp_path_factory.mktemp("corpus") / "corpus.jsonl", documents)


@pytest.fixture(scope="session")
def bm25_folder(corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("indexes") / "bm25"
    build_index(corpus, folder, kind="bm25", threads=1)
    return folder


@pytest.fixture(scope="session")
def bm25(documents: list[bytes]) -> BM25Index:
    return BM25Index.in_memory(PassageStore.in_memory(documents))


@pytest.fixture(scope="session")
def encoder_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A BERT encoder of random weights whose vocabulary is WORDS."""
    from transformers import BertConfig, BertModel, BertTokenizer

    folder = tmp_path_factory.mktemp("encoder")
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ":", '"', "query", "passage", *WORDS]
    BertTokenizer(vocab={word: i for i, word in enumerate(vocabulary)}).save_pretrained(folder)
    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=len(vocabulary),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=64,
        initializer_range=0.5,  # the usual 0.02 would make all texts nearly equal
    )
    BertModel(config).save_pretrained(folder)
    return folder
