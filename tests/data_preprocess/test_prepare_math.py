"""prepare_math.py on fixtures in every source's own schema, read back by verl's RLHFDataset and by the scorer."""

import hashlib
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf

from data_preprocess.converters import without_instructions
from data_preprocess.sources import MATH
from tests.data_preprocess.fixtures_in_source_schema import DAPO_HEAD, DAPO_TAIL, MATH_ROWS, ROOT, write
from verl_srpo.rewards import compute_score

SPLIT = {name: "train" if "train" in source.splits else "test" for name, source in MATH.items()}


def _read(path):
    return pq.read_table(path).to_pylist()


def _pairs(path):
    return [(row["prompt"][0]["content"], row["reward_model"]["ground_truth"]) for row in _read(path)]


def test_the_fixtures_cover_every_source():
    assert set(MATH_ROWS) == set(MATH)


@pytest.mark.parametrize("file_format", ["parquet", "json", "jsonl"])
@pytest.mark.parametrize("name", MATH)
def test_every_source_in_every_format(prepare, tmp_path, name, file_format):
    rows, expected = MATH_ROWS[name]
    path = write(rows, tmp_path / f"data.{file_format}")
    manifest, _ = prepare("math", f"--{SPLIT[name]}", f"{name}={path}")
    written = prepare.out / f"{SPLIT[name]}.parquet"
    assert _pairs(written) == expected
    (report,) = manifest["sources"]
    assert report["rows_read"] == len(rows)
    assert report["rows_written"] == {name: len(expected)}
    assert report["duplicates"] == len(rows) - len(expected)
    assert report["refused"] == {}
    described = manifest["files"][written.name]
    assert described == {"rows": len(expected), "sha256": hashlib.sha256(written.read_bytes()).hexdigest()}


def test_verl_reads_what_was_written_and_the_gold_answers_score(prepare, tmp_path):
    """Through RLHFDataset and its collate function to compute_score: every source in one run."""
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    requests = {"train": [], "test": []}
    for name, (rows, _) in MATH_ROWS.items():
        requests[SPLIT[name]].append(f"{name}={write(rows, tmp_path / name / 'data.parquet')}")
    prepare("math", "--train", *requests["train"], "--test", *requests["test"])
    for split in ("train", "test"):
        config = OmegaConf.create({"cache_dir": str(tmp_path / "cache"), "filter_overlong_prompts": False})
        dataset = RLHFDataset(str(prepare.out / f"{split}.parquet"), tokenizer=None, config=config)
        names = [name for name in MATH if SPLIT[name] == split]
        assert sorted({dataset[i]["data_source"] for i in range(len(dataset))}) == sorted(names)
        batch = collate_fn([dataset[i] for i in range(len(dataset))])
        assert list(batch["index"]) == list(range(len(dataset)))
        for data_source, truth, prompt in zip(
            batch["data_source"], batch["reward_model"], batch["raw_prompt"], strict=True
        ):
            assert prompt[0].keys() == {"role", "content"} and prompt[0]["role"] == "user"
            answer = truth["ground_truth"]
            assert compute_score(data_source, rf"\boxed{{{answer}}}", answer)["score"] == 1.0


