import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from verl_srpo.retrieval.bm25 import BM25Index
from verl_srpo.retrieval.corpus import CorpusReader
from verl_srpo.retrieval.store import PassageStore
from verl_srpo.retrieval.world import COMPARISON, LEVELS, ONE_HOP, TWO_HOP, World, WorldSettings, make_world
from verl_srpo.retrieval.world_facts import NAME_PARTS, RELATIONS
from verl_srpo.retrieval.world_files import write_world

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", params=LEVELS)
def world(request: pytest.FixtureRequest) -> World:
    return make_world(WorldSettings.level(request.param))


def names_in(text: str, world: World) -> set[str]:
    pairs = re.findall(r"(?=\b([A-Z][a-z]+ [A-Z][a-z]+)\b)", text)
    return set(pairs) & {entity.name for entity in world.entities}


def test_the_size_is_as_asked_and_kinds_share_equally(world) -> None:
    settings = world.settings
    entities = sum(settings.counts().values())
    expected = {"entity": entities, "fact": 3 * 600 + 3 * 150 + 2 * 150 + 2 * 300}
    assert len(world.passages) == expected[settings.unit]
    for split, count in (("train", 2000), ("test", 256)):
        kinds = [question.kind for question in world.questions if question.split == split]
        shares = {kind: kinds.count(kind) for kind in settings.kinds}
        assert sum(shares.values()) == count
        assert max(shares.values()) - min(shares.values()) <= 1


def test_train_and_test_questions_are_about_disjoint_entities(world) -> None:
    sides = {}
    for split in ("train", "test"):
        asked = [question for question in world.questions if question.split == split]
        text = " / ".join(" ".join([q.text, *q.answers, *(f"{h.question} {h.answer}" for h in q.hops)]) for q in asked)
        sides[split] = names_in(text, world)
    assert len(sides["test"]) > 100
    assert not sides["train"] & sides["test"]
    words = {split: {word for name in side for word in name.split()} for split, side in sides.items()}
    assert len(words["test"] - words["train"]) <= 3  # the words of the names are shared


def test_questions_are_different_and_never_name_their_answer_outside_comparisons(world) -> None:
    texts = [question.text for question in world.questions]
    assert len(texts) == len(set(texts))
    for question in world.questions:
        named = any(answer in question.text for answer in question.answers)
        assert named == (question.kind == COMPARISON), question


def test_every_hop_is_stated_by_its_passage_and_leads_to_the_next(world) -> None:
    passages = {passage["id"]: passage["contents"] for passage in world.passages}
    for question in world.questions:
        for hop in question.hops:
            assert hop.answer in passages[hop.passage].split("\n")[1]
        if question.kind == ONE_HOP:
            (hop,) = question.hops
        elif question.kind == TWO_HOP:
            first, hop = question.hops
            assert first.answer in hop.question
            assert first.answer not in question.text
        else:
            years = [int(hop.answer) for hop in question.hops]
            title = passages[question.supporting[years.index(min(years))]].split("\n")[0].strip('"')
            assert title == question.answers[0]
            continue
        assert question.answers[0] == hop.answer


def test_an_answer_follows_from_the_passages_alone(world) -> None:
    """Each subject and relation stands in the whole corpus once, with one object."""
    text = "\n".join(passage["contents"] for passage in world.passages)
    stated = {}
    for relation in RELATIONS:
        pattern = re.escape(relation.sentence).replace(r"\{x\}", r"([A-Z]\w+ [A-Z]\w+)").replace(r"\{y\}", "([^.]+)")
        for subject, found in re.findall(pattern, text):
            assert (relation.name, subject) not in stated
            stated[relation.name, subject] = found
    for question in world.questions:
        if question.kind == ONE_HOP:
            subject = next(iter(names_in(question.text, world)))
            assert stated[question.pattern, subject] == question.answers[0]


def test_single_questions_find_their_passage_and_two_hop_questions_need_a_second_search(world) -> None:
    index = BM25Index.in_memory(PassageStore.in_memory(line.encode() for line in world.corpus_lines()))
    asked = [question for question in world.questions if question.split == "test"]
    hops = [hop for question in asked for hop in question.hops]
    found = [[json.loads(hit.document)["id"] for hit in hits] for hits in index.search([h.question for h in hops], 3)]
    assert sum(hop.passage == ids[0] for hop, ids in zip(hops, found, strict=True)) >= 0.97 * len(hops)
    assert all(hop.passage in ids for hop, ids in zip(hops, found, strict=True))
    two_hop = [question for question in asked if question.kind == TWO_HOP]
    found = index.search([question.text for question in two_hop], 3)
    last = [
        q.hops[-1].passage in [json.loads(h.document)["id"] for h in hits]
        for q, hits in zip(two_hop, found, strict=True)
    ]
    assert sum(last) <= 0.05 * len(two_hop)


def test_aliases_are_accepted_and_stated_where_asked() -> None:
    plain, stated = make_world(WorldSettings.level("easy")), make_world(WorldSettings.level("medium"))
    for world, is_stated in ((plain, False), (stated, True)):
        person = next(entity for entity in world.entities if entity.kind == "person")
        assert person.aliases == [f"Dr {person.name}"]
        passages = [p["contents"] for p in world.passages if p["contents"].startswith(f'"{person.name}"')]
        assert any(person.aliases[0] in contents for contents in passages) == is_stated
    answers = next(q.answers for q in plain.questions if q.pattern == "mayor")
    assert answers == [answers[0], f"Dr {answers[0]}"]


