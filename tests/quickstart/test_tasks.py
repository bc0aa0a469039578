"""The quickstart's problems, data files, teacher and model."""

import random
import re

import pandas as pd
import pytest
import torch
from make_data import write
from make_model import IGNORE, batch_of, encode, make_model, make_tokenizer, warm_up
from problems import CARRY_SHARE, Problem, split
from teacher import FORGETS_CARRY, lessons, work_out
from transformers import AutoTokenizer

from verl_srpo.rewards import compute_score


def pairs(problems):
    return {frozenset((problem.left, problem.right)) for problem in problems}


@pytest.mark.parametrize("seed", [0, 1])
def test_train_and_test_share_no_problem_even_swapped(seed):
    train, test = split(seed, 100)
    assert len(test) == 100 and len(pairs(train)) == len(train) and len(pairs(test)) == len(test)
    assert not pairs(train) & pairs(test)


def test_the_split_follows_its_seed_and_most_problems_carry():
    assert split(3, 50) == split(3, 50) != split(4, 50)
    for part in split(0, 100):
        assert sum(problem.carries for problem in part) / len(part) == pytest.approx(CARRY_SHARE, abs=0.01)


def test_data_files_are_verls_schema_and_the_answers_score(tmp_path):
    for name in ("a", "b"):
        write(tmp_path / name, seed=0, train_size=40, test_size=20)
    for part, size in (("train", 40), ("test", 20)):
        frame = pd.read_parquet(tmp_path / "a" / f"{part}.parquet")
        assert len(frame) == size
        assert frame.equals(pd.read_parquet(tmp_path / "b" / f"{part}.parquet"))
        for row in frame.itertuples():
            left, right = map(int, re.findall(r"\d+", row.prompt[0]["content"]))
            truth = row.reward_model["ground_truth"]
            assert int(truth) == left + right
            assert compute_score(row.data_source, f"so \\boxed{{{truth}}}", truth)["score"] == 1.0
            assert compute_score(row.data_source, f"so \\boxed{{{left + right - 10}}}", truth)["score"] == 0.0


def test_the_teacher_forgets_only_the_carry_and_as_often_as_he_says():
    rng = random.Random(0)
    lines = [work_out(Problem(37, 48), rng) for _ in range(2000)]
    assert set(lines) == {r"7+8=15, 3+4+1=8: \boxed{85}", r"7+8=15, 3+4=7: \boxed{75}"}
    assert lines.count(r"7+8=15, 3+4=7: \boxed{75}") / 2000 == pytest.approx(FORGETS_CARRY, abs=0.04)
    assert {work_out(Problem(90, 95), rng) for _ in range(50)} == {r"0+5=5, 9+9=18: \boxed{185}"}


def test_lessons_are_the_calls_of_the_workflow_in_its_own_prompts():
    shown = lessons("math/debate", [Problem(37, 48)], seed=0)
    assert len(shown) == 3
    *drafts, (view, verdict) = shown
    assert all(Problem(37, 48).question in messages[-1]["content"] for messages, _ in shown)
    assert all(line in view[-1]["content"] for _, line in drafts)
    assert verdict in {re.search(r"\\boxed\{\d+\}", line)[0] for _, line in drafts}


@pytest.mark.parametrize(
    ("workflow", "expected"),
    [
        ("math/team", {"<verify>", "FINAL: "}),
        ("math/solver_verifier", {"<verify>", ", "}),
        ("demo/joint", {", "}),
        ("search/team", {", "}),
    ],
)
def test_every_kind_of_workflow_has_lessons(workflow, expected):
    lines = [line for _, line in lessons(workflow, split(0, 10)[1], seed=0)]
    assert all(any(mark in line for line in lines) for mark in expected)


@pytest.fixture(scope="module")
def small():
    """A tokenizer, and the lessons that it was made from."""
    shown = lessons("math/debate", split(0, 100)[0][:60], seed=0)
    texts = ["\n".join(message["content"] for message in messages) + "\n" + line for messages, line in shown]
    return make_tokenizer(texts), shown


def test_the_tokenizer_keeps_digits_apart_and_loses_nothing(small):
    tokenizer, _ = small
    text = "Was ist 1234 + 5?\nähm <x> \\boxed{99}"
    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
    assert tokenizer.decode(ids) == text
    assert all(sum(letter.isdigit() for letter in tokenizer.decode([token])) <= 1 for token in ids)


def test_what_training_and_rollout_load_is_this_tokenizer(small, tmp_path):
    """transformers replaces the tokenizer of some architectures by their own class, whatever was saved."""
    tokenizer, shown = small
    tokenizer.save_pretrained(tmp_path)
    make_model(tokenizer, 0).save_pretrained(tmp_path)
    loaded = AutoTokenizer.from_pretrained(tmp_path)
    for messages, line in shown:
        assert encode(loaded, messages, line) == encode(tokenizer, messages, line)


def test_labels_are_the_teachers_line_and_the_end_of_his_turn(small):
    tokenizer, shown = small
    messages, line = shown[2]
    ids, labels = encode(tokenizer, messages, line)
    assert tokenizer.decode([label for label in labels if label != IGNORE]) == line + tokenizer.eos_token
    prompt = tokenizer.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    assert tokenizer.decode(ids[: labels.count(IGNORE)]) == prompt
    batch = batch_of([(ids, labels), (ids[:5], labels[:5])], tokenizer.pad_token_id)
    assert batch["attention_mask"].sum(1).tolist() == [len(ids), 5]
    assert set(batch["labels"][1].tolist()) == {IGNORE}


def test_the_model_has_exactly_the_tokenizers_vocabulary_and_follows_its_seed(small):
    tokenizer, _ = small
    torch.set_num_threads(1)

    def made(seed):
        model = make_model(tokenizer, seed)
        warm_up(model, tokenizer, split(0, 100)[0], workflow="math/debate", steps=2, batch_size=4, seed=seed)
        return model

    first, again, other = made(0), made(0), made(1)
    assert first.get_input_embeddings().num_embeddings == first.lm_head.out_features == len(tokenizer)
    assert 9e5 <= sum(parameter.numel() for parameter in first.parameters()) <= 5e6
    states = [model.state_dict() for model in (first, again, other)]
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])
    assert not torch.equal(states[0]["lm_head.weight"], states[2]["lm_head.weight"])