def test_rows_are_refused_with_reason_and_number(prepare, tmp_path):
    good = {"problem": "Fine?", "answer": "1"}
    rows = [
        good,
        {"problem": "No answer"},
        {"problem": "Null", "answer": None},
        {"problem": "Empty", "answer": "  "},
        {"problem": "", "answer": "1"},
        {"problem": 7, "answer": "1"},
        {"problem": "Bool", "answer": True},
        {"problem": "Two", "answer": ["1", "2"]},
        {"problem": "Open", "answer": r"\frac{1}{2"},
        {"problem": "Endless", "answer": float("inf")},
        {"problem": "Object", "answer": {"value": 1}},
        {"answer": "1"},
        {"problem": "Empty box", "answer": r"\boxed{}"},
    ]
    path = write(rows, tmp_path / "rows.jsonl")
    with path.open("a") as file:
        file.write("[1]\n{broken\n\n")
    manifest, printed = prepare("math", "--test", f"aime24={path}")
    refused = {reason: entry["rows"] for reason, entry in manifest["sources"][0]["refused"].items()}
    assert refused == {
        "no column answer": [1],
        "answer is null": [2],
        "answer is empty": [3],
        "problem is empty": [4],
        "problem is int, not text": [5],
        "answer is bool, neither text nor number": [6],
        "answer is a list of 2, not one answer": [7],
        "answer has unbalanced braces": [8],
        "answer is not finite": [9],
        "answer is dict, neither text nor number": [10],
        "no column problem": [11],
        "answer holds no complete box": [12],
        "not a JSON object": [13],
        "not valid JSON": [14],
    }
    assert "1 refused: answer is null (rows 2)" in printed
    assert [row["extra_info"]["row"] for row in _read(prepare.out / "test.parquet")] == [0]


def test_traps_of_single_sources(prepare, tmp_path):
    gsm8k = write([{"question": "q", "answer": "no mark"}, MATH_ROWS["gsm8k"][0][0]], tmp_path / "gsm8k.jsonl")
    math = write([{"problem": "p", "solution": r"\boxed{unclosed"}, MATH_ROWS["math"][0][0]], tmp_path / "math.jsonl")
    dapo_rows = [
        MATH_ROWS["dapo"][0][0],
        MATH_ROWS["dapo"][0][0] | {"prompt": [{"role": "user", "content": DAPO_HEAD + DAPO_TAIL}]},
        MATH_ROWS["dapo"][0][0] | {"prompt": "text"},
        MATH_ROWS["dapo"][0][0] | {"prompt": [{"role": "user", "content": "a"}] * 2},
        MATH_ROWS["dapo"][0][0] | {"reward_model": {"style": "rule"}},
    ]
    dapo = write(dapo_rows, tmp_path / "dapo.jsonl")
    manifest, _ = prepare("math", "--train", f"gsm8k={gsm8k}", f"math={math}", f"dapo={dapo}")
    refused = [{reason: entry["rows"] for reason, entry in report["refused"].items()} for report in manifest["sources"]]
    assert refused == [
        {"no '####' in answer": [0]},
        {r"no complete \boxed{} in solution": [0]},
        {
            "prompt holds nothing but an instruction": [1],
            "prompt is no list of messages": [2],
            "prompt is not one user message": [3],
            "reward_model has no ground_truth": [4],
        },
    ]


@pytest.mark.parametrize(
    ("prompt", "problem"),
    [
        (DAPO_HEAD + "What is 1?" + DAPO_TAIL, "What is 1?"),
        (DAPO_HEAD.upper() + "What is 1?", "What is 1?"),
        ("What is 1? Lets think step by step and output the final answer within \\boxed{}.", "What is 1?"),
        ("What is 1?\\n\\nLet's think step by step, and output the final answer within \\boxed{}", "What is 1?"),
        ("What is 1?\nPlease reason step by step, and put your final answer within \\boxed{}.", "What is 1?"),
        ("Where is \\boxed{} in this?", "Where is \\boxed{} in this?"),
        ('Why "Remember to put your answer"?', 'Why "Remember to put your answer"?'),
    ],
)
def test_instructions_are_stripped_and_nothing_else(prompt, problem):
    assert without_instructions(prompt) == problem


def test_numpy_values_are_read_as_plain_ones():
    """As a caller may hand them over who read the parquet with pandas."""
    row = {
        "prompt": np.array([{"role": "user", "content": "What?"}], dtype=object),
        "reward_model": {"ground_truth": np.array(["7"], dtype=object)},
    }
    assert MATH["dapo"].convert(row).truth == "7"
    assert MATH["amc23"].convert({"problem": "p", "answer": np.float64(27.0)}).truth == "27"
    assert MATH["amc23"].convert({"problem": "p", "answer": np.int64(27)}).truth == "27"