def test_the_same_settings_give_the_same_files_and_another_seed_other_ones(tmp_path) -> None:
    manifests = [
        write_world(make_world(WorldSettings(seed=seed)), tmp_path / name)
        for name, seed in (("a", 5), ("b", 5), ("c", 6))
    ]
    assert manifests[0]["sha256"] == manifests[1]["sha256"]
    assert not set(manifests[0]["sha256"].values()) & set(manifests[2]["sha256"].values())
    assert json.loads((tmp_path / "a" / "world.json").read_text())["settings"]["seed"] == 5


def test_the_files_are_a_corpus_and_verl_datasets(tmp_path) -> None:
    world = make_world(WorldSettings.level("medium", train_questions=40, test_questions=20))
    manifest = write_world(world, tmp_path)
    assert len(list(CorpusReader(tmp_path / "corpus.jsonl"))) == manifest["passages"] == len(world.passages)
    for split, count in (("train", 40), ("test", 20)):
        frame = pd.read_parquet(tmp_path / f"{split}.parquet")
        assert list(frame.columns) == ["data_source", "prompt", "ability", "reward_model", "extra_info"]
        assert len(frame) == count == manifest["questions"][split]
        assert set(frame["data_source"]) == {"srpo_world"}
        for index, row in enumerate(frame.to_dict("records")):
            info, (message,) = row["extra_info"], row["prompt"]
            question = next(q for q in world.questions if q.text == message["content"])
            assert (message["role"], info["split"], info["index"]) == ("user", split, index)
            assert list(row["reward_model"]["ground_truth"]["target"]) == question.answers
            assert list(info["supporting"]) == question.supporting
            assert [hop["question"] for hop in info["hops"]] == [hop.question for hop in question.hops]


def test_verl_reads_the_parquet(tmp_path) -> None:
    from omegaconf import OmegaConf
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from verl.utils.dataset.rl_dataset import RLHFDataset

    write_world(make_world(WorldSettings(train_questions=8, test_questions=8)), tmp_path)
    model = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    model.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=model, unk_token="[UNK]", pad_token="[UNK]")
    tokenizer.chat_template = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    config = OmegaConf.create({"max_prompt_length": 64, "filter_overlong_prompts": False, "cache_dir": str(tmp_path)})
    rows = RLHFDataset(str(tmp_path / "train.parquet"), tokenizer, config)
    assert len(rows) == 8
    row = rows[3]
    assert (row["data_source"], row["index"]) == ("srpo_world", 3)
    assert row["raw_prompt"][0]["content"] == row["extra_info"]["question"]
    assert len(row["reward_model"]["ground_truth"]["target"]) >= 1


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"unit": "book"}, "unit is 'book'; one of fact, entity"),
        ({"kinds": ("three_hop",)}, "kinds is"),
        ({"kinds": ()}, "kinds is"),
        ({"paraphrases": 4}, "paraphrases is 4; 1 to 3 are allowed"),
        ({"test_share": 1.0}, "test_share is 1.0"),
        ({"people": 4000}, "4000 entities of kind person are asked for; 8 to"),
        ({"cities": 2}, "2 entities of kind city"),
    ],
)
def test_bad_settings_are_refused(changes, message) -> None:
    with pytest.raises(ValueError, match=message):
        WorldSettings(**changes)


def test_unknown_level_and_too_many_questions_are_refused() -> None:
    with pytest.raises(ValueError, match="level is 'brutal'; one of easy, medium, hard"):
        WorldSettings.level("brutal")
    with pytest.raises(ValueError, match=r"50000 test questions of kind one_hop are asked for, the world has \d+"):
        make_world(WorldSettings(test_questions=100_000))


def test_no_name_belongs_to_two_kinds_and_no_word_stands_twice() -> None:
    parts = [part for kind in NAME_PARTS.values() for part in kind]
    assert all(len(part) == len(set(part)) for part in parts)
    firsts = [set(first) for first, _ in NAME_PARTS.values()]
    assert sum(map(len, firsts)) == len(set.union(*firsts))


def test_the_example_script_writes_a_world(tmp_path) -> None:
    script = ROOT / "examples" / "search" / "make_world.py"
    sizes = ["--people", "40", "--cities", "20", "--companies", "20", "--books", "20"]
    questions = ["--train-questions", "30", "--test-questions", "10", "--kinds", "two_hop"]
    arguments = [sys.executable, str(script), "--out", str(tmp_path), "--level", "medium", *sizes, *questions]
    done = subprocess.run(arguments, capture_output=True, text=True)
    assert done.stdout == f"{tmp_path}: 100 passages, 30 training and 10 test questions\n", done.stderr
    assert {info["kind"] for info in pd.read_parquet(tmp_path / "test.parquet")["extra_info"]} == {"two_hop"}
    refused = subprocess.run([*arguments, "--people", "1"], capture_output=True, text=True)
    assert (refused.returncode, "1 entities of kind person are asked for" in refused.stderr) == (2, True)
