"""Statistics of paired differences: the same problems, answered by two policies.

Problems, or families of problems that are not independent, are what is resampled, as in `intervals.py`.
"""

from collections.abc import Sequence

import numpy as np

from rloo_verify.intervals import (
    FEWEST_DIFFERENT,
    LEVEL,
    Floats,
    bootstrap_means,
    cluster_sums,
    exact_interval,
    expanded_percentiles,
)


def difference_intervals(
    differences_P_M: Floats, families: Sequence[str | None], level: float = LEVEL
) -> list[tuple[float, float] | None]:
    """The interval of the mean of each column of paired differences.

    The expanded percentile bootstrap of `intervals.rate_intervals`, over differences: what makes a problem hard for
    both policies cancels. Where fewer than `FEWEST_DIFFERENT` problems (or families) differ from the commonest
    difference, resamples are nearly all the same and say too little. There the mean gain and the mean loss, both in
    [0, 1], get an exact binomial interval each, at half the error (Bonferroni), and the ends are subtracted: rather too
    wide than too narrow. With not one difference in 200 problems that is [-0.022, 0.022], not [0, 0].

    Args:
        differences_P_M: Differences in [-1, 1], a row a problem, a column a rate; NaN where a problem has none.
        families: The family of each problem; None for a problem that stands alone.
        level: Confidence level.

    Returns:
        `(low, high)` of each column; None for a column without any value.
    """
    sums_C_M, counts_C_M = cluster_sums(differences_P_M, families)
    means_B_M = bootstrap_means(differences_P_M, families)
    intervals: list[tuple[float, float] | None] = []
    for m in range(differences_P_M.shape[1]):
        known = counts_C_M[:, m] > 0
        intervals.append(_interval(sums_C_M[known, m], counts_C_M[known, m], means_B_M[:, m], level))
    return intervals


def sign_test(differences_P: Floats, families: Sequence[str | None]) -> float:
    """The p-value of the exact two-sided sign test that gains and losses are equally likely.

    The null hypothesis is two equal policies: each problem passes with the same probability under both, whatever that
    probability is. If both drew equally many completions, swapping the policies then changes nothing, so of the
    problems that differ each is as likely a gain as a loss, and the number of gains is binomial with probability 1/2.
    Families count once each, by the sign of their sum. Without a difference the p-value is 1.

    Args:
        differences_P: Difference of the pass rates of each problem, over equally many completions of both policies.
        families: The family of each problem; None for a problem that stands alone.
    """
    from scipy.stats import binomtest  # not at the top: a second that others save

    sums_C = np.round(cluster_sums(differences_P[:, None], families)[0][:, 0], 9)
    gains, losses = int((sums_C > 0).sum()), int((sums_C < 0).sum())
    return float(binomtest(gains, gains + losses, 0.5).pvalue) if gains + losses else 1.0


def _interval(sums_C: Floats, counts_C: Floats, means_B: Floats, level: float) -> tuple[float, float] | None:
    clusters = len(sums_C)
    if not clusters:
        return None
    _, times = np.unique(np.round(sums_C / counts_C, 9), return_counts=True)
    if clusters - times.max() < FEWEST_DIFFERENT:
        gain, loss = (
            exact_interval(clusters * float(part.sum() / counts_C.sum()), clusters, (1 + level) / 2)
            for part in (np.maximum(sums_C, 0), np.maximum(-sums_C, 0))
        )
        return max(-1.0, gain[0] - loss[1]), min(1.0, gain[1] - loss[0])
    low, high = np.nanquantile(means_B, expanded_percentiles(clusters, level))
    return float(low), float(high)
