"""A self-made search world: facts about invented entities as a corpus, and questions over one or two of them.

Everything follows from the seed. Training and test questions are about disjoint entities, and facts link only entities
of the same side, so a test question cannot be answered from what training told; only values such as trades, products,
regions and years are shared. The single words of the names are shared as well: a small tokenizer knows them all.
"""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from itertools import zip_longest
from typing import Any

from verl_srpo.retrieval.world_facts import (
    ALIAS,
    BOOK,
    CITY,
    COMPANY,
    COMPARED,
    COMPARISONS,
    DISTRACTORS,
    NAME_PARTS,
    PERSON,
    RELATIONS,
    Relation,
)

DATA_SOURCE = "srpo_world"
ONE_HOP, TWO_HOP, COMPARISON = "one_hop", "two_hop", "comparison"
KINDS = (ONE_HOP, TWO_HOP, COMPARISON)
UNITS = ("fact", "entity")
LEVELS: dict[str, dict[str, Any]] = {
    "easy": {"unit": "fact", "kinds": (ONE_HOP, TWO_HOP), "paraphrases": 1, "distractors": 0, "state_aliases": False},
    "medium": {
        "unit": "entity",
        "kinds": (ONE_HOP, TWO_HOP),
        "paraphrases": 2,
        "distractors": 0,
        "state_aliases": True,
    },
    "hard": {"unit": "entity", "kinds": KINDS, "paraphrases": 3, "distractors": 2, "state_aliases": True},
}


@dataclass(frozen=True)
class WorldSettings:
    """Size and difficulty of a world.

    `unit`: a passage holds one `fact`, or all facts of an `entity`. `paraphrases`: ways of asking that are used, 1 to
    3. `distractors`: sentences a passage that answer nothing and name another entity. `state_aliases`: passages give
    the other accepted form of a name. `test_share`: share of the entities that only test questions are about.
    """

    seed: int = 0
    people: int = 600
    companies: int = 150
    cities: int = 150
    books: int = 300
    train_questions: int = 2000
    test_questions: int = 256
    test_share: float = 0.25
    unit: str = "fact"
    kinds: tuple[str, ...] = (ONE_HOP, TWO_HOP)
    paraphrases: int = 1
    distractors: int = 0
    state_aliases: bool = False

    @classmethod
    def level(cls, name: str, **changes: Any) -> WorldSettings:
        """The settings of `easy`, `medium` or `hard`, with changes."""
        if name not in LEVELS:
            raise ValueError(f"level is {name!r}; one of {', '.join(LEVELS)} is expected")
        return cls(**{**LEVELS[name], **changes})

    def __post_init__(self) -> None:
        if self.unit not in UNITS:
            raise ValueError(f"unit is {self.unit!r}; one of {', '.join(UNITS)} is expected")
        if not self.kinds or not set(self.kinds) <= set(KINDS):
            raise ValueError(f"kinds is {self.kinds!r}; some of {', '.join(KINDS)} are expected")
        if not 1 <= self.paraphrases <= 3:
            raise ValueError(f"paraphrases is {self.paraphrases}; 1 to 3 are allowed")
        if not 0 < self.test_share < 1:
            raise ValueError(f"test_share is {self.test_share}; between 0 and 1 is expected")
        for kind, count in self.counts().items():
            first, second = NAME_PARTS[kind]
            if not 8 <= count <= len(first) * len(second):
                limit = len(first) * len(second)
                raise ValueError(f"{count} entities of kind {kind} are asked for; 8 to {limit} are possible")

    def counts(self) -> dict[str, int]:
        return {PERSON: self.people, COMPANY: self.companies, CITY: self.cities, BOOK: self.books}


@dataclass(frozen=True)
class Entity:
    name: str
    kind: str
    split: str

    @property
    def aliases(self) -> list[str]:
        return [ALIAS[self.kind].format(name=self.name)] if self.kind in ALIAS else []


@dataclass(frozen=True)
class Hop:
    """One fact that an answer needs: the single question for it, its answer, and the passage that states it."""

    question: str
    answer: str
    passage: str