def test_training_rows_are_unique_and_not_in_the_tests(prepare, tmp_path):
    train = write(
        [
            {"problem": "Sum  of\n1?", "answer": "1", "solution": ""},
            {"problem": "Sum of 1?", "answer": "1", "solution": ""},
            {"problem": "Sum of 1?", "answer": "2", "solution": ""},
            {"problem": "Walk?", "answer": "25", "solution": ""},
        ],
        tmp_path / "train.json",
    )
    test = write(MATH_ROWS["aime24"][0], tmp_path / "test.json")
    manifest, printed = prepare("math", "--train", f"deepscaler={train}", "--test", f"aime24={test}")
    report = manifest["sources"][1]
    assert (report["duplicates"], report["duplicates_with_another_answer"], report["same_prompt_in_test"]) == (2, 1, 1)
    assert _pairs(prepare.out / "train.parquet") == [("Sum  of\n1?", "1")]
    assert "2 duplicates (1 with another answer); 1 also in the test sets" in printed


def test_a_question_may_stand_in_two_test_sets(prepare, tmp_path):
    path = write([{"problem": "Same?", "answer": "1"}] * 2, tmp_path / "x.json")
    manifest, _ = prepare("math", "--test", f"aime24={path}", f"amc23={path}")
    assert [row["data_source"] for row in _read(prepare.out / "test.parquet")] == ["aime24", "amc23"]
    assert [report["duplicates"] for report in manifest["sources"]] == [1, 1]


def test_the_output_is_deterministic_and_sampled_by_set(prepare, tmp_path):
    big = write([{"problem": f"Q{i}", "answer": i} for i in range(300)], tmp_path / "big.jsonl")
    small = write([{"problem": f"R{i}", "answer": i} for i in range(3)], tmp_path / "small.jsonl")
    request = ("--test", f"minerva={big}", f"amc23={small}", "--sample", 10)
    first, _ = prepare("math", *request)
    second, _ = prepare("math", *request)
    assert first == second
    rows, sample = _read(prepare.out / "test.parquet"), _read(prepare.out / "test_sample.parquet")
    assert [row["data_source"] for row in sample] == ["minerva"] * 10 + ["amc23"] * 3
    positions = [rows.index(row) for row in sample]
    assert positions == sorted(positions) and positions[:10] != list(range(10))
    other, _ = prepare("math", *request, "--seed", 1)
    assert other["files"]["test.parquet"] == first["files"]["test.parquet"]
    assert other["files"]["test_sample.parquet"] != first["files"]["test_sample.parquet"]


def test_an_instruction_is_appended_to_the_prompt_only(prepare, tmp_path):
    path = write(MATH_ROWS["aime25"][0], tmp_path / "x.json")
    prepare("math", "--test", f"aime25={path}", "--instruction", r"Answer in \boxed{}.")
    (row,) = _read(prepare.out / "test.parquet")
    assert row["prompt"][0]["content"] == "Bases?\n\nAnswer in \\boxed{}."
    assert row["extra_info"] == {
        "split": "test", "index": 0, "source": "aime25", "row": 0, "id": "1", "question": "Bases?", "answer": "70",
    }  # fmt: skip


def test_the_script_runs_as_given_in_the_documentation(tmp_path):
    path = write(MATH_ROWS["gsm8k"][0], tmp_path / "gsm8k" / "main" / "train-00000-of-00001.parquet")
    command = [sys.executable, "data_preprocess/prepare_math.py", "--train", f"gsm8k={path}", "--out", tmp_path / "out"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    assert "train gsm8k [local: train-00000-of-00001.parquet]: 2 of 2 rows" in done.stdout
    assert pa.parquet.read_metadata(tmp_path / "out" / "train.parquet").num_rows == 2
