"""Exact match and token F1 of a short answer, as the question-answering sets define them."""

import re
import string
from collections import Counter
from collections.abc import Sequence

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# answers that are a verdict: sharing a word with one is no partial success (HotpotQA's rule)
_VERDICTS = frozenset({"yes", "no", "noanswer"})


def normalize(text: str) -> str:
    """Lower case, without ASCII punctuation and English articles, single spaces (the SQuAD rule)."""
    return " ".join(_ARTICLES.sub(" ", text.lower().translate(_PUNCTUATION)).split())


def exact_match(answer: str, golds: Sequence[str]) -> float:
    """1.0 if the answer equals any gold answer after `normalize`, else 0.0. An empty answer matches nothing."""
    normal = normalize(answer)
    return float(bool(normal) and any(normal == normalize(gold) for gold in golds))


def token_f1(answer: str, golds: Sequence[str]) -> float:
    """The best F1 between the tokens of the answer and those of a gold answer, after `normalize`."""
    return max((_f1(normalize(answer), normalize(gold)) for gold in golds), default=0.0)


def _f1(answer: str, gold: str) -> float:
    if answer != gold and (answer in _VERDICTS or gold in _VERDICTS):
        return 0.0
    answer_tokens, gold_tokens = Counter(answer.split()), Counter(gold.split())
    common = (answer_tokens & gold_tokens).total()
    if common == 0:
        return 0.0
    return 2 * common / (answer_tokens.total() + gold_tokens.total())
