"""Intervals: do they cover the truth as often as they say, and what they say where little is known."""

import numpy as np
import pytest

from rloo_verify.intervals import bootstrap_means, exact_interval, expanded_percentiles, rate_intervals
from rloo_verify.passk import pass_all_k, pass_at_k

SIMULATIONS = 1000


def coverage(values_P_M: np.ndarray, families: list[str | None], truth: float) -> float:
    """Share of the columns, each a simulated evaluation, whose interval holds the truth."""
    intervals = rate_intervals(values_P_M, families)
    return sum(interval is not None and interval[0] <= truth <= interval[1] for interval in intervals) / len(intervals)


def problems(shape: tuple[int, int], seed: int = 0) -> np.ndarray:
    """True pass rates of problems, most of them hard: Beta(0.3, 0.7), whose mean is 0.3."""
    return np.random.default_rng(seed).beta(0.3, 0.7, size=shape)


def beta_power(k: int) -> tuple[float, float]:
    """E[p^k] and E[(1 - p)^k] of Beta(0.3, 0.7): products of (a + i) / (a + b + i)."""
    return tuple(float(np.prod([(a + i) / (1 + i) for i in range(k)])) for a in (0.3, 0.7))  # type: ignore[return-value]


@pytest.mark.parametrize(("rate", "k"), [("pass@", 1), ("pass@", 4), ("pass@", 8), ("pass@", 16), ("pass^", 4)])
def test_intervals_of_200_problems_with_16_completions_hold_the_truth_in_95_of_100_evaluations(
    rate: str, k: int
) -> None:
    passes = np.random.default_rng(1).binomial(16, problems((200, SIMULATIONS)))
    estimate = pass_at_k if rate == "pass@" else pass_all_k
    values = np.array([estimate(16, c, k) for c in range(17)])[passes]
    all_pass, none_passes = beta_power(k)
    # 1,000 simulations: the standard error of the coverage is 0.7 percent
    assert 0.93 <= coverage(values, [None] * 200, 1 - none_passes if rate == "pass@" else all_pass) <= 0.97


def test_few_problems_are_covered_at_least_as_often_as_promised() -> None:
    for count in (1, 2, 5, 10, 20):
        values = np.random.default_rng(count).binomial(4, problems((count, SIMULATIONS), count)) / 4
        assert coverage(values, [None] * count, 0.3) >= 0.93


def test_variants_of_one_template_are_resampled_together() -> None:
    # 40 templates of 5 variants that share one pass rate: 200 problems that say no more than 40
    rates = np.repeat(problems((40, SIMULATIONS)), 5, axis=0)
    values = np.random.default_rng(2).binomial(4, rates) / 4
    families: list[str | None] = [f"template {i // 5}" for i in range(200)]
    assert 0.93 <= coverage(values, families, 0.3) <= 0.97
    assert coverage(values, [None] * 200, 0.3) < 0.75  # what taking them for independent would promise


@pytest.mark.parametrize(
    ("value", "count", "low", "high"),
    [
        (0.0, 20, 0.0, 1 - 0.025 ** (1 / 20)),  # the largest p at which 20 failures in a row have 2.5 percent
        (1.0, 20, 0.025 ** (1 / 20), 1.0),
        (0.0, 1, 0.0, 0.975),
        (1.0, 1, 0.025, 1.0),
    ],
)
def test_where_all_problems_are_alike_the_interval_still_has_a_width(
    value: float, count: int, low: float, high: float
) -> None:
    (interval,) = rate_intervals(np.full((count, 1), value), [None] * count)
    assert interval == pytest.approx((low, high))


def test_one_problem_with_half_of_its_answers_right_says_next_to_nothing() -> None:
    (interval,) = rate_intervals(np.array([[0.5]]), [None])
    assert interval is not None
    assert interval[0] < 0.01
    assert interval[1] > 0.99


def test_one_family_is_one_trial() -> None:
    (interval,) = rate_intervals(np.zeros((50, 1)), ["same"] * 50)
    assert interval == pytest.approx((0.0, 0.975))


def test_a_problem_without_a_value_is_left_out_and_a_column_without_any_has_no_interval() -> None:
    values = np.column_stack([np.tile([0.0, 1.0], 50), np.full(100, np.nan)])
    values[90:, 0] = np.nan
    some, none = rate_intervals(values, [None] * 100)
    (same,) = rate_intervals(np.tile([0.0, 1.0], 45)[:, None], [None] * 90)
    assert some == pytest.approx(same, abs=0.01)  # resamples of 100 rows hold about 90 values
    assert none is None
    assert rate_intervals(np.zeros((0, 2)), []) == [None, None]


def test_the_resampled_means_have_the_standard_error_of_the_mean() -> None:
    values = np.random.default_rng(0).normal(size=(100, 1))
    means = bootstrap_means(values, [None] * 100)
    assert means.shape == (10_000, 1)
    assert means.std() == pytest.approx(values.std() / 10, rel=0.03)
    assert np.array_equal(means, bootstrap_means(values, [None] * 100))  # the same seed, the same resamples
    assert not np.array_equal(means, bootstrap_means(values, [None] * 100, seed=1))


def test_the_percentiles_widen_where_clusters_are_few() -> None:
    low, high = expanded_percentiles(10_000)
    assert (low, high) == pytest.approx((0.025, 0.975), abs=1e-4)
    # t(0.975, 4) = 2.776; 2.776 * sqrt(5 / 4) = 3.104, above which a normal variable is with probability 0.00095
    assert expanded_percentiles(5)[0] == pytest.approx(0.00095, abs=1e-5)
    with pytest.raises(ValueError, match="two clusters"):
        expanded_percentiles(1)


def test_the_exact_interval_of_a_textbook_example() -> None:
    # 2 of 20: Clopper and Pearson give 1.2 to 31.7 percent
    assert exact_interval(2, 20) == pytest.approx((0.0123, 0.3170), abs=1e-4)
