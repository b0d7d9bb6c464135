"""What the math checker calls equal, what it does not, and what it refuses to compute."""

import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from rloo_verify.checkers import UnusableReferenceError
from rloo_verify.checkers.math import check, prepare
from rloo_verify.types import Outcome, Verdict


def judge(reference: object, answer: str) -> Verdict:
    return check("\\boxed{" + answer + "}", reference, {})


EQUAL = {
    "integers and their spellings": [
        ("42", "42."), ("42", "+42"), ("42", "42.0"), ("-3", "−3"), ("1000000", "1,000,000"),
        ("1000000", "1{,}000{,}000"),
        ("12345678", r"12\,345\,678"), ("11111111100", r"11,\! 111,\! 111,\! 100"), ("18", r"\$18.00"), ("32", "2^5"),
        ("1267650600228229401496703205376", "2^{100}"), ("24", "4!"), ("1500", "1.5E3"), ("1500", r"1.5 \times 10^3"),
        (7, "7"), (0.5, r"\frac12"), ("42", r"\text{42}"), ("42", "\ufeff42"), ("5", "5=2+3"),
    ],
    "fractions, decimals and percentages": [
        ("1/2", "0.5"), (r"\frac{5}{2}", r"2\frac{1}{2}"), ("2.5", "2 1/2"), (r"\frac{1}{3}", r"\frac 1 3"),
        ("1/2", "½"),
        (r"\frac{1}{3}", r"0.\overline{3}"), (r"\frac{1}{6}", r"0.1\overline{6}"), (r"\frac{1}{3}", "0.333333"),
        (r"12.5\%", r"\frac{1}{8}"), ("0.07", r"7\%"), ("28%", "28 percent"), ("10%", "10"),
        (r"\frac{1}{2}", r"{1 \over 2}"),
        ("2^{2025}", r"2\cdot 2^{2024}"), (r"\frac{1}{30!}", r"\frac{1}{30\cdot 29!}"),
    ],
    "units, names and words around a number": [
        ("5", r"5\text{ cm}"), ("5", r"x = 5"), ("5", "24/5 + 1/5 students"), ("12", r"12\,\text{m}^2"),
        (r"12\text{ cm}^2", "12"),
        ("60", r"60\ \frac{\text{km}}{\text{h}}"), ("9.8", r"9.8 \, \mathrm{m/s^2}"), ("40", "40°C"),
        (r"60^\circ", "60°"),
        (r"60^\circ", r"\angle ABC = 60^\circ"), ("5 meters", r"5\text{ m}"), ("11", r"x \approx 11"),
        ("17", "m+n = 17"),
    ],
    "roots, constants and functions": [
        (r"\frac{\sqrt{2}}{2}", r"\frac{1}{\sqrt{2}}"), (r"2\sqrt{3}", "sqrt(12)"),
        (r"\sqrt{2}", "1.4142135623730951"),
        (r"e^{i\pi/3}", r"\frac{1}{2}+\frac{\sqrt3}{2}i"), ("-1", "i^2"), ("3+4i", r"3 + 4\mathrm{i}"),
        (r"-3\pi", "-3*pi"),
        (r"\log_2 8", "3"), (r"\sin 30^\circ", r"\frac12"), (r"\binom{5}{2}", "10"), ("2", r"\sqrt[3]{8}"),
        ("√2", r"\sqrt2"),
    ],
    "expressions in variables": [
        ("(r+5)^2", "(r+5)(r+5)"), (r"\frac{x+2}{7}", r"\frac{x}{7}+\frac{2}{7}"), ("3x^2y", "3yx^2"),
        ("9a+11", "11+9a"),
        (r"\sin 2x", r"2\sin x\cos x"), ("2^{n+1}-1", r"2\cdot 2^n - 1"), ("x^8", "x^{2^{3}}"),
        ("f(x)+1", "1+f(x)"), ("x²", "x^2"),
        (r"-\frac{2(x^2+6)}{9(x^2-2)\sqrt[3]{x^2-2}^2}", r"-\frac{8x^2}{9(x^2-2)^{5/3}}+\frac{2}{3(x^2-2)^{2/3}}"),
    ],
    "equations": [
        ("2x+4y-3=0", r"y=-\frac12 x+\frac34"), ("2x+4y-3=0", "4x+8y=6"), ("x=2", "2"), ("2=x", "x=2"),
        ("f(x)=x^2", "x^2"),
        ("y=2x+3", "y=3+2x"), ("x^2/4 + y^2/3 = 1", "x^2/16 + y^2/12 = 1/4"),
    ],
    "inequalities, intervals and unions": [
        (r"x\ge 2", "x ≥ 2"), (r"x\ge 2", r"2 \le x"), ("x<1", "-x > -1"), (r"[2,\infty)", r"x \geqslant 2"),
        ("a>b", "b<a"),
        (r"1<x\le 3", "(1,3]"), ("[0,1)", r"x \in [0,1)"), (r"(0.5, 3)", r"\left(\frac{1}{2},3\right)"),
        (r"(-\infty,\infty)", r"\mathbb{R}"),
        (r"(-\infty,3]\cup[5,\infty)", r"[5,+\infty) \cup (-\infty,3]"), (r"x \neq 5", "x != 5"),
    ],
    "tuples, lists, sets and plus-minus": [
        ("(3,4)", "(3, 4)"), ("(x,y)=(3,2)", "(3,2)"), ("1,-2", "-2,1"), ("1,-2", r"1 \text{ and } -2"),
        ("1,-2", r"x = 1 \text{ or } x = -2"),
        ("1,-2", "x_1=1, x_2=-2"), (r"\{1,2,3\}", "3,2,1"), (r"\emptyset", r"\{\}"),
        ("(1,2),(3,4)", "(3,4),(1,2)"), ("3,-3", r"\pm 3"),
        (r"\frac{4\pm\sqrt{20}}{2}", r"2+\sqrt5, 2-\sqrt5"), ("n=3,5,9", "n=9,3,5"), ("3:4", "6:8"),
    ],
    "matrices": [
        (r"\begin{pmatrix}1\\2\end{pmatrix}", r"\begin{pmatrix}1\\2\\\end{pmatrix}"),
        (r"\begin{pmatrix}1 & 0.5\\3 & 4\end{pmatrix}", r"\begin{bmatrix}1 & \frac12 \\ 3 & 2^2\end{bmatrix}"),
    ],
    "words and letters": [
        (r"\text{east}", "East"), ("Quadrant I", r"\text{Quadrant I}"), ("B", "(B)"), ("B", r"\textbf{(B)}\ 12"),
        ("B", "B. 42"), ("(C)", "C"),
        ("Yes", r"\text{yes}"),
    ],
}  # fmt: skip

