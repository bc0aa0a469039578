"""Local files and folders in the forms that people have, the hub, and what cannot be read."""

import datasets
import pyarrow.parquet as pq
import pytest

from data_preprocess.reading import SourceError, read_rows
from data_preprocess.sources import MATH
from tests.data_preprocess.fixtures_in_source_schema import MATH_ROWS, write

GSM8K = MATH["gsm8k"]
ROWS = MATH_ROWS["gsm8k"][0]


def _questions(source, split, path):
    return [row["question"] for row in read_rows(source, split, path)]


@pytest.mark.parametrize("suffix", ["", ".gz", ".bz2", ".xz", ".zst"])
@pytest.mark.parametrize("name", ["rows.jsonl", "rows.json"])
def test_compressed_files(tmp_path, name, suffix):
    assert list(read_rows(GSM8K, "train", write(ROWS, tmp_path / f"{name}{suffix}"))) == ROWS


def test_json_lines_under_the_name_json(tmp_path):
    path = write(ROWS, tmp_path / "rows.jsonl").rename(tmp_path / "rows.json")
    assert list(read_rows(GSM8K, "train", path)) == ROWS


def test_only_the_columns_that_are_needed_are_read(tmp_path):
    path = write([row | {"extra": "x" * 1000} for row in ROWS], tmp_path / "rows.parquet")
    rows = read_rows(GSM8K, "train", path)
    assert (rows.total, list(rows)) == (2, ROWS)


def test_a_clone_of_the_hub_repository(tmp_path):
    """Configurations in folders, splits in names, and other files beside them."""
    for subset in ("main", "socratic"):
        for split in ("train", "test"):
            rows = [{"question": f"{subset} {split} {i}?", "answer": "#### 1"} for i in range(2)]
            write(rows[:1], tmp_path / subset / f"{split}-00000-of-00002.parquet")
            write(rows[1:], tmp_path / subset / f"{split}-00001-of-00002.parquet")
    (tmp_path / "dataset_infos.json").write_text("{}")
    (tmp_path / "README.md").write_text("text")
    (tmp_path / ".cache").mkdir()
    (tmp_path / ".cache" / "train.json").write_text("{}")
    rows = read_rows(GSM8K, "train", tmp_path)
    assert (rows.total, rows.origin) == (2, "local: train-00000-of-00002.parquet, train-00001-of-00002.parquet")
    assert [row["question"] for row in rows] == ["main train 0?", "main train 1?"]
    assert _questions(GSM8K, "test", tmp_path) == ["main test 0?", "main test 1?"]


def test_the_original_release_of_math_has_a_file_for_each_problem(tmp_path):
    for i in range(3):
        row = {"problem": f"p{i}", "level": "Level 1", "type": "Algebra", "solution": rf"\boxed{{{i}}}"}
        write([], tmp_path / "train" / "algebra" / f"{i}.json").write_text(__import__("json").dumps(row))
    assert [row["problem"] for row in read_rows(MATH["math"], "train", tmp_path)] == ["p0", "p1", "p2"]


def test_a_set_whose_test_split_is_called_train(tmp_path):
    write(MATH_ROWS["aime24"][0], tmp_path / "data" / "train-00000-of-00001.parquet")
    assert len(list(read_rows(MATH["aime24"], "test", tmp_path))) == 1
    with pytest.raises(SourceError, match="aime24 has no train part; it serves as test"):
        read_rows(MATH["aime24"], "train", tmp_path)


def test_files_without_a_split_in_their_names(tmp_path):
    write(MATH_ROWS["dapo"][0], tmp_path / "data" / "dapo-math-17k.parquet")
    assert len(list(read_rows(MATH["dapo"], "train", tmp_path))) == 4


def test_a_folder_of_the_other_split_is_not_taken(tmp_path):
    write(ROWS, tmp_path / "train.jsonl")
    with pytest.raises(SourceError, match=r"no file in .* has 'test' in its name.*train\.jsonl"):
        read_rows(GSM8K, "test", tmp_path)


