"""The traps that other math checkers fell into, one test each, and what the modes and levels promise."""

import time
from collections.abc import Callable

import pytest

from rloo_verify.checkers import levels, scalars, symbolic
from rloo_verify.checkers.explain import explain
from rloo_verify.checkers.math import check, warm_up
from rloo_verify.errors import TaskError
from rloo_verify.types import Outcome, Verdict


def lenient(completion: str, reference: object) -> Verdict:
    return check(completion, reference, {}, mode="lenient")


def strict(completion: str, reference: object) -> Verdict:
    return check(completion, reference, {})


TRAPS: dict[str, tuple[str, str, Outcome]] = {
    "a self-correction counts": (r"\boxed{6}. No: \boxed{8}", "8", Outcome.PASS),
    "a self-correction replaces": (r"\boxed{6} \boxed{8}", "6", Outcome.FAIL),
    "boxes close together are no set": (r"\boxed{2} \boxed{5}", r"\{2,5\}", Outcome.FAIL),
    "a hedge is no answer": ("The answer is 2 or 5.", "2", Outcome.FAIL),
    "i in another font": (r"\boxed{3 + 4 \mathrm{i}}", "3+4i", Outcome.PASS),
    "i squared": (r"\boxed{i^2}", "-1", Outcome.PASS),
    "not equal is not equal": (r"\boxed{\neq 7}", "7", Outcome.FAIL),
    "morning is not afternoon": (r"\boxed{3:30 PM}", "3:30 AM", Outcome.FAIL),
    "the base is part of the number": (r"\boxed{2516}", "2516_8", Outcome.FAIL),
    "a false equation": (r"\boxed{8=7}", "7", Outcome.FAIL),
    "small numbers differ": (r"\boxed{1e-7}", "2e-7", Outcome.FAIL),
    "large numbers differ": (r"\boxed{10001}", "10000", Outcome.FAIL),
    "no hidden percentage": (r"\boxed{100}", "1", Outcome.FAIL),
    "another unit": (r"\boxed{5\text{ m}}", r"5\text{ cm}", Outcome.FAIL),
    "a box in unfinished reasoning": (r"<think>so \boxed{7}", "7", Outcome.FAIL),
    "the percent sign is no comment": (r"\boxed{25\%}", r"25\%", Outcome.PASS),
    "an unreadable reference is no reward": (r"\boxed{7}", r"\oint_C z", Outcome.ERROR),
    "an unreadable reference passes itself": (r"\boxed{\oint_C  z}", r"\oint_C z", Outcome.PASS),
    "a bare reference is read": (r"\boxed{\dfrac{\sqrt{2}}{2}}", r"\frac{\sqrt{2}}{2}", Outcome.PASS),
    "digits that repeat": (r"\boxed{\frac13}", r"0.\overline{3}", Outcome.PASS),
    "plus-minus over a fraction": (r"\boxed{2\pm\sqrt5}", r"\frac{4\pm\sqrt{20}}{2}", Outcome.PASS),
    "a union as an absolute value": (r"\boxed{|x|>1}", r"(-\infty,-1)\cup(1,\infty)", Outcome.PASS),
    "Euler's form": (r"\boxed{\frac12+\frac{\sqrt3}{2}i}", r"e^{i\pi/3}", Outcome.PASS),
    "the one-character half": (r"\boxed{½}", r"\frac12", Outcome.PASS),
    "x with a superscript two": (r"\boxed{x²}", "x^2", Outcome.PASS),
    "a letter in a sentence": ("The answer is (C) 17 cats.", "C", Outcome.PASS),
    "the answer in Chinese": ("所以答案是A。", "A", Outcome.PASS),
    "an empty box": (r"The answer is 7. \boxed{}", "7", Outcome.FAIL),
    "the instruction echoed": (r"Put your final answer in \boxed{}.", "7", Outcome.FAIL),
    "a choice with a sum": (r"\boxed{(C) + 1}", "C", Outcome.FAIL),
    "every number there is": ("1 2 3 4 5 6 7", "7", Outcome.FAIL),
    "every letter there is": ("The answer is A. The answer is B. The answer is C.", "C", Outcome.FAIL),
    "two tags in a row": ("<answer>1</answer><answer>7</answer>", "7", Outcome.FAIL),
}


