import os
import signal
import subprocess
import sys

import pytest

from verl_srpo.retrieval import load_index
from verl_srpo.retrieval.build import build_index
from verl_srpo.retrieval.corpus import CorpusError
from verl_srpo.retrieval.index_directory import IndexFolderError, new_index_folder, read_manifest

from .conftest import document, write_corpus

KILLED_BUILD = """
import os, signal, sys
from pathlib import Path
from verl_srpo.retrieval.build import build_index
def die(stage, done, total):
    if stage == sys.argv[3]:
        os.kill(os.getpid(), signal.SIGKILL)
build_index(Path(sys.argv[1]), Path(sys.argv[2]), kind="bm25", replace=True, progress=die)
"""


@pytest.mark.parametrize("stage", ["reading the corpus", "indexing by BM25"])
def test_a_killed_build_leaves_nothing_that_loads_and_the_next_one_clears_up(tmp_path, corpus, stage) -> None:
    out = tmp_path / "index"
    killed = subprocess.run([sys.executable, "-c", KILLED_BUILD, str(corpus), str(out), stage])
    assert killed.returncode == -signal.SIGKILL
    assert not out.exists()
    (partial,) = tmp_path.iterdir()
    with pytest.raises(IndexFolderError, match=r"holds no index \(manifest.json is missing\)"):
        load_index(partial)
    build_index(corpus, out, kind="bm25")
    assert list(tmp_path.iterdir()) == [out]
    assert len(load_index(out)) == 200


def test_a_killed_replacement_leaves_the_old_index(tmp_path, corpus) -> None:
    out = tmp_path / "index"
    build_index(write_corpus(tmp_path / "old.jsonl", [document(0, "Old", "one")]), out, kind="bm25")
    subprocess.run([sys.executable, "-c", KILLED_BUILD, str(corpus), str(out), "indexing by BM25"])
    assert len(load_index(out)) == 1
    build_index(corpus, out, kind="bm25", replace=True)
    assert len(load_index(out)) == 200


def test_a_failed_build_leaves_nothing(tmp_path) -> None:
    with pytest.raises(CorpusError):
        build_index(write_corpus(tmp_path / "corpus.jsonl", [b"bad"]), tmp_path / "index", kind="bm25")
    assert [path.name for path in tmp_path.iterdir()] == ["corpus.jsonl"]


def test_an_index_is_not_replaced_unasked_and_other_folders_never(tmp_path, corpus) -> None:
    out = tmp_path / "index"
    build_index(corpus, out, kind="bm25")
    with pytest.raises(IndexFolderError, match="exists already: choose another --out, or replace it with --force"):
        build_index(corpus, out, kind="bm25")
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "thesis.txt").write_text("years of work")
    with pytest.raises(IndexFolderError, match="is no index and is not empty"):
        build_index(corpus, tmp_path / "precious", kind="bm25", replace=True)
    assert (tmp_path / "precious" / "thesis.txt").read_text() == "years of work"


def test_two_builds_of_one_folder_are_refused(tmp_path, corpus) -> None:
    with (
        new_index_folder(tmp_path / "index") as folder,
        pytest.raises(IndexFolderError, match="another process is building"),
    ):
        (folder / "half").write_text("done")
        build_index(corpus, tmp_path / "index", kind="bm25")
    assert (tmp_path / "index" / "half").read_text() == "done"


def test_a_partial_copy_is_refused(tmp_path, corpus) -> None:
    out = tmp_path / "index"
    manifest = build_index(corpus, out, kind="bm25")
    assert "passages.jsonl" in manifest.files
    os.truncate(out / "passages.jsonl", 1000)
    with pytest.raises(IndexFolderError, match=r"not whole, passages.jsonl has 1000 bytes instead of \d+"):
        load_index(out)
    (out / "passages.jsonl").unlink()
    with pytest.raises(IndexFolderError, match=r"passages\.jsonl is missing"):
        load_index(out)


def test_another_format_is_refused(tmp_path, corpus) -> None:
    out = tmp_path / "index"
    build_index(corpus, out, kind="bm25")
    manifest = out / "manifest.json"
    manifest.write_text(manifest.read_text().replace('"format": 1', '"format": 2'))
    with pytest.raises(IndexFolderError, match="has format 2, this version reads 1"):
        read_manifest(out)
    manifest.write_text("{")
    with pytest.raises(IndexFolderError, match=r"manifest\.json cannot be read"):
        read_manifest(out)


def test_unknown_kind_and_missing_encoder_are_refused(tmp_path, corpus) -> None:
    with pytest.raises(ValueError, match="kind is 'sparse'; one of bm25, dense is expected"):
        build_index(corpus, tmp_path / "index", kind="sparse")
    with pytest.raises(ValueError, match="needs an encoder: --encoder"):
        build_index(corpus, tmp_path / "index", kind="dense")
