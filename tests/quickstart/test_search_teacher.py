"""The search quickstart's teacher and tokenizer."""

import random
import re
import sys

import pytest

from tests.quickstart.conftest import QUICKSTART
from verl_srpo.retrieval import open_retriever
from verl_srpo.retrieval.world import WorldSettings, make_world
from verl_srpo.retrieval.world_files import write_world
from verl_srpo.workflows.tags import parse_answer, parse_search

sys.path.insert(0, str(QUICKSTART.parent / "search"))

from make_search_model import make_tokenizer
from searching_teacher import CARELESS, lessons, read_answer


@pytest.fixture(scope="module")
def world():
    sizes = {"people": 40, "companies": 10, "cities": 10, "books": 20, "train_questions": 60, "test_questions": 8}
    return make_world(WorldSettings.level("easy", kinds=("one_hop",), **sizes))


@pytest.fixture(scope="module")
def workflow_kwargs(world, tmp_path_factory):
    folder = tmp_path_factory.mktemp("world")
    write_world(world, folder)
    return {"retriever": open_retriever(str(folder / "corpus.jsonl"), topk=1), "n": 2, "topk": 1}


def test_lessons_are_the_calls_of_the_workflow_and_every_line_is_well_formed(world, workflow_kwargs):
    shown = lessons(world, workflow_kwargs, 40, careless=CARELESS, seed=0)
    assert len(shown) == 3 * 40 and shown == lessons(world, workflow_kwargs, 40, careless=CARELESS, seed=0)
    for messages, line in shown:
        asked = messages[-1]["content"]
        assert (parse_answer(line) if "You are answerer" in asked else parse_search(line)) is not None


def test_the_careless_teacher_leaves_the_name_out_as_often_as_he_says_and_only_the_name(world, workflow_kwargs):
    shown = lessons(world, workflow_kwargs, 300, careless=CARELESS, seed=0)
    names = "|".join(entity.name for entity in world.entities)
    queries = [(m[-1]["content"].splitlines()[0], parse_search(line)) for m, line in shown if "<search>" in line]
    for question, query in queries:
        assert query in (question, re.sub(names, "it", question))
    assert sum(" it " in f"{q} ".replace("?", " ") for _, q in queries) / len(queries) == pytest.approx(
        CARELESS, abs=0.06
    )


def test_the_attentive_teacher_answers_every_question_right(world, workflow_kwargs):
    gold = {question.text: question.answers for question in world.questions}
    for messages, line in lessons(world, workflow_kwargs, 60, careless=0.0, seed=0):
        if "<answer>" in line:
            assert parse_answer(line) in gold[messages[-1]["content"].splitlines()[0]]


def test_the_answer_is_read_off_either_passage_whichever_is_right():
    view = (
        "Who founded Neon Labs?\n"
        "(1) Neon Labs: Neon Labs was founded by Ada Wolf.\n"
        "(2) Ion Labs: The product of Ion Labs is hats.\n"
    )
    rng = random.Random(0)
    assert {parse_answer(read_answer(view, rng)) for _ in range(20)} == {"Ada Wolf", "hats"}
    assert parse_answer(read_answer("Who founded Neon Labs?\n(no evidence)\n", rng)) == "unknown"


def test_a_word_has_the_same_token_wherever_it_stands(world, workflow_kwargs):
    shown = lessons(world, workflow_kwargs, 60, careless=0.0, seed=0)
    tokenizer = make_tokenizer(["\n".join(m["content"] for m in messages) + line for messages, line in shown])
    for entity in world.entities:
        name = tokenizer(f" {entity.name}", add_special_tokens=False)["input_ids"]
        for text in (f"Who founded {entity.name}?", f"(1) {entity.name}: The", f"<search> {entity.name}</search>"):
            ids = tokenizer(text, add_special_tokens=False)["input_ids"]
            assert any(ids[i : i + len(name)] == name for i in range(len(ids)))