def test_saved_by_datasets(tmp_path):
    data = datasets.Dataset.from_list(ROWS)
    data.save_to_disk(tmp_path / "one")
    datasets.DatasetDict({"train": data}).save_to_disk(tmp_path / "both")
    for folder in ("one", "both"):
        assert list(read_rows(GSM8K, "train", tmp_path / folder)) == ROWS
    with pytest.raises(SourceError, match="has no split 'test', only train"):
        read_rows(GSM8K, "test", tmp_path / "both")


def test_the_hub_copy(monkeypatch):
    asked = []

    def load_dataset(hub, subset, split):
        asked.append((hub, subset, split))
        return datasets.Dataset.from_list(ROWS)

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    rows = read_rows(GSM8K, "train", None)
    assert (list(rows), rows.total, rows.origin) == (ROWS, 2, "hub: openai/gsm8k (main), split train")
    list(read_rows(MATH["aime25"], "test", None))
    assert asked == [("openai/gsm8k", "main", "train"), ("MathArena/aime_2025", None, "train")]


def test_without_the_hub_the_error_says_how_to_go_on(monkeypatch):
    def load_dataset(*args, **kwargs):
        raise ConnectionError("no route")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(SourceError, match=r"(?s)openai/gsm8k.*no route.*gsm8k=PATH"):
        read_rows(GSM8K, "train", None)


def test_what_cannot_be_read(tmp_path):
    with pytest.raises(SourceError, match="does not exist"):
        read_rows(GSM8K, "train", tmp_path / "missing")
    (tmp_path / "rows.csv").write_text("a,b")
    with pytest.raises(SourceError, match=r"rows\.csv is none of"):
        read_rows(GSM8K, "train", tmp_path / "rows.csv")
    with pytest.raises(SourceError, match=r"no \.parquet, \.jsonl, \.json file"):
        read_rows(GSM8K, "train", tmp_path)
    for name in ("broken.parquet", "broken.jsonl.gz", "broken.jsonl.xz"):
        (tmp_path / name).write_bytes(b"nonsense")
        with pytest.raises(SourceError, match=rf"{name} cannot be read"):
            list(read_rows(GSM8K, "train", tmp_path / name))


def test_no_output_appears_when_a_source_fails(prepare, tmp_path):
    """Neither a file half written nor one of the two splits."""
    good = write(ROWS, tmp_path / "good.jsonl")
    bad = write([{"text": "another set"}], tmp_path / "bad.jsonl")
    error = prepare("math", "--test", f"gsm8k={good}", "--train", f"gsm8k={bad}", expect=1)
    assert "no row of gsm8k can be used" in error and "1 refused: no column question (rows 0)" in error
    assert "read from the columns question, answer" in error
    assert list(prepare.out.iterdir()) == []


def test_nothing_left_is_an_error(prepare, tmp_path):
    path = write(ROWS, tmp_path / "rows.jsonl")
    error = prepare("math", "--test", f"gsm8k={path}", "--train", f"gsm8k={path}", expect=1)
    assert "nothing is left for train" in error and "2 also in the test sets" in error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "at least one of --train and --test"),
        (("--train", "gsm9k"), "unknown data set 'gsm9k'; known: gsm8k, math"),
        (("--train", "gsm8k", "--sample", "0"), "--sample must be at least 1, got 0"),
    ],
)
def test_usage_errors(prepare, capsys, arguments, message):
    with pytest.raises(SystemExit):
        prepare("math", *arguments)
    assert message in capsys.readouterr().err


def test_many_rows_are_written_in_batches(prepare, tmp_path):
    path = write([{"question": f"q{i}?", "answer": f"#### {i}"} for i in range(10_000)], tmp_path / "rows.jsonl")
    prepare("math", "--train", f"gsm8k={path}")
    table = pq.read_table(prepare.out / "train.parquet")
    truths = [row["ground_truth"] for row in table["reward_model"].to_pylist()]
    assert truths == [str(i) for i in range(10_000)]
    assert pq.read_metadata(prepare.out / "train.parquet").num_row_groups > 1
