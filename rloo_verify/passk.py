"""What k of a problem's n completions say: pass@k (one passes), pass^k (all pass), maj@k (most give a right answer).

Each is the mean over all k-subsets of the n completions, so it is an unbiased estimate of what k fresh ones give.
"""

import functools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

EXACT_UP_TO = 256
"""Most completions of a problem for which maj@k is computed exactly; that takes up to 0.1 s."""

SUBSETS = 10_000
"""Random subsets for maj@k of more completions: the standard error of one problem's estimate is at most 0.005."""


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of pass@k from n judged completions of which c pass: 1 - C(n-c, k) / C(n, k).

    Chen et al., 2021, "Evaluating Large Language Models Trained on Code", eq. 1, as a product that neither overflows
    nor cancels.

    Raises:
        ValueError: unless 0 <= c <= n and 1 <= k <= n.
    """
    _check(n, c, k)
    if k == 1:
        return c / n  # without the rounding of the product
    if n - c < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))


def pass_all_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of pass^k, the probability that k completions all pass: C(c, k) / C(n, k).

    Yao et al., 2024, "tau-bench", section 4, as a product.

    Raises:
        ValueError: unless 0 <= c <= n and 1 <= k <= n.
    """
    _check(n, c, k)
    return math.prod((c - i) / (n - i) for i in range(k)) if c >= k else 0.0


def maj_at_k(c: int, wrong: Sequence[int], silent: int, k: int) -> float:
    """maj@k: the probability that a majority vote among k of the completions gives a right answer.

    Each completion votes for its final answer; one without a final answer votes for nothing. The answer with most
    votes is given, and among equally many votes each is as likely. Without a vote nothing is given, which is wrong.
    The mean over all k-subsets and all ties is exact up to `EXACT_UP_TO` completions; beyond, it is the mean over
    `SUBSETS` random ones, always the same.

    Args:
        c: Completions that pass: all of them vote for the right answer.
        wrong: How many completions gave each of the wrong answers.
        silent: Completions without a final answer.
        k: Completions that vote.

    Raises:
        ValueError: if a count is negative, or k is not between 1 and the number of completions.
    """
    n = c + sum(wrong) + silent
    if min(c, silent, *wrong, 0) < 0:
        raise ValueError(f"maj@k needs counts of at least 0, not {c}, {list(wrong)}, {silent}")
    _check(n, c, k)
    estimate = _maj_exact if n <= EXACT_UP_TO else _maj_sampled
    return estimate(c, tuple(sorted(wrong)), silent, k)


@functools.lru_cache(maxsize=4096)  # problems of one evaluation share few profiles
def _maj_exact(c: int, wrong: tuple[int, ...], silent: int, k: int) -> float:
    """Counts the subsets in which the right answer wins, by its votes j.

    Rivals of fewer than j completions cannot matter and are lumped with the silent ones; the others are gone through
    one by one, counting the ways to take at most j of each by how many tie at j.
    """
    won: Counter[int] = Counter()  # ways to win, by the number of rivals that tie
    for j in range(1, min(c, k) + 1):
        others = silent + sum(size for size in wrong if size < j)
        rivals = Counter({(0, 0): math.comb(c, j)})  # ways, by (rivals that tie, votes of all rivals)
        for size in (size for size in wrong if size >= j):
            rivals = _with_rival(rivals, size, j, k - j)
        for (ties, votes), ways in rivals.items():
            won[ties] += ways * math.comb(others, k - j - votes)
    total = math.comb(c + sum(wrong) + silent, k)
    return math.fsum(ways / ((1 + ties) * total) for ties, ways in won.items())


def _with_rival(ways: Counter[tuple[int, int]], size: int, most: int, room: int) -> Counter[tuple[int, int]]:
    result: Counter[tuple[int, int]] = Counter()
    for (ties, votes), count in ways.items():
        for own in range(min(most, room - votes) + 1):
            result[ties + (own == most), votes + own] += count * math.comb(size, own)
    return result


def _maj_sampled(c: int, wrong: tuple[int, ...], silent: int, k: int) -> float:
    random = np.random.default_rng(0)
    votes = random.multivariate_hypergeometric([silent, c, *wrong], k, size=SUBSETS)[:, 1:]
    most = votes.max(axis=1)
    tied = (votes == most[:, None]).sum(axis=1)
    return float(np.where((votes[:, 0] == most) & (most > 0), 1 / tied, 0.0).mean())


def _check(n: int, c: int, k: int) -> None:
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, not n = {n}, c = {c}, k = {k}")