DIFFERENT = {
    "digits, signs and sizes": [
        ("42", "41"), ("-3", "3"), ("0", "o"), ("10000", "10001"), ("1e-7", "2e-7"), ("0", "0.0000001"),
        ("500", "5"), ("1", "100"),
        ("5", "5.001"), ("3.14", "3.15"), ("3.14", "3.14159"), (r"\frac{1}{3}", "0.33"), ("0.3333", r"\frac13"),
        ("12", "1,23"),
        ("32349", "32, 349"), ("0.5", "0.500001"), ("2^{2025}", "2^{2024}"),
        (r"6.02\times10^{23}", r"6.02 \times 10^{22}"),
        (r"50\%", r"5\%"), ("5000000", "5"), ("5", "5 million"), ("7", "1e400"), ("7", r"\frac{1}{0}"),
        ("2516_8", "2516_9"),
    ],
    "what is not a number": [
        ("7", r"\neq 7"), ("7", r"\text{not } 7"), ("7", "x > 7"), ("7", "(6,8)"), ("7", r"x\in\mathbb{R}"),
        ("7", r"\pm 7"), ("7", "7x"),
        ("7", "7=8"), ("7", "8=7"), ("7", "x=5=6=7"), ("x=7", "x=x"), ("x>7", "x>x"), ("x>7", "1>0"),
        ("7", r"\ldots"), ("7", r"\text{True}"),
        ("4", "m=4k"), ("m=4k", "4"), ("2", r"\{1,2,3\}"), ("2", "1 or 2"), ("42", r"42\quad 17"), ("7", r"7 \pm 1"),
    ],
    "units": [(r"5\text{ cm}", r"5\text{ m}"), ("144", r"12\text{ m}^2"), ("5 apples", "5 pears")],
    "expressions": [
        ("x+2n+1", "x+1"), ("(a+b)^2", "a^2+b^2"), (r"\sqrt{x^2}", "x"), ("3n^2-2n", "3n^4-2n"),
        ("4", r"4\sqrt{2}"), ("3+4i", "3-4i"),
        (r"\frac{1+\sqrt{2}}{2}", r"\frac{1+\sqrt{2}}{6}"),
    ],
    "relations": [
        ("x=2", "x=3"), ("y=2x+3", "x=2y+3"), ("x^2+y^2=1", "x^2+y^2=2"), (r"x\ge 2", "x>2"),
        (r"x\ge 5", r"x \le 5"), ("a>b", "a<b"),
        ("p=5,q=2", "p=2, q=5"), ("x^2=4", "x=2"), ("n=3k", "3"),
    ],
    "collections": [
        ("(3,4)", "(4,3)"), ("(1,2)", "[1,2]"), ("(1,2)", "(2,1)"), ("[0,1)", "[0,1]"), ("1,-2", "1"),
        ("1,-2", "1,-2,3"), ("1,2", "2"),
        (r"\{1,2,3\}", r"\{1,2\}"), ("3:4", "4:3"), ("12:00", "1:00"), ("4:15", "8:30"),
        ("(3,4)", "7"), (r"(-\infty,3]", "x<3"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\begin{pmatrix}1&2\\3&5\end{pmatrix}"),
        (r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", "10"),
    ],
    "words and letters": [
        ("Yes", "No"), (r"\text{AAPTZ}", r"\text{ZTPAA}"), ("B", "A, B, C"), ("B", r"A \text{ or } B"),
        ("B", "AB"), ("B", "Β"), ("Yes", r"\text{Yes and No}"),
        ("A, C", "A"),
    ],
}  # fmt: skip


@pytest.mark.parametrize("kind", EQUAL)
def test_equal_answers_pass(kind: str) -> None:
    refused = [pair for pair in EQUAL[kind] if judge(*pair).outcome is not Outcome.PASS]
    assert refused == []


@pytest.mark.parametrize("kind", DIFFERENT)
def test_different_answers_fail(kind: str) -> None:
    paid = [pair for pair in DIFFERENT[kind] if judge(*pair).outcome is not Outcome.FAIL]
    assert paid == []


def test_no_answer_is_told_apart_from_a_wrong_one() -> None:
    assert check("I do not know", "7", {}).reason == "no_answer"
    assert check(r"\boxed{}", "7", {}).reason == "no_answer"
    assert check(r"\boxed{\,}", "7", {}).reason == "no_answer"
    assert check(r"\boxed{8}", "7", {}).reason == "wrong_answer"
    assert check(r"\boxed{7}", "7", {}) == Verdict(Outcome.PASS, "correct", "the same text", "7")


@pytest.mark.parametrize("reference", ["", "   ", None, r"\boxed{}", "$$"])
def test_an_empty_reference_is_unusable_and_never_a_reward(reference: str | None) -> None:
    assert judge(reference, "7").reason == "unusable_reference"
    assert judge(reference, "").outcome is Outcome.FAIL or judge(reference, "").outcome is Outcome.ERROR
    with pytest.raises(UnusableReferenceError):
        prepare(reference)


@pytest.mark.parametrize("reference", [r"\oint_{C} z", "9^9^9^9", r"\frac{1}{2", "9" * 5000])
def test_a_reference_that_cannot_be_read_passes_the_same_text_and_is_an_error_otherwise(reference: str) -> None:
    assert judge(reference, reference).outcome is Outcome.PASS or "{2" in reference
    other = judge(reference, "7")
    assert (other.outcome, other.reason, other.reward) == (Outcome.ERROR, "unusable_reference", None)


HOSTILE = {
    "towers": "9^9^9^9", "towers of ten": "10^10^8!", "factorials": "((((9!)!)!)!)", "marks": "9!!!!!!!!!!",
    "brackets": "(" * 10_000 + "1" + ")" * 10_000,
    "open brackets": "(" * 3_000, "digits": "9" * 100_000, "decimals": "0." + "3" * 100_000,
    "binomials": r"\binom{10^9}{5e8}",
    "expansions": "(a+b+c+d+e+f+g+h)^{60}", "spaces": "1" + " " * 100_000 + "2",
    "fractions": r"\frac{1}{" * 500 + "1" + "}" * 500,
    "divisions": "1" + "/2" * 1_900, "signs": "-" * 3_000 + "1", "terms": "+".join(["1"] * 1_900),
    "products": "*".join(["99999999"] * 400),
    "lists": ",".join(str(i) for i in range(1_500)), "plus-minus": r"\pm1" * 500,
    "exponentials": "exp(exp(exp(exp(10))))", "angles": r"\sin(10^{3000})",
    "gamma": "(10^6)!", "powers of pi": r"\pi^{" * 30 + r"\pi" + "}" * 30, "exponents": "2^{100000000}",
    "e-notation": "1e999999999",
    "matrices": r"\begin{pmatrix}" + r"\\".join(["&".join(["1"] * 100)] * 100) + r"\end{pmatrix}",
    "functions": "f(" * 500 + "x" + ")" * 500,
    "roots": r"\sqrt{" * 1_000 + "2" + "}" * 1_000, "bars": "|" * 1_500, "units": "5 " + "cm " * 900,
    "words": "5" + "a" * 3_900,
    "sums of roots": "+".join(rf"\sqrt{{{i}}}" for i in range(2, 300)), "floors": r"\lfloor 10^{4000}\pi \rfloor",
    "surrogates": "\ud800" * 100,
}  # fmt: skip


@pytest.mark.parametrize("kind", HOSTILE)
def test_absurd_answers_fail_within_milliseconds(kind: str) -> None:
    judge(r"\sqrt{2}", r"\sqrt{3}")  # mpmath is imported once, before the first answer
    started = time.process_time()
    for reference in ("7", r"\sqrt{2}", "x+1", "x=7", "(1,2)"):
        assert judge(reference, HOSTILE[kind]).outcome is Outcome.FAIL
    assert time.process_time() - started < 5 * 0.25


@pytest.mark.parametrize("kind", ["towers", "factorials", "brackets", "digits", "binomials"])
def test_an_answer_beyond_the_limits_says_so(kind: str) -> None:
    assert judge("7", HOSTILE[kind]).reason == "too_complex"


def test_text_is_never_run_as_code() -> None:
    mark = Path(tempfile.gettempdir()) / "rloo-verify-test-mark"
    mark.unlink(missing_ok=True)
    command = f"__import__('os').system('touch {mark}')"
    for text in (
        command,
        f"7 + {command}",
        rf"\pi*0+{command}",
        f"lambda: {command}",
        f'eval("{command}")',
        "().__class__.__bases__",
    ):
        assert judge("7", text).outcome is Outcome.FAIL
        assert judge(text, "7").outcome is not Outcome.PASS
    assert not mark.exists()


def test_plain_numbers_are_judged_without_importing_sympy_or_mpmath() -> None:
    program = (
        "import sys; from rloo_verify.checkers.math import check; "
        r"print(check(r'\boxed{\frac{6}{4}}', '1.5', {}).outcome, {'sympy', 'mpmath', 'torch'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "pass set()\n"
