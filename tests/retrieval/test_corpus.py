import gzip
import hashlib
import json

import pytest

from verl_srpo.retrieval.corpus import CorpusError, CorpusReader
from verl_srpo.retrieval.store import PassageStore

GOOD = b'{"id": "0", "contents": "\\"T\\"\\nbody"}'
BAD_LINES = {
    b"nonsense": "not JSON",
    b'{"id": "1", "contents": "\xff"}': "not UTF-8",
    b"[1]": "a JSON object is expected, this is a list",
    b'{"contents": "x"}': "\"id\" is missing; the line has ['contents']",
    b'{"id": "1", "text": "x"}': "\"contents\" is missing; the line has ['id', 'text']",
    b'{"id": "", "contents": "x"}': "\"id\" is ''",
    b'{"id": true, "contents": "x"}': '"id" is True',
    b'{"id": "1", "contents": "  "}': "\"contents\" is '  '",
    b'{"id": "1", "contents": 5}': "\"contents\" is '5'",
    b'{"id": "1", "contents": "x", "score": NaN}': "NaN is not JSON",
    b'{"id": "1", "contents": "\\ud800"}': "a lone surrogate",
}


@pytest.mark.parametrize("line", BAD_LINES)
def test_a_bad_line_is_refused_by_number_with_its_reason(tmp_path, line: bytes) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(GOOD + b"\n\n" + line + b"\n")
    with pytest.raises(CorpusError) as caught:
        list(CorpusReader(path))
    assert f"line 3: {BAD_LINES[line]}" in str(caught.value)
    assert "1 bad lines" in str(caught.value)


def test_all_bad_lines_are_counted_and_ten_are_listed(tmp_path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(GOOD + b"\n" + b"x\n" * 14)
    with pytest.raises(CorpusError, match=r"14 bad lines(?s:.*)line 11: not JSON(?s:.*)and 4 more"):
        list(CorpusReader(path))


def test_bad_lines_can_be_left_out_and_are_counted(tmp_path) -> None:
    path = tmp_path / "corpus.jsonl"
    path.write_bytes(b"\n".join([GOOD, *BAD_LINES, GOOD]))
    reader = CorpusReader(path, skip_bad_lines=True)
    assert [json.loads(line)["id"] for line in reader] == ["0"]
    assert (reader.passages, reader.skipped) == (1, len(BAD_LINES) + 1)


def test_a_repeated_id_is_refused_with_both_lines(tmp_path) -> None:
    path = tmp_path / "corpus.jsonl"
    lines = [{"id": i, "contents": "x"} for i in (7, 8, "7", 9, "8")]
    path.write_text("\n".join(map(json.dumps, lines)))
    with pytest.raises(CorpusError) as caught:
        list(CorpusReader(path))
    assert 'line 3: "id" is the same as on line 1' in str(caught.value)
    assert 'line 5: "id" is the same as on line 2' in str(caught.value)


def test_an_empty_corpus_is_refused(tmp_path) -> None:
    (tmp_path / "corpus.jsonl").write_text("\n")
    with pytest.raises(CorpusError, match="holds no passages"):
        list(CorpusReader(tmp_path / "corpus.jsonl"))


def test_packed_and_plain_corpora_read_alike(tmp_path) -> None:
    text = b"\xef\xbb\xbf" + '{"id": 1, "contents": "Müller", "extra": [2]}\n'.encode()
    (tmp_path / "a.jsonl").write_bytes(text)
    (tmp_path / "a.jsonl.gz").write_bytes(gzip.compress(text))
    readers = [CorpusReader(tmp_path / name) for name in ("a.jsonl", "a.jsonl.gz")]
    assert [list(reader) for reader in readers] == [['{"id": "1", "contents": "Müller", "extra": [2]}'.encode()]] * 2
    assert {reader.sha256 for reader in readers} == {hashlib.sha256(text).hexdigest()}


def test_a_truncated_gzip_file_is_refused(tmp_path) -> None:
    path = tmp_path / "a.jsonl.gz"
    path.write_bytes(gzip.compress(GOOD * 100)[:-12])
    with pytest.raises(CorpusError, match="no whole gzip file"):
        list(CorpusReader(path))


def test_the_store_gives_every_document_back(tmp_path, documents) -> None:
    on_disk, in_memory = PassageStore.write(documents, tmp_path), PassageStore.in_memory(documents)
    assert list(on_disk) == list(in_memory) == documents
    assert len(on_disk) == len(documents)
    assert PassageStore.open(tmp_path)[123] == documents[123]
