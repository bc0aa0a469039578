r"""Canonical forms of math answers: what can be decided without computer algebra.

Most answers are numbers in some spelling (`1,000`, `\frac12`, `3.5\times 10^{-2}`, `12\%`, `5\text{ cm}`). Reading them
here costs microseconds, where a comparison by math-verify costs milliseconds and a process.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

# what no person would write as a number, and what no regular expression below should have to search
LONGEST_NUMBER = 256
LARGEST_EXPONENT = 400

_REPLACEMENTS = tuple(
    (re.compile(rf"(?<!\\)(?:{pattern})"), replacement)  # after a backslash it belongs to `\\`, the row separator
    for pattern, replacement in (
        (r"\\(?:left|right|bigl?|bigr|Bigl?|Bigr|displaystyle|limits)(?![A-Za-z])\s*", ""),
        (r"\\!", ""),
        (r"\\(?:[,;: ]|q?quad(?![A-Za-z]))|~|\u00a0|\u2009|\u202f", " "),
        (r"\{,\}", ","),
        (r"\\[dtc]frac(?![A-Za-z])", r"\\frac"),
        (r"\\(?:\$|£|€)|[$£€]", ""),
        (r"\\%", "%"),
        (r"\^\s*(?:\{\s*\\circ\s*\}|\\circ(?![A-Za-z]))|\\degree(?![A-Za-z])|°", ""),
        (r"[\u2212\u2013]", "-"),
        (r"×", r"\\times "),
        (r"\\cdot(?![A-Za-z])", r"\\times "),
        (r"\\(?:leq|le)(?![A-Za-z])", r"\\leq "),
        (r"\\(?:geq|ge)(?![A-Za-z])", r"\\geq "),
    )
)
_TEXT = r"\\(?:text|textrm|textbf|textit|textsf|texttt|mathrm|mathbf|mathit|mbox|operatorname)\s*"
_UNWRAP = re.compile(_TEXT + r"\{([^{}]*)\}")
_TEXT_UNIT = re.compile(_TEXT + r"\{([^{}]*)\}(?:\s*\^\s*(?:\{\s*-?\d+\s*\}|-?\d))?\s*$")
_WORD_UNIT = re.compile(r"\s([A-Za-z]{2,}(?:[ /.-]{1,2}[A-Za-z]{1,})*)(?:\s*\^\s*(?:\{\s*\d\s*\}|\d))?$")
_UNIT_OPERATOR = re.compile(r"(?:/|\\times)\s*$")  # between two units: `\text{m}/\text{s}`
_SHORT_FRAC = re.compile(r"\\frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))")
_SHORT_SQRT = re.compile(r"\\sqrt\s*(\d)")
_ASSIGNMENT = re.compile(r"^[A-Za-z]\s*=\s*(?=[^=])")
_SPACED_MIXED = re.compile(r"^([+-]?\d+)\s+(\d+)\s*/\s*(\d+)$")
_SPACED_THOUSANDS = re.compile(r"^([+-]?\d{1,3}(?: \d{3})+)(?![\d ])")
_SPACES = re.compile(r"(?<!\d)\s+|\s+(?!\d)")  # all but those between two digits, which separate two numbers

_DIGITS = r"(?:\d{1,3}(?:,\d{3})+|\d+)"
_DECIMAL = rf"(?:{_DIGITS}(?:\.\d*)?|\.\d+)"
_NUMBER = re.compile(
    rf"(?P<sign>[+-]?)(?:"
    rf"(?P<whole>\d+)?\\frac\{{(?P<top>[+-]?{_DECIMAL})\}}\{{(?P<bottom>[+-]?{_DECIMAL})\}}"
    rf"|(?P<left>{_DECIMAL})/(?P<right>{_DECIMAL})"
    rf"|(?:(?P<decimal>{_DECIMAL})(?:[eE](?P<exponent>[+-]?\d{{1,4}}))?)"
    rf"|(?:(?P<mantissa>{_DECIMAL})(?:\\times|\*))?10\^(?:\{{(?P<power>[+-]?\d{{1,4}})\}}|(?P<digit>\d))"
    rf")"
)

_MAGNITUDES = {"hundred": 10**2, "thousand": 10**3, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_PERCENT_WORDS = frozenset({"percent", "percentage", "pct", "%"})
# words that are mathematics, not units
_FUNCTIONS = {"pi", "sqrt", "sin", "cos", "tan", "cot", "sec", "csc", "ln", "log", "exp", "mod", "choose"}
_CONNECTIVES = {"and", "or", "to", "is", "if", "when", "cup", "cap", "infinity", "infty", "inf", "oo"}
_NOT_UNITS = _FUNCTIONS | _CONNECTIVES | set(_MAGNITUDES)
_NOT_UNITS_IN_TEXT = _NOT_UNITS | {"i", "e", "j"}


@dataclass(frozen=True)
class Form:
    """One answer.

    latex: cleaned LaTeX without unit, percent sign and currency, for the grader.
    text: the same without spaces, for comparison as a string.
    number: its value where it is a plain number, before division by 100 if `percent`.
    decimal: written with a point or an exponent, hence possibly rounded.
    percent: it carried a percent sign.
    """

    latex: str
    text: str
    number: Fraction | None = None
    decimal: bool = False
    percent: bool = False


def read_form(answer: str) -> Form:
    """The canonical form of the LaTeX or plain text of one answer. Time linear in its length."""
    text = answer
    for pattern, replacement in _REPLACEMENTS:
        text = pattern.sub(replacement, text)
    text = text.strip()
    for opening, closing in ((r"\(", r"\)"), (r"\[", r"\]")):
        if text.startswith(opening) and text.endswith(closing):
            text = text[2:-2].strip()
    text = text.rstrip(".").rstrip() or text
    percent, factor = False, 1
    if len(text) <= LONGEST_NUMBER:
        text, percent, factor = _without_units(text)
    text = _SHORT_SQRT.sub(r"\\sqrt{\1}", _SHORT_FRAC.sub(_full_frac, text))
    plain = _UNWRAP.sub(r"\1", text)
    plain = _SPACED_MIXED.sub(r"\1\\frac{\2}{\3}", plain.strip())
    plain = _SPACED_THOUSANDS.sub(lambda match: match[1].replace(" ", ""), plain)
    plain = _SPACES.sub("", plain)
    number = _read_number(plain)
    if number is None:
        latex = text if factor == 1 else rf"({text})\times {factor}"
        return Form(latex, plain if factor == 1 else f"({plain})*{factor}", percent=percent)
    value, decimal = number
    if factor != 1:
        value *= factor
        text = plain = str(value)
    return Form(text, plain, value, decimal, percent)


def strip_assignment(answer: str) -> str:
    """`x = 5` as `5`: for a gold answer that names no variable."""
    return _ASSIGNMENT.sub("", answer.strip(), count=1)


def _full_frac(match: re.Match) -> str:
    top, bottom = match[1] if match[1] is not None else match[2], match[3] if match[3] is not None else match[4]
    return rf"\frac{{{top.strip()}}}{{{bottom.strip()}}}"


def _without_units(text: str) -> tuple[str, bool, int]:
    """(text without trailing units, it was a percentage, factor of a trailing "million" and the like).

    A unit is text after something with a digit: `5\\text{ cm}^2`, or words after a plain number: `72 clips`.
    """
    percent, factor = False, 1
    while text:
        if text.endswith("%"):
            text, percent = text[:-1].rstrip(), True
            continue
        match = _TEXT_UNIT.search(text) or _WORD_UNIT.search(text)
        if match is None:
            break
        rest, words = text[: match.start()].rstrip(), match[1].strip().lower()
        magnitude, unit = _split_magnitude(words) if _is_number(rest) else (1, words)
        if unit in _PERCENT_WORDS and _has_digit(rest):
            percent = True
        elif unit and not (_is_text_unit if match[0].startswith("\\") else _is_word_unit)(rest, unit):
            break
        factor *= magnitude
        text = _UNIT_OPERATOR.sub("", rest).rstrip()
    return text, percent, factor


def _split_magnitude(words: str) -> tuple[int, str]:
    """("million dollars") -> (10**6, "dollars")"""
    first, _, others = words.partition(" ")
    return (_MAGNITUDES[first], others.strip()) if first in _MAGNITUDES else (1, words)


def _is_text_unit(rest: str, words: str) -> bool:
    return _has_digit(rest) and not _has_digit(words) and words not in _NOT_UNITS_IN_TEXT


def _is_word_unit(rest: str, words: str) -> bool:
    return _is_number(rest) and _NOT_UNITS.isdisjoint(re.split(r"[ /.-]+", words))


def _has_digit(text: str) -> bool:
    return any(character.isdigit() for character in text)


def _is_number(text: str) -> bool:
    return _read_number(_SPACES.sub("", _SHORT_FRAC.sub(_full_frac, text))) is not None


def _read_number(text: str) -> tuple[Fraction, bool] | None:
    """(value, whether it was written with a point or an exponent) of a canonical text without spaces."""
    match = _NUMBER.fullmatch(text) if len(text) <= LONGEST_NUMBER else None
    if match is None:
        return None
    sign = -1 if match["sign"] == "-" else 1
    decimal = "." in text
    if match["top"] is not None:
        top, bottom = _decimal(match["top"]), _decimal(match["bottom"])
        whole = Fraction(match["whole"] or 0)
        return (sign * (whole + top / bottom), decimal) if bottom else None
    if match["left"] is not None:
        right = _decimal(match["right"])
        return (sign * _decimal(match["left"]) / right, decimal) if right else None
    exponent = int(match["exponent"] or match["power"] or match["digit"] or 0)
    if abs(exponent) > LARGEST_EXPONENT:
        return None
    mantissa = _decimal(match["decimal"] or match["mantissa"] or "1")
    return sign * mantissa * Fraction(10) ** exponent, decimal or match["exponent"] is not None


def _decimal(text: str) -> Fraction:
    return Fraction(text.replace(",", "").rstrip(".") if not text.startswith(".") else f"0{text}")
