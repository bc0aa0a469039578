"""docs/retrieval.md gives the defaults that the code has."""

import argparse
import inspect
import re
from pathlib import Path

import pytest

from verl_srpo.retrieval import HTTPRetriever
from verl_srpo.retrieval.bm25 import K1, B
from verl_srpo.retrieval.command import add_parsers
from verl_srpo.retrieval.dense import DenseIndex
from verl_srpo.retrieval.protocol import Limits
from verl_srpo.retrieval.world import LEVELS, WorldSettings, make_world

TEXT = (Path(__file__).parents[2] / "docs" / "retrieval.md").read_text()


def serve_defaults() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    add_parsers(parser.add_subparsers())
    return parser.parse_args(["serve-retriever", "--index", "x"])


def test_limits_of_the_server() -> None:
    defaults = vars(serve_defaults())
    for flag in ("--max-topk", "--max-queries", "--max-query-chars", "--max-pending"):
        assert f"`{flag}` {defaults[flag[2:].replace('-', '_')]}" in TEXT
    assert (defaults["topk"], defaults["host"], defaults["port"]) == (3, "127.0.0.1", 8000)
    assert Limits() == Limits(3, defaults["max_topk"], defaults["max_queries"], defaults["max_query_chars"])
    assert f"{Limits().max_body_bytes // 2**20} MiB" in TEXT
    assert f"(`--max-batch` {DenseIndex.max_batch})" in TEXT


def test_patience_of_the_client() -> None:
    defaults = {name: p.default for name, p in inspect.signature(HTTPRetriever).parameters.items()}
    text = " ".join(TEXT.split())
    assert (
        f"a pool of {defaults['max_connections']} connections and a cache of {defaults['cache_size']} answers" in text
    )
    assert f"time-outs ({defaults['timeout']:.0f} s)" in text
    assert f"up to {defaults['retries']} times, after {defaults['backoff']} s" in text
    assert f"up to {defaults['max_backoff']:.0f} s" in text


@pytest.mark.parametrize("level", LEVELS)
def test_sizes_of_the_world(level: str) -> None:
    passages = len(make_world(WorldSettings.level(level)).passages)
    assert re.search(rf"\| `{level}` \| {passages:,}", TEXT)


def test_parameters_of_bm25() -> None:
    assert f"BM25, k1 {K1}, b {B}" in TEXT
