"""What users of neighbouring systems met with, and must not meet here."""

import httpx
import pytest

from verl_srpo.retrieval import memory
from verl_srpo.retrieval.build import build_index
from verl_srpo.retrieval.dense import DenseIndex
from verl_srpo.retrieval.encoder import EncoderSettings
from verl_srpo.retrieval.index_directory import Manifest
from verl_srpo.retrieval.loading import load_index
from verl_srpo.retrieval.memory import NotEnoughMemory, index_memory, require_memory
from verl_srpo.retrieval.server import make_app

from .serving import running

PASSAGES, DIMENSION = 21_015_324, 768  # the usual Wikipedia corpus, with a base-sized encoder


@pytest.mark.parametrize("return_scores", [True, False])
@pytest.mark.parametrize("dialect", [{"queries": ["bara", "gemo"]}, {"query": "bara"}])
def test_field_report_16_both_values_of_return_scores_work(bm25, return_scores, dialect) -> None:
    with running(make_app(bm25)) as url:
        response = httpx.post(f"{url}/retrieve", json={**dialect, "topk": 2, "return_scores": return_scores})
    assert response.status_code == 200
    items = [item for items in response.json()["result"] for item in items]
    assert len(items) == 2 * len(dialect.get("queries", [0]))
    for item in items:
        assert set(item) == ({"document", "score"} if return_scores else {"id", "contents"})


def manifest(kind: str, **files: int) -> Manifest:
    settings = {"dimension": DIMENSION, "encoder_bytes": 440_000_000} if kind == "dense" else {"analyzer": "english"}
    return Manifest(kind, PASSAGES, {}, settings, {}, {"passages.jsonl": 14 * 2**30, **files})


def test_field_report_17_a_flat_index_is_refused_with_a_way_out_that_fits() -> None:
    flat = index_memory(manifest("dense", **{"vectors.faiss": PASSAGES * DIMENSION * 4}))
    with pytest.raises(NotEnoughMemory) as caught:
        require_memory(flat, "wiki-18", available=60 * 2**30)
    assert "wiki-18 needs about 60." in str(caught.value)
    assert "only 60.0 GiB of memory are available" in str(caught.value)
    assert '--index-factory "IVF18336,PQ96" (about 2.1 GiB' in str(caught.value)
    assert "--kind bm25" in str(caught.value)
    smaller = index_memory(manifest("dense", **{"vectors.faiss": PASSAGES * (96 + 8) + 18336 * DIMENSION * 4}))
    require_memory(smaller, "wiki-18", available=4 * 2**30)


def test_field_report_17_bm25_keeps_its_index_on_disk() -> None:
    need = index_memory(manifest("bm25", **{"tantivy/a.idx": 8 * 2**30}))
    assert need.mapped == 22 * 2**30
    require_memory(need, "wiki-18", available=2**30)


def test_field_report_17_the_estimate_comes_before_the_loading(tmp_path, corpus, encoder_folder, monkeypatch) -> None:
    build_index(corpus, tmp_path / "index", kind="dense", encoder=EncoderSettings(str(encoder_folder)))
    monkeypatch.setattr(memory, "available_memory", lambda: 2**20)
    monkeypatch.setattr(DenseIndex, "open", None)  # calling it would raise TypeError
    with pytest.raises(NotEnoughMemory, match=r"only 1\.0 MiB of memory are available"):
        load_index(tmp_path / "index")


def test_field_report_17_a_small_corpus_needs_no_index_folder(corpus) -> None:
    assert len(load_index(corpus)) == 200
