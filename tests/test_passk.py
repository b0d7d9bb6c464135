"""pass@k, pass^k and maj@k against their definitions, by enumeration."""

from collections import Counter
from collections.abc import Iterator
from itertools import combinations

import pytest

from rloo_verify import passk
from rloo_verify.passk import maj_at_k, pass_all_k, pass_at_k


def subsets(n: int, c: int, k: int) -> list[tuple[bool, ...]]:
    """Every choice of k among n completions of which c pass."""
    return list(combinations([True] * c + [False] * (n - c), k))


@pytest.mark.parametrize("n", range(1, 9))
def test_the_estimate_is_the_share_of_k_subsets_that_hold_a_pass(n: int) -> None:
    for c in range(n + 1):
        for k in range(1, n + 1):
            share = sum(any(subset) for subset in subsets(n, c, k)) / len(subsets(n, c, k))
            assert pass_at_k(n, c, k) == pytest.approx(share, abs=1e-12)


@pytest.mark.parametrize("n", range(1, 9))
def test_pass_hat_k_is_the_share_of_k_subsets_that_hold_nothing_else(n: int) -> None:
    for c in range(n + 1):
        for k in range(1, n + 1):
            share = sum(all(subset) for subset in subsets(n, c, k)) / len(subsets(n, c, k))
            assert pass_all_k(n, c, k) == pytest.approx(share, abs=1e-12)


def test_pass_at_1_is_the_pass_rate_and_the_worked_example_holds() -> None:
    assert pass_at_k(8, 3, 1) == pass_all_k(8, 3, 1) == maj_at_k(3, [2, 2], 1, 1) == 3 / 8
    # n = 4, c = 1, k = 2: C(3, 2) / C(4, 2) = 3 / 6 of the pairs hold no pass
    assert pass_at_k(4, 1, 2) == pytest.approx(1 / 2)
    assert pass_all_k(4, 3, 2) == pytest.approx(3 / 6)  # C(3, 2) / C(4, 2)


def test_large_counts_neither_overflow_nor_cancel() -> None:
    assert pass_at_k(100_000, 1, 50_000) == pytest.approx(0.5)  # one pass is in half of all halves
    assert pass_at_k(10_000, 1, 1) == pytest.approx(1e-4, rel=1e-9)
    assert pass_all_k(100_000, 99_999, 50_000) == pytest.approx(0.5)


@pytest.mark.parametrize(("n", "c", "k"), [(4, 5, 1), (4, -1, 1), (4, 2, 0), (4, 2, 5), (0, 0, 1)])
def test_impossible_counts_are_refused(n: int, c: int, k: int) -> None:
    for estimate in (pass_at_k, pass_all_k):
        with pytest.raises(ValueError, match=f"n = {n}, c = {c}, k = {k}"):
            estimate(n, c, k)
    with pytest.raises(ValueError, match=f"maj@k needs counts of at least 0|n = {n}, c = {c}, k = {k}"):
        maj_at_k(c, [n - c], 0, k)


def vote(answers: tuple[str, ...]) -> float:
    """The probability that a majority vote gives `right`; an empty answer is no vote."""
    votes = Counter(filter(None, answers))
    best = [answer for answer, count in votes.items() if count == max(votes.values())]
    return ("right" in best) / max(1, len(best))


def partitions(total: int, largest: int) -> Iterator[list[int]]:
    """Every way to write `total` as a sum, in falling order."""
    if total == 0:
        yield []
    for part in range(min(total, largest), 0, -1):
        yield from ([part, *rest] for rest in partitions(total - part, part))


@pytest.mark.parametrize("n", range(1, 8))
def test_maj_at_k_is_the_mean_vote_over_all_subsets_and_ties(n: int) -> None:
    for c in range(n + 1):
        for silent in range(n - c + 1):
            for wrong in partitions(n - c - silent, n):
                names = ["right"] * c + [""] * silent
                names += [f"wrong {i}" for i, size in enumerate(wrong) for _ in range(size)]
                for k in range(1, n + 1):
                    votes = [vote(subset) for subset in combinations(names, k)]
                    expected = sum(votes) / len(votes)
                    assert maj_at_k(c, wrong, silent, k) == pytest.approx(expected, abs=1e-12)


def test_a_majority_vote_by_hand() -> None:
    # all five vote: two right ones against 1 + 1 + 1
    assert maj_at_k(2, [1, 1, 1], 0, 5) == 1.0
    # right, right, x, x: of 6 pairs one is right, four are ties of one against one, one is wrong: (1 + 4 / 2) / 6
    assert maj_at_k(2, [2], 0, 2) == pytest.approx(0.5)
    assert maj_at_k(0, [], 3, 2) == 0.0  # nobody votes


def test_many_completions_are_voted_on_by_random_subsets(monkeypatch: pytest.MonkeyPatch) -> None:
    profile = (90, [70, 40, 20, 5], 25, 30)
    exact = maj_at_k(*profile)
    monkeypatch.setattr(passk, "EXACT_UP_TO", 10)
    sampled = maj_at_k(*profile)
    assert sampled != exact
    assert sampled == pytest.approx(exact, abs=0.02)  # four standard errors of 10,000 subsets
    assert maj_at_k(0, [3], 300, 50) == 0.0
    assert maj_at_k(*profile) == sampled  # always the same subsets