@dataclass(frozen=True)
class Question:
    """`answers`: the gold answer and its aliases; `hops`: in the order in which they can be looked up."""

    text: str
    kind: str
    split: str
    answers: list[str]
    hops: list[Hop]
    pattern: str

    @property
    def supporting(self) -> list[str]:
        return list(dict.fromkeys(hop.passage for hop in self.hops))


@dataclass
class World:
    """`passages`: corpus records in order; `questions`: of both splits."""

    settings: WorldSettings
    entities: list[Entity]
    passages: list[dict[str, str]] = field(default_factory=list)
    questions: list[Question] = field(default_factory=list)

    def rows(self, split: str) -> list[dict[str, Any]]:
        """verl rows of one split, `ground_truth = {"target": [gold answer, alias, ...]}`."""
        chosen = [question for question in self.questions if question.split == split]
        return [
            {
                "data_source": DATA_SOURCE,
                "prompt": [{"role": "user", "content": question.text}],
                "ability": "search",
                "reward_model": {"style": "rule", "ground_truth": {"target": question.answers}},
                "extra_info": {
                    "split": split,
                    "index": index,
                    "question": question.text,
                    "kind": question.kind,
                    "supporting": question.supporting,
                    "hops": [asdict(hop) for hop in question.hops],
                },
            }
            for index, question in enumerate(chosen)
        ]

    def corpus_lines(self) -> Iterator[str]:
        """The corpus as JSON lines."""
        return (json.dumps(passage, ensure_ascii=False) for passage in self.passages)


def make_world(settings: WorldSettings) -> World:
    """Generate entities, facts, passages and questions; the same settings give the same world.

    Raises ValueError when there are fewer different questions than asked for.
    """
    rng = random.Random(settings.seed)
    entities = _make_entities(settings, rng)
    facts = _make_facts(entities, rng)
    world = World(settings, entities)
    world.passages, passage_of = _make_passages(settings, entities, facts, rng)
    maker = _QuestionMaker(settings, facts, passage_of, rng)
    for split, count in (("train", settings.train_questions), ("test", settings.test_questions)):
        members = [entity for entity in entities if entity.split == split]
        world.questions += maker.make(members, split, count)
    return world


Facts = dict[tuple[Entity, str], Entity | str]


def _make_entities(settings: WorldSettings, rng: random.Random) -> list[Entity]:
    entities = []
    for kind, count in settings.counts().items():
        names = [f"{first} {second}" for first in NAME_PARTS[kind][0] for second in NAME_PARTS[kind][1]]
        chosen = rng.sample(names, count)
        num_test = max(2, round(count * settings.test_share))
        entities += [Entity(name, kind, "test" if i < num_test else "train") for i, name in enumerate(chosen)]
    return entities


def _make_facts(entities: list[Entity], rng: random.Random) -> Facts:
    pools = defaultdict(list)
    for entity in entities:
        pools[entity.kind, entity.split].append(entity)
    return {
        (entity, relation.name): rng.choice(relation.values or pools[relation.object, entity.split])
        for entity in entities
        for relation in _relations_of(entity)
    }


def _relations_of(entity: Entity) -> list[Relation]:
    return [relation for relation in RELATIONS if relation.subject == entity.kind]


def _name(value: Entity | str) -> str:
    return value.name if isinstance(value, Entity) else value


def _make_passages(
    settings: WorldSettings, entities: list[Entity], facts: Facts, rng: random.Random
) -> tuple[list[dict[str, str]], dict[tuple[Entity, str], str]]:
    """The corpus in random order, and the passage id of every fact."""
    drafts: list[tuple[Entity, list[Relation]]] = []
    for entity in entities:
        relations = _relations_of(entity)
        drafts += [(entity, relations)] if settings.unit == "entity" else [(entity, [r]) for r in relations]
    rng.shuffle(drafts)
    passages, passage_of = [], {}
    for number, (entity, relations) in enumerate(drafts):
        sentences = [r.sentence.format(x=entity.name, y=_name(facts[entity, r.name])) for r in relations]
        rng.shuffle(sentences)
        for _ in range(settings.distractors):
            other = rng.choice([e for e in rng.sample(entities, 2) if e is not entity])
            sentences.append(rng.choice(DISTRACTORS).format(x=entity.name, y=other.name))
        if settings.state_aliases and entity.aliases:
            sentences.insert(0, f"{entity.name} is also called {entity.aliases[0]}.")
        passages.append({"id": str(number), "contents": f'"{entity.name}"\n{" ".join(sentences)}'})
        passage_of.update({(entity, relation.name): str(number) for relation in relations})
    return passages, passage_of


