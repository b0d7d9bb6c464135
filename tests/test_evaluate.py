"""What an evaluation counts, by hand."""

import pytest
from groups import judged_group

from rloo_verify.evaluate import evaluate_groups

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