@pytest.mark.parametrize("trap", TRAPS)
@pytest.mark.parametrize("judge", [strict, lenient])
def test_the_trap_catches_nobody(trap: str, judge: Callable[[str, object], Verdict]) -> None:
    completion, reference, expected = TRAPS[trap]
    assert judge(completion, reference).outcome is expected


@pytest.mark.parametrize(
    ("completion", "reference"),
    [
        ("So she has 42 apples left.", "42"),
        ("Therefore, the total is **42**.", "42"),
        ("42", "42"),
        (r"x = \frac{1}{2}", "0.5"),
        ("Final Answer: The largest $n$ is 34.", "34"),
        ("It's not A because it makes no sense, therefore I think it's B", "B"),
        ("The answer is for sure D, it can't be A or B", "D"),
        ("B is correct", "B"),
        ("每份应该是 3 吨。 答案：每份应该是 3 吨。", "3"),
        (r"We get \boxed{255} first. Final Answer: The final answer is $10,455$. I hope it is correct.", "10455"),
    ],
)
def test_lenient_reads_sentences(completion: str, reference: str) -> None:
    assert lenient(completion, reference).outcome is Outcome.PASS


@pytest.mark.parametrize("completion", ["So she has 42 apples left.", "Therefore, the total is **42**.", "42", "= 42"])
def test_strict_asks_for_a_marked_answer_and_says_that_there_is_none(completion: str) -> None:
    assert strict(completion, "42").reason == "no_answer"


@pytest.mark.parametrize(
    "completion",
    ["The answer is not 42.", "It is 41 or 42.", "Either 41 or 42", "The result isn't 42", "Final answer: 42 (or 41)"],
)
def test_lenient_takes_no_answer_from_a_denial_or_from_alternatives(completion: str) -> None:
    assert lenient(completion, "42").outcome is Outcome.FAIL


def test_lenient_takes_no_letter_from_a_denial_or_from_alternatives() -> None:
    for completion in ("The answer is not C.", "Both A and C", "A or C", "None of A, B, C", "All except C"):
        assert lenient(completion, "C").outcome is Outcome.FAIL


def test_an_unknown_mode_is_refused_by_name() -> None:
    with pytest.raises(TaskError, match="mode = 'loose' is no mode of the math checker; use strict or lenient"):
        check("7", "7", {}, mode="loose")


def test_reasoning_counts_only_where_the_task_says_so() -> None:
    text = r"<think>\boxed{7}</think>"
    assert strict(text, "7").reason == "no_answer"
    assert check(text, "7", {}, reasoning=True).outcome is Outcome.PASS


def test_any_of_several_references_is_right_and_an_unusable_one_leaves_doubt() -> None:
    assert strict(r"\boxed{3}", ["2", "3"]).outcome is Outcome.PASS
    assert strict(r"\boxed{4}", ["2", "3"]).outcome is Outcome.FAIL
    assert strict(r"\boxed{4}", ["2", r"\oint z"]).outcome is Outcome.ERROR


LEVELS = [
    (r"\frac{1}{2}", r"\dfrac{1}{2}", "the same text"),
    ("0.5", "1/2", "exact numbers"),
    ("C", "(C)", "the same choice"),
    ("(1,2)", "(1, 2 )", "the same form"),
    ("42", "40+2", "exact arithmetic"),
    ("x^2-1", "(x-1)(x+1)", "an algebraic identity"),
    (r"2\sqrt{3}", r"\sqrt{12}", "values to many digits"),
    (r"\frac13", "0.333333", "exact arithmetic, a decimal of enough digits"),
    (r"\sum_{k=1}^{n} k", r"\frac{n(n+1)}{2}", "sympy"),
]


@pytest.mark.parametrize(("reference", "answer", "level"), LEVELS)
def test_the_cheapest_level_that_can_decide_does(reference: str, answer: str, level: str) -> None:
    verdict = strict(rf"\boxed{{{answer}}}", reference)
    assert (verdict.outcome, verdict.detail) == (Outcome.PASS, level)