@dataclass
class _QuestionMaker:
    settings: WorldSettings
    facts: Facts
    passage_of: dict[tuple[Entity, str], str]
    rng: random.Random

    def make(self, entities: list[Entity], split: str, count: int) -> list[Question]:
        """`count` different questions: equal shares of the kinds, and within a kind of its patterns where they last."""
        makers = {ONE_HOP: self._one_hop, TWO_HOP: self._two_hop, COMPARISON: self._comparison}
        kinds = self.settings.kinds
        questions = []
        for position, kind in enumerate(kinds):
            wanted = count // len(kinds) + (position < count % len(kinds))
            possible = [replace(question, split=split) for question in makers[kind](entities)]
            if len(possible) < wanted:
                raise ValueError(
                    f"{wanted} {split} questions of kind {kind} are asked for, the world has {len(possible)}: "
                    f"ask for fewer, or for more entities"
                )
            questions += self._spread(possible)[:wanted]
        self.rng.shuffle(questions)
        return questions

    def _spread(self, questions: list[Question]) -> list[Question]:
        """In random order, the patterns taking turns."""
        patterns = defaultdict(list)
        for question in questions:
            patterns[question.pattern].append(question)
        for members in patterns.values():
            self.rng.shuffle(members)
        return [q for turn in zip_longest(*patterns.values()) for q in turn if q is not None]

    def _hop(self, entity: Entity, relation: Relation) -> Hop:
        key = (entity, relation.name)
        return Hop(relation.questions[0].format(x=entity.name), _name(self.facts[key]), self.passage_of[key])

    def _wording(self, wordings: tuple[str, ...]) -> str:
        return wordings[self.rng.randrange(self.settings.paraphrases)]

    def _one_hop(self, entities: list[Entity]) -> Iterator[Question]:
        for entity in entities:
            for relation in _relations_of(entity):
                text = self._wording(relation.questions).format(x=entity.name)
                answers = _answers(self.facts[entity, relation.name])
                yield Question(text, ONE_HOP, "", answers, [self._hop(entity, relation)], relation.name)

    def _two_hop(self, entities: list[Entity]) -> Iterator[Question]:
        for entity in entities:
            for first in _relations_of(entity):
                bridge = self.facts[entity, first.name]
                if first.phrase is None or not isinstance(bridge, Entity):
                    continue
                for second in _relations_of(bridge):
                    answer = self.facts[bridge, second.name]
                    if answer == entity:  # the question would name its own answer
                        continue
                    phrase = first.phrase.format(x=entity.name)
                    text = self._wording(second.questions).format(x=phrase)
                    hops = [self._hop(entity, first), self._hop(bridge, second)]
                    yield Question(text, TWO_HOP, "", _answers(answer), hops, f"{first.name}/{second.name}")

    def _comparison(self, entities: list[Entity]) -> Iterator[Question]:
        relation = next(r for r in RELATIONS if r.name == COMPARED)
        books = [entity for entity in entities if entity.kind == relation.subject]
        self.rng.shuffle(books)
        for distance in range(1, (len(books) + 1) // 2):  # each pair once
            for one, other in zip(books, books[distance:] + books[:distance], strict=True):
                years = [_name(self.facts[book, COMPARED]) for book in (one, other)]
                if years[0] != years[1]:
                    earlier = one if years[0] < years[1] else other
                    text = self._wording(COMPARISONS).format(a=one.name, b=other.name)
                    hops = [self._hop(one, relation), self._hop(other, relation)]
                    yield Question(text, COMPARISON, "", _answers(earlier), hops, COMPARED)


def _answers(value: Entity | str) -> list[str]:
    return [value.name, *value.aliases] if isinstance(value, Entity) else [value]
