"""prepare_search.py: the seven sets, alias lists, the part of one set, and what verl reads back."""

import numpy as np
import pyarrow.parquet as pq
from omegaconf import OmegaConf

from data_preprocess.converters import SEARCH_SETS
from data_preprocess.sources import SEARCH
from tests.data_preprocess.fixtures_in_source_schema import search_row, write
from verl_srpo.rewards import compute_score

ROWS = [search_row(i, f"who is {name}", [name.upper(), f"the {name}"], name) for i, name in enumerate(SEARCH_SETS)]


def _read(path):
    return pq.read_table(path).to_pylist()


def test_the_seven_sets_through_verl_to_the_scorer(prepare, tmp_path):
    from verl.utils.dataset.rl_dataset import RLHFDataset, collate_fn

    folder = write(ROWS, tmp_path / "data" / "test.parquet").parent
    write(ROWS[:1], folder / "train.parquet")
    manifest, _ = prepare("search", "--test", f"nq_hotpotqa={folder}")
    assert manifest["sources"][0]["origin"] == "local: test.parquet"
    config = OmegaConf.create({"cache_dir": str(tmp_path / "cache"), "filter_overlong_prompts": False})
    dataset = RLHFDataset(str(prepare.out / "test.parquet"), tokenizer=None, config=config)
    batch = collate_fn([dataset[i] for i in range(len(dataset))])
    assert list(batch["data_source"]) == [f"searchR1_{name}" for name in SEARCH_SETS]
    for i, name in enumerate(SEARCH_SETS):
        assert batch["raw_prompt"][i] == [{"role": "user", "content": f"who is {name}?"}]
        truth = batch["reward_model"][i]["ground_truth"]
        assert list(truth["target"]) == [name.upper(), f"the {name}"]
        # the scorer of this project, and verl's own under the same name
        assert compute_score(batch["data_source"][i], f"<answer>{name}</answer>", truth)["score"] == 1.0


def test_verls_own_scorer_knows_the_names(prepare, tmp_path):
    from verl.utils.reward_score import default_compute_score

    prepare("search", "--test", f"nq_hotpotqa={write(ROWS, tmp_path / 'test.jsonl')}")
    for row in _read(prepare.out / "test.parquet"):
        name = row["data_source"].removeprefix("searchR1_")
        score = default_compute_score(
            row["data_source"], f"<answer>{name}</answer>", row["reward_model"]["ground_truth"]
        )
        assert score == 1.0


def test_the_hotpotqa_part_alone(prepare, tmp_path):
    path = write(ROWS * 2, tmp_path / "train.jsonl")
    manifest, printed = prepare("search", "--train", f"nq_hotpotqa={path}", "--train-only", "hotpotqa")
    report = manifest["sources"][0]
    assert report["rows_written"] == {"searchR1_hotpotqa": 1}
    assert report["left_out"] == {f"searchR1_{name}": 2 for name in SEARCH_SETS if name != "hotpotqa"}
    assert (report["duplicates"], manifest["options"]["only"]) == (1, {"train": ["hotpotqa"]})
    assert "12 of other sets" in printed


def test_rows_are_refused_with_reason_and_number(prepare, tmp_path):
    rows = [
        search_row(0, "fine?", ["x"], "nq"),
        search_row(1, "no gold", [], "nq"),
        search_row(2, "unknown set", ["x"], "squad"),
        search_row(3, "empty gold", [""], "nq"),
        search_row(4, "no set", ["x"], "nq") | {"data_source": None},
        search_row(5, "truth in reward_model", ["x", "x", "y"], "searchR1_nq") | {"golden_answers": None},
        {"question": "nothing else", "data_source": "nq"},
        search_row(7, "wrong type", [{"a": 1}], "nq"),
    ]
    manifest, _ = prepare("search", "--train", f"nq_hotpotqa={write(rows, tmp_path / 'train.jsonl')}")
    refused = {reason: entry["rows"] for reason, entry in manifest["sources"][0]["refused"].items()}
    assert refused == {
        "golden_answers holds no answer": [1, 3, 7],
        f"data_source is none of {', '.join(SEARCH_SETS)}": [2],
        "data_source is null": [4],
        "no column reward_model": [6],
    }
    written = _read(prepare.out / "train.parquet")
    assert [row["prompt"][0]["content"] for row in written] == ["fine?", "truth in reward_model?"]
    assert written[1]["reward_model"] == {"style": "rule", "ground_truth": {"target": ["x", "y"]}}


def test_numpy_arrays_in_nested_fields():
    row = search_row(0, "q", [], "nq") | {
        "golden_answers": np.array(["a", np.array(["b"], dtype=object)], dtype=object)
    }
    example = SEARCH["nq_hotpotqa"].convert(row)
    assert (example.truth, example.question, example.data_source) == (["a", "b"], "q?", "searchR1_nq")
