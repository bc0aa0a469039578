import pytest

from verl_srpo.retrieval import loading, memory
from verl_srpo.retrieval.memory import PROCESS_BYTES, MemoryNeed, NotEnoughMemory, require_memory, size_text


def test_sizes_read_well() -> None:
    assert [size_text(size) for size in (0, 2**20, 3 * 2**29)] == ["0.0 MiB", "1.0 MiB", "1.5 GiB"]


def test_what_fits_passes_and_what_does_not_says_both_sizes() -> None:
    need = MemoryNeed(resident=2**30, mapped=2**31, passages=5)
    require_memory(need, "index", available=2**30)
    with pytest.raises(NotEnoughMemory, match=r"index needs about 1.0 GiB .* 2.0 GiB of files, but only 1024.0 MiB"):
        require_memory(need, "index", available=2**30 - 1)


def test_a_corpus_file_that_is_too_large_is_refused_before_it_is_read(tmp_path, corpus, monkeypatch) -> None:
    monkeypatch.setattr(memory, "available_memory", lambda: PROCESS_BYTES)
    monkeypatch.setattr(loading, "CorpusReader", None)  # calling it would raise TypeError
    with pytest.raises(NotEnoughMemory, match=r"corpus\.jsonl needs"):
        loading.load_index(corpus)


def test_the_limit_of_a_container_counts(tmp_path) -> None:
    (tmp_path / "memory.max").write_text("1000\n")
    (tmp_path / "memory.current").write_text("700\n")
    (tmp_path / "memory.stat").write_text("anon 300\ninactive_file 250\n")
    assert memory._left_in_control_group(tmp_path) == 1000 - 700 + 250
    (tmp_path / "memory.max").write_text("max\n")
    assert memory._left_in_control_group(tmp_path) is None
    assert memory._left_in_control_group(tmp_path / "absent") is None
    assert memory.available_memory() > 0
