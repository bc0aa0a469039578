import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from verl_srpo.retrieval import load_index
from verl_srpo.retrieval.build import build_index
from verl_srpo.retrieval.dense import bytes_per_vector, make_faiss_index, set_search_parameters
from verl_srpo.retrieval.encoder import EncoderSettings, TextEncoder
from verl_srpo.retrieval.index_directory import read_manifest
from verl_srpo.retrieval.memory import NotEnoughMemory

from .conftest import WORDS

MAX_LENGTH = 24
PREFIXES = {"query_prefix": "query: ", "passage_prefix": "passage: "}


def encoded_one_by_one(folder: Path, texts: list[str], pooling: str) -> np.ndarray:
    """(len(texts), dimension): no batch, no padding, float64 after the model."""
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    vectors = []
    for text in texts:
        with torch.no_grad():
            tokens = tokenizer(text, truncation=True, max_length=MAX_LENGTH, return_tensors="pt")
            hidden = model(**tokens).last_hidden_state[0].double().numpy()
        vector = hidden[0] if pooling == "cls" else hidden.mean(0)
        vectors.append(vector / np.linalg.norm(vector))
    return np.stack(vectors)


@pytest.fixture(scope="module")
def queries() -> list[str]:
    rng = np.random.default_rng(3)
    return [" ".join(rng.choice(WORDS, size=n)) for n in (1, 2, 3, 5, 8, 40)]


@pytest.mark.parametrize(
    ("pooling", "factory", "parameters", "prefixes"),
    [
        ("mean", "Flat", "", PREFIXES),
        ("cls", "Flat", "", {}),
        ("mean", "IVF4,Flat", "nprobe=4", PREFIXES),
        ("mean", "HNSW32", "efSearch=200", {}),
    ],
)
def test_dense_equals_brute_force(
    tmp_path, corpus, documents, encoder_folder, queries, pooling, factory, parameters, prefixes
) -> None:
    encoder = EncoderSettings(str(encoder_folder), pooling=pooling, max_length=MAX_LENGTH, batch_size=16, **prefixes)
    out = tmp_path / "index"
    build_index(corpus, out, kind="dense", encoder=encoder, index_factory=factory, search_parameters=parameters)
    contents = [encoder.passage_prefix + json.loads(line)["contents"] for line in documents]
    asked = [encoder.query_prefix + query for query in queries]
    cosines = (
        encoded_one_by_one(encoder_folder, asked, pooling) @ encoded_one_by_one(encoder_folder, contents, pooling).T
    )
    for hits, cosine in zip(load_index(out).search(queries, 5), cosines, strict=True):
        best = np.argsort(-cosine)[:5]
        assert [int(json.loads(hit.document)["id"]) for hit in hits] == best.tolist()
        assert [hit.score for hit in hits] == pytest.approx(cosine[best], abs=1e-5)


def test_prefixes_and_pooling_change_the_vectors(encoder_folder) -> None:
    plain = TextEncoder(EncoderSettings(str(encoder_folder)))
    other = TextEncoder(EncoderSettings(str(encoder_folder), pooling="cls", **PREFIXES))
    text = [" ".join(WORDS[:5])]
    assert np.allclose(plain.encode_queries(text), plain.encode_passages(text))
    assert np.abs(other.encode_queries(text) - other.encode_passages(text)).max() > 1e-2
    assert np.abs(other.encode_queries(text) - plain.encode_queries(text)).max() > 1e-2


def test_search_parameters_of_the_index_can_be_replaced(tmp_path, corpus, encoder_folder, queries) -> None:
    encoder, out = EncoderSettings(str(encoder_folder), max_length=MAX_LENGTH), tmp_path / "index"
    build_index(corpus, out, kind="dense", encoder=encoder, index_factory="IVF8,Flat", search_parameters="nprobe=8")
    one_list, all_lists = load_index(out, search_parameters="nprobe=1"), load_index(out)
    assert [len(hits) for hits in all_lists.search(queries, 200)] == [200] * len(queries)
    assert all(0 < len(hits) < 200 for hits in one_list.search(queries, 200))


