"""Fuzzing the math checker: grammar-made answers, their rewritings and mutations, and broken LaTeX.

In CI each test tries a few hundred. `RLOO_VERIFY_FUZZ=100000 pytest tests/test_math_fuzz.py` tries so many in all.
"""

import os
import time
from fractions import Fraction

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from rloo_verify.checkers.boxes import closing_brace
from rloo_verify.checkers.math import check, warm_up
from rloo_verify.types import Outcome, Verdict

IN_ALL = int(os.environ.get("RLOO_VERIFY_FUZZ", "1000"))
SECONDS = 1.0
pytestmark = pytest.mark.timeout(7200 if IN_ALL > 1000 else 300)

some = settings(
    max_examples=max(1, IN_ALL // 4),
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=IN_ALL <= 1000,  # the short run is the same every time; new cases are the long run's job
)


def judge(reference: str, answer: str) -> Verdict:
    for _ in range(2):  # twice: Python's own garbage collection may take its time, but not twice
        started = time.process_time()
        verdict = check("\\boxed{" + answer + "}", reference, {})
        if time.process_time() - started < SECONDS:
            return verdict
    raise AssertionError(f"more than {SECONDS} s of CPU time: {(reference, answer)}")


@pytest.fixture(scope="module", autouse=True)
def _warm() -> None:
    warm_up()


@st.composite
def expressions(draw: st.DrawFn, depth: int = 3) -> str:
    if depth == 0 or draw(st.booleans()):
        return draw(st.sampled_from(["x", "y", "2", "3", "7", r"\pi", r"\sqrt{2}", "0.5"]))
    a, b = draw(expressions(depth - 1)), draw(expressions(depth - 1))
    forms = [
        f"({a}+{b})", f"({a}-{b})", rf"{{{a}}}\cdot{{{b}}}", rf"\frac{{{a}}}{{({b})^2+1}}", f"({a})^2", rf"\sin({a})",
        rf"\sqrt{{({a})^2+1}}", rf"|{a}|", rf"e^{{-({a})^2}}",
    ]  # fmt: skip
    return draw(st.sampled_from(forms))


@some
@given(expressions(), st.integers(1, 9))
def test_an_expression_equals_its_rewritings_and_not_its_mutations(text: str, number: int) -> None:
    first = judge(text, f"{number} + {text} - {number}")
    # e^{-10^6} is beyond the limits, as an answer and as a reference, and so are its rewritings.
    assume(first.reason != "too_complex" and not (first.outcome is Outcome.ERROR and "too large" in first.detail))
    assert first.outcome is Outcome.PASS
    assert judge(text, rf"\frac{{{number}({text})}}{{{number}}}").outcome is Outcome.PASS
    assert judge(text, rf"\left( {text} \right) \cdot 1").outcome is Outcome.PASS
    assert judge(text, f"{text} + 0.00{number}").outcome is Outcome.FAIL
    assert judge(text, f"{text} + x - {number}").outcome is Outcome.FAIL


numbers = st.fractions(min_value=-50, max_value=50, max_denominator=12)


def latex(value: Fraction) -> str:
    sign = "-" if value < 0 else ""
    if value.denominator == 1:
        return str(value)
    return rf"{sign}\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def plain(value: Fraction, times: int) -> str:
    return f"{value.numerator * times}/{value.denominator * times}" if value.denominator > 1 else f"{value}.0"


KINDS = {
    "tuple": ("({})", True), "set": (r"\{{{}\}}", False), "list": ("{}", False), "interval": ("[{})", True),
}  # fmt: skip


@some
@given(
    st.sampled_from(sorted(KINDS)), st.lists(numbers, min_size=2, max_size=4, unique=True), st.integers(2, 9), st.data()
)
def test_collections_equal_their_rewritings_and_not_their_mutations(
    kind: str, values: list[Fraction], times: int, data: st.DataObject
) -> None:
    form, ordered = KINDS[kind]
    values = sorted(values[:2]) if kind == "interval" else values
    reference = form.format(", ".join(map(latex, values)))
    shuffled = values if ordered else data.draw(st.permutations(values))
    assert judge(reference, form.format(", ".join(plain(value, times) for value in shuffled))).outcome is Outcome.PASS
    at = data.draw(st.integers(0, len(values) - 1))
    changed = [value + (Fraction(1, times) if index == at else 0) for index, value in enumerate(values)]
    assume(set(changed) != set(values))
    assert judge(reference, form.format(", ".join(map(latex, changed)))).outcome is Outcome.FAIL
    assert judge(reference, form.format(", ".join(map(latex, values[:-1])))).outcome is Outcome.FAIL
    if ordered:
        assert judge(reference, form.format(", ".join(map(latex, reversed(values))))).outcome is Outcome.FAIL


REAL = [
    r"\frac{\sqrt{3}}{2}", r"(-\infty, 2) \cup [3, 7]", r"\begin{pmatrix} 1 & 2 \\ 3 & 4 \end{pmatrix}",
    r"12\text{ cm}^2", r"x^2 + \frac{1}{2}xy - 3", r"y = -\frac{1}{2}x + 3", r"\{x \mid x > 3, x \in \mathbb{Z}\}",
    r"1, -2 \text{ and } 5", r"\sum_{k=1}^{n} k^2", r"e^{i\pi/3}", r"2\frac{1}{2}", r"25\%", r"3:30 \text{ p.m.}",
    r"\log_2 (x+1)", r"|x-3| \le 2", r"0.\overline{142857}", r"\binom{10}{3}", r"2516_8", r"6.02 \times 10^{23}",
    r"\frac{4 \pm \sqrt{20}}{2}", "July 4, 2023", r"\text{(C)}", r"f(x) = \lfloor x \rfloor", r"\int_0^1 x^2 \, dx",
    r"\sqrt[3]{2} + 4i", r"\mathbb{R} \setminus \{0\}",
]  # fmt: skip
PIECES = [*r"\{}()[]^_!%|&,;=<+-*/:.'019xei $", r"\frac", r"\sqrt", r"\pm", r"\cup", r"\text{and}", r"\log", r"\binom"]
PIECES += [
    r"\begin{pmatrix}",
    r"\end{pmatrix}",
    r"\\",
    r"\mid",
    r"\in",
    r"\sum",
    r"\int",
    r"\overline",
    "²",
    "½",
    "9" * 30,
]


@some
@given(st.sampled_from(REAL), st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["", *PIECES])), max_size=4))
def test_mutated_latex_raises_nothing_and_hangs_nowhere(text: str, edits: list[tuple[int, str]]) -> None:
    for at, piece in edits:
        at = at % (len(text) + 1)
        text = text[:at] + piece + text[at + (not piece) :]
    for reference in ("7", r"\frac{\sqrt{3}}{2}", "x>1", "(1,2)"):
        assert judge(reference, text).outcome is not Outcome.ERROR
    assert judge(text, "7").reason != ""
    own = judge(text, text)
    assert (
        own.outcome is Outcome.PASS
        or own.reason in ("no_answer", "unusable_reference")
        or "box" in text
        or _unbalanced(text)
    )


@some
@given(st.lists(st.sampled_from(PIECES), max_size=30).map("".join))
def test_no_text_raises_or_hangs(text: str) -> None:
    assert judge("7", text).outcome is not Outcome.ERROR
    assert judge(text, "7").reason != ""


def _unbalanced(text: str) -> bool:
    """Whether a text cannot stand in a box as it is: the box would end elsewhere."""
    return closing_brace("{" + text + "}", 0, len(text) + 2) != len(text) + 1