def test_no_level_is_asked_after_one_has_said_different(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    monkeypatch.setattr(symbolic, "identical", lambda *_: asked.append("sympy") or True)
    assert strict(r"\boxed{\sqrt{13}}", r"2\sqrt{3}").outcome is Outcome.FAIL  # values differ
    assert strict(r"\boxed{\sin x}", r"\cos x").outcome is Outcome.FAIL
    assert asked == []
    assert strict(r"\boxed{n}", r"\sum_{k=1}^{n} k").outcome is Outcome.PASS  # nothing but sympy was left to ask
    assert asked == ["sympy"]


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ("262537412640768744", r"e^{\pi\sqrt{163}}"),  # differ after 30 digits
        ("10^{30}", r"\sqrt{10^{60}+1}"),
        ("x", r"x+10^{-60}\pi"),
        (r"\frac{1}{998001}", r"\frac{1}{998001}+10^{-200}\pi"),
    ],
)
def test_values_that_nearly_agree_are_compared_to_as_many_digits_as_it_takes(a: str, b: str) -> None:
    assert strict(rf"\boxed{{{b}}}", a).outcome is Outcome.FAIL
    assert strict(rf"\boxed{{{a}}}", b).outcome is Outcome.FAIL


@pytest.mark.parametrize(
    "hostile",
    [
        r"\int_0^1 \int_0^1 \int_0^1 e^{xyz} dx dy dz",
        r"\sum_{k=1}^{10^{9}} \frac{1}{k}",
        r"\int_0^1 x^{x^{x^{x}}} \, dx",
        r"\prod_{k=1}^{10^8} k",
        r"\sum_{n=1}^{\infty} \sum_{m=1}^{\infty} \frac{1}{n^m}",
        r"\lim_{x \to 0} (1+x)^{1/x^{99}}",
        r"(x+1)^{(x+1)^{(x+1)^{99}}}",
        r"\begin{pmatrix}" + "&".join(["x^{99}"] * 60) + r"\end{pmatrix}^{99}",
        r"|x|" * 300,
        r"\{x \mid " + r"x > 1, " * 300 + r"x<2\}",
        r"(-\infty,1)" + r"\cup (2,3)" * 200,
    ],
)
def test_nested_calculus_and_large_sets_answer_in_milliseconds(hostile: str) -> None:
    warm_up()
    started = time.process_time()
    for reference in ("7", r"\sqrt{2}", "x>1", r"(0,1)\cup(2,3)", r"\begin{pmatrix}1\\2\end{pmatrix}"):
        assert strict(rf"\boxed{{{hostile}}}", reference).outcome is Outcome.FAIL
    assert time.process_time() - started < 5 * 0.25


def test_the_explanation_names_every_step() -> None:
    steps = explain(r"2\sqrt{3}", r"<think>hm</think> So \boxed{\sqrt{12}}", "strict")
    assert steps["extraction"] == r"'\\sqrt{12}' by the rule boxed"
    assert steps["reasoning"].endswith("up to </think> do not count")
    assert (steps["reference_type"], steps["answer_type"]) == ("expression", "expression")
    assert (steps["reference_form"], steps["answer_form"]) == ("*(2, sqrt(3))", "sqrt(12)")
    assert (steps["level"], steps["verdict"]) == ("values to many digits", "pass (correct)")


def test_the_explanation_of_no_answer_and_of_an_unusable_reference() -> None:
    assert explain("7", "dunno", "strict")["extraction"] == "no final answer"
    assert explain("", r"\boxed{7}", "strict")["verdict"] == "error (unusable_reference)"
    assert "not in the grammar" in explain(r"\oint z", r"\boxed{7}", "strict")["reference_type"]


def test_levels_are_recorded_once_in_order() -> None:
    levels.start()
    assert scalars.scalars_equal is not None
    levels.note(levels.Level.NUMERIC)
    levels.note(levels.Level.NUMERIC)
    levels.note(levels.Level.FORM)
    assert levels.used() == (levels.Level.NUMERIC, levels.Level.FORM)