def test_an_index_outlives_the_working_directory_and_its_encoder_may_move(
    tmp_path, corpus, encoder_folder, queries, monkeypatch
) -> None:
    shutil.copytree(encoder_folder, tmp_path / "here")
    out = tmp_path / "index"
    monkeypatch.chdir(tmp_path)
    build_index(corpus, out, kind="dense", encoder=EncoderSettings("here"))
    monkeypatch.chdir("/")
    found = load_index(out).search(queries, 3)
    (tmp_path / "here").rename(tmp_path / "there")
    with pytest.raises((OSError, ValueError), match="here"):
        load_index(out)
    assert load_index(out, encoder=str(tmp_path / "there")).search(queries, 3) == found


def test_topk_beyond_the_corpus_gives_all_of_it(tmp_path, corpus, encoder_folder) -> None:
    out = tmp_path / "index"
    build_index(corpus, out, kind="dense", encoder=EncoderSettings(str(encoder_folder)))
    (hits,) = load_index(out).search(["bara"], 1000)
    assert len(hits) == 200


def test_the_manifest_says_what_serving_needs(tmp_path, corpus, encoder_folder) -> None:
    out, encoder = tmp_path / "index", EncoderSettings(str(encoder_folder), **PREFIXES)
    manifest = build_index(corpus, out, kind="dense", encoder=encoder)
    model = AutoModel.from_pretrained(encoder_folder)
    assert manifest == read_manifest(out)
    assert manifest.settings["encoder"]["query_prefix"] == "query: "
    assert (manifest.passages, manifest.settings["dimension"]) == (200, 32)
    assert manifest.settings["encoder_bytes"] == 4 * sum(parameter.numel() for parameter in model.parameters())


@pytest.mark.parametrize(("factory", "size"), [("Flat", 128), ("SQ8", 32), ("PQ8x4np", 4), ("IVF4,Flat", 128 + 8)])
def test_bytes_per_vector(factory: str, size: int) -> None:
    index = make_faiss_index(32, factory)
    index.train(np.random.default_rng(0).normal(size=(400, 32)).astype(np.float32))
    assert bytes_per_vector(index) == pytest.approx(size, rel=0.02)
    assert index.ntotal == 0


def test_a_flat_index_that_will_not_fit_is_refused_before_encoding(
    tmp_path, corpus, encoder_folder, monkeypatch
) -> None:
    monkeypatch.setattr("verl_srpo.retrieval.memory.available_memory", lambda: 10 * 2**20)
    monkeypatch.setattr(TextEncoder, "encode_passages", None)  # calling it would raise TypeError
    with pytest.raises(NotEnoughMemory, match=r"index factory 'Flat' needs about .* only 10.0 MiB .* --index-factory"):
        build_index(corpus, tmp_path / "index", kind="dense", encoder=EncoderSettings(str(encoder_folder)))
    assert list(tmp_path.iterdir()) == []


def test_bad_factory_strings_are_refused_with_the_reason(tmp_path, corpus, encoder_folder) -> None:
    encoder = EncoderSettings(str(encoder_folder))
    with pytest.raises(ValueError, match=r"index factory 'Cube' cannot be made .* could not parse .* examples"):
        build_index(corpus, tmp_path / "index", kind="dense", encoder=encoder, index_factory="Cube")
    with pytest.raises(ValueError, match="'IVF4096,Flat' cannot be trained on 200 passages"):
        build_index(corpus, tmp_path / "index", kind="dense", encoder=encoder, index_factory="IVF4096,Flat")
    with pytest.raises(ValueError, match="search parameters 'nprobe=3' do not suit this index"):
        set_search_parameters(make_faiss_index(32, "Flat"), "nprobe=3")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"pooling": "max"}, "pooling is 'max'"),
        ({"max_length": 0}, "max_length is 0"),
        ({"batch_size": -1}, "batch_size"),
    ],
)
def test_bad_encoder_settings_are_refused(changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        EncoderSettings("model", **changes)
