r"""Reading numbers in every spelling, and what is decided without the grader."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from verl_srpo.rewards.math_answer import Comparison, compare
from verl_srpo.rewards.math_forms import read_form


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("72", 72),
        ("-72", -72),
        ("+5", 5),
        ("007", 7),
        ("\u22125", -5),
        ("1,234,567", 1234567),
        ("1{,}234", 1234),
        (r"10,\!080", 10080),
        (r"1\,000\,000", 1000000),
        ("1 000 000", 1000000),
        ("3.50", Fraction(7, 2)),
        (".5", Fraction(1, 2)),
        ("5.", 5),
        ("3/4", Fraction(3, 4)),
        (r"\frac{3}{4}", Fraction(3, 4)),
        (r"-\dfrac{3}{4}", Fraction(-3, 4)),
        (r"\tfrac34", Fraction(3, 4)),
        (r"\frac{-3}{4}", Fraction(-3, 4)),
        (r"3\frac{1}{2}", Fraction(7, 2)),
        ("3 1/2", Fraction(7, 2)),
        (r"1.5\times 10^{-2}", Fraction(3, 200)),
        (r"1.5 \cdot 10^3", 1500),
        ("1e3", 1000),
        ("10^{6}", 10**6),
        (r"\$18.90", Fraction(189, 10)),
        ("€5", 5),
        (r"5\text{ cm}", 5),
        (r"5\text{ cm}^2", 5),
        (r"5\text{ m}/\text{s}", 5),
        (r"\frac{1}{2} \mathrm{~kg}", Fraction(1, 2)),
        ("72 clips", 72),
        ("5 square feet", 5),
        (r"90^\circ", 90),
        (r"90^{\circ}", 90),
        (r"2\text{ million}", 2_000_000),
        ("3 thousand dollars", 3000),
        ("$72$", 72),
        (r"\(72\)", 72),
        (r"\text{72}", 72),
    ],
)
def test_number_spellings(text, value):
    assert read_form(text).number == value


@pytest.mark.parametrize(
    "text",
    ["1 2", "1,23", "1,2,3", "12 34", "2\\pi", "5x", "5 x", "1/0", r"\frac{1}{0}", "2 pi", "3 sqrt", r"3\text{ or }4",
     "", "-", ".", "1.2.3", r"3\mathrm{i}", r"\frac{1}{2}x", "1e99999", "9" * 5000, "x", r"\text{two}"],
)  # fmt: skip
def test_what_is_no_plain_number(text):
    assert read_form(text).number is None


@given(
    st.integers(-(10**12), 10**12),
    st.sampled_from(["{}", "{:,}", "${}$", r"{}\text{{ apples}}", "{}.0", "{}.", r"\frac{{{}}}{{1}}", "  {} ", "{}/1"]),
)
def test_spellings_of_an_integer_equal_it_and_not_its_neighbour(number, spelling):
    answer = spelling.format(number)
    assert compare(answer, [str(number)]) is True
    assert compare(answer, [str(number + 1)]) is False


@given(st.fractions(max_denominator=997), st.fractions(max_denominator=997))
def test_fractions_compare_as_fractions(left, right):
    answer = rf"\frac{{{left.numerator}}}{{{left.denominator}}}"
    gold = f"{right.numerator}/{right.denominator}"
    assert compare(answer, [gold]) is (left == right)


@pytest.mark.parametrize(
    ("gold", "answer", "equal"),
    [
        # a percent sign on one side: both readings
        (r"10\%", "0.1", True),
        ("0.1", r"10\%", True),
        ("10", r"10\%", True),
        (r"10\%", "10", True),
        (r"10\%", "10 percent", True),
        (r"10\%", r"10\text{ percent}", True),
        # on both: the number
        (r"10\%", "10%", True),
        (r"10\%", r"0.1\%", False),
        (r"10\%", "11", False),
        # decimals to six digits, integers exactly
        (r"\frac{1}{3}", "0.333333", True),
        (r"\frac{1}{3}", "0.33", False),
        ("0.33", r"\frac{1}{3}", False),
        ("1000000", "1000000.5", False),
        ("1e-7", "2e-7", False),
        (r"1.6\times 10^{-19}", "1.6e-19", True),
        # no rational number
        ("7", "seven", False),
        ("7", "x", False),
        # text
        (r"\text{Evelyn}", "evelyn", True),
        (r"\text{(B)}", "b", True),
        ("B", "(B)", True),
        ("(1, 2)", r"\left(1,2\right)", True),
        (r"\begin{pmatrix} 1 \\ 2 \end{pmatrix}", r"\begin{pmatrix}1\\2\end{pmatrix}", True),
        (r"\frac{\sqrt{2}}{2}", r"\dfrac{\sqrt2}{2}", True),
        # an assignment where the gold answer names no variable
        ("5", "x = 5", True),
        ("2000000", r"2\text{ million}", True),
        ("2", r"2\text{ million}", False),
        ("6:30", "6:30", True),
        # the gold answer itself in a box
        (r"\boxed{5}", "5", True),
        # beyond any sensible length only the very same text
        ("x" * 5000, "x" * 5000, True),
        ("y" * 5000, "x" * 5000, False),
    ],
)  # fmt: skip
def test_decided_without_the_grader(gold, answer, equal):
    assert compare(answer, [gold]) is equal


def test_any_gold_answer_suffices():
    assert compare("5", ["4", "5"]) is True
    assert compare("6", ["4", "5"]) is False


def test_what_is_left_to_the_grader():
    assert compare(r"\sqrt{12}", [r"2\sqrt{3}"]) == [Comparison(r"2\sqrt{3}", r"\sqrt{12}", 6)]
    # a small gold answer is compared at more places; a percent sign on one side gives both readings
    assert compare(r"\frac{2}{10^{7}}", ["0.0000001"]) == [Comparison("0.0000001", r"\frac{2}{10^{7}}", 13)]
    assert [item.answer for item in compare(r"\sqrt{4}\%", ["x"])] == [r"\sqrt{4}", r"\frac{\sqrt{4}}{100}"]


@given(st.text(alphabet=r"\{}frac text%$,.^0123456789e+-/ xtimes", max_size=80))
def test_reading_is_total(text):
    form = read_form(text)
    assert form.number is None or isinstance(form.number, Fraction | int)


def test_huge_powers_are_not_computed():
    for text in ("9^{9^{9^9}}", "10^{9999}", "1e9999", "9" * 4000):
        assert read_form(text).number is None
