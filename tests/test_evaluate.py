"""What an evaluation counts, by hand."""

from dataclasses import replace
from random import Random
from typing import Any

import pytest
from groups import judged_group

from rloo_verify.evaluate import evaluate_groups, evaluate_samples
from rloo_verify.samples import Sample
from rloo_verify.types import Outcome

GROUPS = [
    judged_group("a", "ppff", lengths=(1, 2, 3, 4), cut="...x"),
    judged_group("b", "fffe", lengths=(5, 5, 5, 5)),
    judged_group("c", "peee", lengths=(2, 2, 2, 2), cut="xx.."),
    judged_group("d", "eeee", lengths=(0, 0, 0, 0)),
]


def test_errors_leave_numerator_and_denominator() -> None:
    result = evaluate_groups(GROUPS, [1, 2])
    # judged and passed: a 4 and 2, b 3 and 0, c 1 and 1, d 0; pass@1 of a, b, c is 2/4, 0/3, 1/1
    assert result.rates["pass@1"] == pytest.approx((1 / 2 + 0 + 1) / 3)
    # pass@2 needs two judged completions: a 1 - C(2,2)/C(4,2) = 5/6, b 0
    assert result.rates["pass@2"] == pytest.approx((5 / 6 + 0) / 2)
    assert result.problems_at == {1: 3, 2: 2}


def test_every_completion_is_counted_once() -> None:
    result = evaluate_groups(GROUPS, [1])
    assert (result.problems, result.completions) == (4, 16)
    assert (result.judged, result.passed, result.errors) == (4 + 3 + 1 + 0, 2 + 0 + 1 + 0, 0 + 1 + 3 + 4)
    assert result.judged + result.errors == result.completions
    assert result.truncated == 1 + 2
    assert result.mean_tokens == pytest.approx((1 + 2 + 3 + 4 + 4 * 5 + 4 * 2 + 0) / 16)
    assert result.reasons == {"checker_crashed": 8, "wrong_answer": 5, "correct": 3}


def test_where_nothing_could_be_judged_there_is_no_rate() -> None:
    result = evaluate_groups([judged_group("a", "ee")], [1, 2])
    assert result.rates == {"pass@1": None, "pass@2": None, "maj@2": None, "pass^2": None}
    assert result.intervals == result.rates
    assert result.problems_at == {1: 0, 2: 0}
    assert evaluate_groups([], [1]).rates == {"pass@1": None}


def test_the_json_form_has_the_rates_as_keys() -> None:
    values = evaluate_groups(GROUPS, [1, 2]).as_json()
    assert list(values)[:2] == ["pass@1", "pass@2"]
    assert values["problems_at"] == {"1": 3, "2": 2}
    assert "rates" not in values


def sample(problem: str, index: int, outcome: str, answer: str | None = None, **more: Any) -> Sample:
    return Sample(
        problem=problem, task="t", sample_index=index, outcome=Outcome(outcome), reason=outcome, answer=answer, **more
    )


VOTES = [
    # two right ones in two spellings against one wrong answer in two layouts, and one silent: 2 votes against 2
    *(sample("a", i, "pass", answer) for i, answer in enumerate(("0.5", r"\frac12"))),
    *(sample("a", 2 + i, "fail", answer) for i, answer in enumerate((r"\dfrac{1}{3}", r"$\frac{1}{3}$"))),
    sample("a", 4, "fail", None),
    # one right against two that differ, and an error that might have voted
    sample("b", 0, "pass", "7"),
    sample("b", 1, "fail", "8"),
    sample("b", 2, "fail", "9"),
    sample("b", 3, "fail", ""),
    sample("b", 4, "error", "8"),
]


def test_right_answers_are_one_answer_and_wrong_ones_are_compared_without_layout() -> None:
    result = evaluate_samples(VOTES, [5])
    # b has four judged completions only
    assert (result.rates["maj@5"], result.problems_at) == (pytest.approx(1 / 2), {5: 1})
    # with the error as one more vote for 8, b loses 1 : 2
    assert result.errors_as_fail["maj@5"] == pytest.approx((1 / 2 + 0) / 2)
    assert evaluate_samples(VOTES, [4]).rates["maj@4"] == pytest.approx(
        # a: of the five quadruples without one completion: without the silent one 2 : 2, without a right one 1 : 2
        # (twice), without a wrong one 2 : 1 (twice); b: 1 : 1 : 1
        ((1 / 2 + 0 + 0 + 1 + 1) / 5 + 1 / 3) / 2
    )


def test_errors_as_failures_are_counted_apart() -> None:
    result = evaluate_groups(GROUPS, [1, 2])
    # a 2 of 4, b 0 of 4, c 1 of 4, d 0 of 4
    assert result.errors_as_fail["pass@1"] == pytest.approx((2 / 4 + 0 + 1 / 4 + 0) / 4)
    assert result.errors_as_fail["pass^2"] == pytest.approx((1 / 6 + 0 + 0 + 0) / 4)
    clean = evaluate_groups(GROUPS[:1], [1, 2])
    assert clean.errors_as_fail == clean.rates


def test_without_extracted_answers_there_is_no_vote() -> None:
    samples = [sample("a", 0, "pass"), sample("a", 1, "fail"), sample("b", 0, "pass", "4"), sample("b", 1, "pass", "4")]
    result = evaluate_samples(samples, [2])
    assert (result.rates["maj@2"], result.intervals["maj@2"]) == (None, None)
    assert result.rates["pass@2"] == 1.0


def test_problems_of_a_family_are_one_in_the_interval() -> None:
    samples = [sample(f"{i}", 0, "pass" if i % 2 else "fail") for i in range(40)]
    together = [replace(one, family=f"{i // 4}") for i, one in enumerate(samples)]
    apart, clustered = evaluate_samples(samples, [1]), evaluate_samples(together, [1])
    assert apart.rates == clustered.rates == {"pass@1": 0.5}
    # ten families that all have 0.5: as if ten trials
    assert clustered.intervals["pass@1"] == pytest.approx((0.187, 0.813), abs=1e-3)
    assert apart.intervals["pass@1"] == pytest.approx((0.34, 0.66), abs=0.03)  # 0.5 +- 2.02 * 0.5 / sqrt(39)


def test_the_order_of_the_samples_does_not_matter() -> None:
    samples = [
        sample(f"{i}", j, "pass" if (i * j) % 3 else "fail", f"{i * j % 5}") for i in range(30) for j in range(8)
    ]
    shuffled = samples[:]
    Random(0).shuffle(shuffled)
    assert evaluate_samples(samples, [1, 3]).as_json() == evaluate_samples(shuffled, [1, 3]).as_json()


def test_lengths_that_nobody_measured_are_not_zeros() -> None:
    assert evaluate_samples([sample("a", 0, "pass")], [1]).mean_tokens is None
    assert evaluate_samples([sample("a", 0, "pass", tokens=8), sample("b", 0, "pass")], [1]).mean_tokens == 8.0
