"""pass@k against its definition, by enumeration."""

from itertools import combinations

import pytest

from rloo_verify.passk import pass_at_k


@pytest.mark.parametrize("n", range(1, 9))
def test_the_estimate_is_the_share_of_k_subsets_that_hold_a_pass(n: int) -> None:
    for c in range(n + 1):
        for k in range(1, n + 1):
            subsets = list(combinations([True] * c + [False] * (n - c), k))
            share = sum(any(subset) for subset in subsets) / len(subsets)
            assert pass_at_k(n, c, k) == pytest.approx(share, abs=1e-12)


def test_pass_at_1_is_the_pass_rate_and_the_worked_example_holds() -> None:
    assert pass_at_k(8, 3, 1) == pytest.approx(3 / 8)
    # n = 4, c = 1, k = 2: C(3, 2) / C(4, 2) = 3 / 6 of the pairs hold no pass
    assert pass_at_k(4, 1, 2) == pytest.approx(1 / 2)


def test_large_counts_neither_overflow_nor_cancel() -> None:
    assert pass_at_k(100_000, 1, 50_000) == pytest.approx(0.5)  # one pass is in half of all halves
    assert pass_at_k(10_000, 1, 1) == pytest.approx(1e-4, rel=1e-9)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 0), (4, 2, 5), (0, 0, 1)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    with pytest.raises(ValueError, match=f"n = {n}, c = {c}, k = {k}"):
        pass_at_k(n, c, k)
