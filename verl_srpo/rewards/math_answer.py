r"""Whether a math answer is right: decided from its form where possible, else a question for the grader.

Percentages: where exactly one side has a percent sign, both readings count: `12\%` equals `0.12`, and it equals `12`,
since questions that ask for a percentage have either as their gold answer.
"""

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import NamedTuple

from verl_srpo.rewards.extraction import last_boxed
from verl_srpo.rewards.math_forms import Form, read_form, strip_assignment

ROUNDING_DIGITS = 6  # math-verify's default
LONGEST_ANSWER = 4096  # beyond this only the very same text is right


class Comparison(NamedTuple):
    """Left to the grader: two pieces of LaTeX, and the decimal places at which floats count as equal."""

    gold: str
    answer: str
    float_rounding: int


def compare(answer: str, golds: list[str]) -> bool | list[Comparison]:
    """True or False where the forms decide, else the comparisons of which one that holds suffices."""
    undecided: list[Comparison] = []
    for gold in golds:
        verdict = _compare_one(answer, last_boxed(gold) or gold)
        if verdict is True:
            return True
        if verdict is not False:
            undecided.extend(verdict)
    return undecided or False


def _compare_one(answer: str, gold: str) -> bool | list[Comparison]:
    if answer == gold:
        return True
    if len(answer) > LONGEST_ANSWER:
        return False
    gold_form = read_form(gold)
    answer_form = read_form(answer if "=" in gold else strip_assignment(answer))
    if not answer_form.text:
        return False
    if gold_form.text == answer_form.text or _same_words(gold_form.text, answer_form.text):
        return True
    if gold_form.number is not None:
        if answer_form.number is not None:
            return _equal_numbers(gold_form, answer_form)
        if "\\" not in answer and not any(character.isnumeric() for character in answer):
            return False  # words and symbols alone are no rational number
    return list(_comparisons(gold_form, answer_form))


def _same_words(gold: str, answer: str) -> bool:
    """Names and choices, in any case, a choice with or without parentheses: `(B)`, `b`; `Evelyn`, `evelyn`."""
    gold, answer = gold.strip("()").casefold(), answer.strip("()").casefold()
    return gold == answer and gold.isalpha()


def _equal_numbers(gold: Form, answer: Form) -> bool:
    assert gold.number is not None and answer.number is not None
    inexact = gold.decimal or answer.decimal
    if _close(gold.number, answer.number, inexact):
        return True
    if gold.percent == answer.percent:
        return False
    gold_value = gold.number / 100 if gold.percent else gold.number
    answer_value = answer.number / 100 if answer.percent else answer.number
    return _close(gold_value, answer_value, inexact)


def _close(gold: Fraction, answer: Fraction, inexact: bool) -> bool:
    """Equal, or for decimals equal to six digits: absolute from 1 up, relative below, where six places say little."""
    if gold == answer or not inexact:
        return gold == answer
    return abs(gold - answer) <= Fraction(1, 10**ROUNDING_DIGITS) * min(1, max(abs(gold), abs(answer)))


def _comparisons(gold: Form, answer: Form) -> Iterator[Comparison]:
    rounding = _rounding(gold)
    yield Comparison(gold.latex, answer.latex, rounding)
    if gold.percent != answer.percent:
        yield Comparison(_hundredth(gold), _hundredth(answer), rounding)


def _hundredth(form: Form) -> str:
    return rf"\frac{{{form.latex}}}{{100}}" if form.percent else form.latex


def _rounding(gold: Form) -> int:
    """Decimal places at which the grader compares floats: more for a small gold answer, which would round to 0."""
    if not gold.number or abs(gold.number) >= 1:
        return ROUNDING_DIGITS
    return ROUNDING_DIGITS + math.floor(math.log10(gold.number.denominator) - math.log10(abs(gold.number.numerator)))
