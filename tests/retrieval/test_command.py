import argparse
import subprocess
import sys

import pytest

from verl_srpo.retrieval import command as retrieval_command
from verl_srpo.retrieval.index_directory import read_manifest

from .conftest import document, write_corpus
from .serving import command


def run(capsys, *arguments: str) -> tuple[int, str, str]:
    parser = argparse.ArgumentParser()
    retrieval_command.add_parsers(parser.add_subparsers(required=True))
    args = parser.parse_args(arguments)
    status = args.run(args)
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_index_in_a_process_shows_progress_and_says_what_it_made(tmp_path, corpus) -> None:
    out = tmp_path / "index"
    done = subprocess.run(command("index", "--corpus", str(corpus), "--out", str(out)), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"{out}: bm25 index of 200 passages" in done.stdout
    assert "serving it needs about" in done.stdout
    assert "reading the corpus" in done.stderr and "indexing by BM25" in done.stderr
    assert read_manifest(out).settings == {"analyzer": "english"}


def test_bad_lines_fail_the_command_unless_they_are_to_be_left_out(tmp_path, capsys) -> None:
    bad = write_corpus(tmp_path / "bad.jsonl", [document(0, "T", "x"), b"nonsense"])
    arguments = ["index", "--corpus", str(bad), "--out", str(tmp_path / "index"), "--quiet"]
    status, _, error = run(capsys, *arguments)
    assert (status, "line 2: not JSON" in error) == (2, True)
    status, output, _ = run(capsys, *arguments, "--skip-bad-lines")
    assert (status, "1 passages, 1 bad lines left out" in output) == (0, True)


def test_a_dense_index_by_command_keeps_every_setting(tmp_path, corpus, encoder_folder, capsys) -> None:
    out = tmp_path / "index"
    options = {
        "--encoder": encoder_folder, "--index-factory": "IVF2,Flat", "--search-parameters": "nprobe=2",
        "--query-prefix": "query: ", "--passage-prefix": "passage: ", "--pooling": "cls", "--max-length": 16,
        "--batch-size": 8, "--device": "cpu",
    }  # fmt: skip
    flat = [str(part) for option in options.items() for part in option]
    status, output, _ = run(
        capsys, "index", "--corpus", str(corpus), "--out", str(out), "--kind", "dense", "--quiet", *flat
    )
    assert (status, "dense index of 200 passages" in output) == (0, True)
    settings = read_manifest(out).settings
    assert (settings["index_factory"], settings["search_parameters"]) == ("IVF2,Flat", "nprobe=2")
    assert settings["encoder"] == {
        "model": str(encoder_folder), "query_prefix": "query: ", "passage_prefix": "passage: ", "pooling": "cls",
        "max_length": 16, "batch_size": 8, "device": "cpu",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["index", "--corpus", "/absent.jsonl", "--out", "{tmp}/x"], "No such file"),
        (["index", "--corpus", "{corpus}", "--out", "{tmp}/x", "--kind", "dense"], "needs an encoder: --encoder"),
        (["index", "--corpus", "{corpus}", "--out", "{index}"], "exists already"),
        (["serve-retriever", "--index", "{tmp}/absent", "--port", "0"], "does not exist"),
        (["serve-retriever", "--index", "{tmp}", "--port", "0"], "holds no index"),
        (["serve-retriever", "--index", "{index}", "--port", "0", "--topk", "200"], "more than max_topk"),
        (
            ["serve-retriever", "--index", "{index}", "--port", "0", "--host", "256.0.0.1"],
            "cannot listen on 256.0.0.1:0",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_a_line(tmp_path, corpus, bm25_folder, capsys, arguments, reason) -> None:
    places = {"tmp": tmp_path, "corpus": corpus, "index": bm25_folder}
    status, _, error = run(capsys, *[argument.format(**places) for argument in arguments])
    assert status == 2
    assert reason in error
    assert "Traceback" not in error


def test_a_missing_package_names_the_extra(corpus, tmp_path, capsys, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "tantivy", None)
    status, _, error = run(capsys, "index", "--corpus", str(corpus), "--out", str(tmp_path / "index"), "--quiet")
    assert (status, 'pip install "verl-srpo[search]"' in error) == (2, True)


def test_command_and_package_import_nothing_heavy() -> None:
    heavy = ("torch", "transformers", "tantivy", "faiss", "fastapi", "httpx", "verl", "rich", "pyarrow")
    code = f"import sys, verl_srpo.retrieval.command; print([m for m in {heavy} if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "[]\n"
