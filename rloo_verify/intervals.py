"""How certain a mean over problems is: 95% intervals by the bootstrap, and exact ones where it cannot say anything.

Problems, not completions, are what is resampled: the question is what other problems of the same kind would give.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

LEVEL = 0.95
RESAMPLES = 10_000
FEWEST_DIFFERENT = 10
"""With fewer clusters than this that differ from the commonest value, the bootstrap's interval is too narrow."""

_CHUNK = 4_000_000
"""Resampling counts held in memory at a time."""


def rate_intervals(values_P_M: Floats, families: Sequence[str | None]) -> list[tuple[float, float] | None]:
    """The 95% interval of the mean of each column of rates.

    The interval is the expanded percentile bootstrap (Hesterberg, 2015, "What Teachers Should Know About the
    Bootstrap", section 3.5: the percentiles are those that a t distribution asks for, which mends the narrowness with
    few problems). Problems are resampled, or whole families of them.

    Where fewer than `FEWEST_DIFFERENT` problems (or families) differ from the commonest value, or all rates (or all
    failure rates) together are less than one whole problem, resamples are nearly all the same, and the bootstrap's
    interval is far too narrow, or has no width at all: nothing passed, everything passed, one problem. There the exact
    binomial interval (Clopper and Pearson, 1934) is given, with as many trials as there are problems (families). A rate
    in [0, 1] varies at most as much as a 0/1 outcome with the same mean, so that interval is rather too wide than too
    narrow: 0 of 20 problems gives [0, 0.168], one problem says next to nothing.

    Args:
        values_P_M: Rates in [0, 1], a row a problem, a column a rate; NaN where a problem has none.
        families: The family of each problem; None for a problem that stands alone.

    Returns:
        `(low, high)` of each column; None for a column without any value.
    """
    sums_C_M, counts_C_M = cluster_sums(values_P_M, families)
    means_B_M = _resampled(sums_C_M, counts_C_M, RESAMPLES, 0)
    return [_interval(sums_C_M[:, m], counts_C_M[:, m], means_B_M[:, m]) for m in range(values_P_M.shape[1])]


def bootstrap_means(
    values_P_M: Floats, families: Sequence[str | None], *, resamples: int = RESAMPLES, seed: int = 0
) -> Floats:
    """Means of the columns over resampled problems, or resampled families of problems.

    Args:
        values_P_M: Any numbers, a row a problem; NaN where a problem has none.
        families: The family of each problem; None for a problem that stands alone.
        resamples: How often all problems are drawn again, with replacement (B).
        seed: Seed of the drawing; the same resamples serve all columns.

    Returns:
        The means, `[B, M]`; NaN where a resample holds no value of a column.
    """
    return _resampled(*cluster_sums(values_P_M, families), resamples, seed)


def expanded_percentiles(clusters: int, level: float = LEVEL) -> tuple[float, float]:
    """The two percentiles, in 0 to 1, that bound the expanded percentile interval of a mean over `clusters`.

    Raises:
        ValueError: with fewer than two clusters, which say nothing of the spread.
    """
    from scipy.special import ndtr, stdtrit  # not at the top: half a second that training without evaluation saves

    if clusters < 2:
        raise ValueError("a spread needs at least two clusters")
    t = float(stdtrit(clusters - 1, (1 + level) / 2))
    tail = float(ndtr(-t * np.sqrt(clusters / (clusters - 1))))
    return tail, 1 - tail


def exact_interval(passes: float, trials: int, level: float = LEVEL) -> tuple[float, float]:
    """The Clopper-Pearson interval of a probability.

    Args:
        passes: Successes; between whole numbers the interval moves continuously (quantiles of beta distributions).
        trials: Trials, at least 1.
        level: Confidence level.
    """
    from scipy.special import betaincinv

    tail = (1 - level) / 2
    low = 0.0 if passes <= 0 else float(betaincinv(passes, trials - passes + 1, tail))
    high = 1.0 if passes >= trials else float(betaincinv(passes + 1, trials - passes, 1 - tail))
    return low, high


def cluster_sums(values_P_M: Floats, families: Sequence[str | None]) -> tuple[Floats, Floats]:
    """Sums and counts of the values of each cluster: a family, or a problem that stands alone; both `[C, M]`."""
    names = [("alone", i) if family is None else ("family", family) for i, family in enumerate(families)]
    places = {name: place for place, name in enumerate(dict.fromkeys(names))}
    owner_P = np.array([places[name] for name in names], dtype=np.intp)
    known_P_M = ~np.isnan(values_P_M)
    sums_C_M = np.zeros((len(places), values_P_M.shape[1]))
    counts_C_M = np.zeros_like(sums_C_M)
    np.add.at(sums_C_M, owner_P, np.where(known_P_M, values_P_M, 0.0))
    np.add.at(counts_C_M, owner_P, known_P_M.astype(np.float64))
    return sums_C_M, counts_C_M


def _resampled(sums_C_M: Floats, counts_C_M: Floats, resamples: int, seed: int) -> Floats:
    clusters = len(sums_C_M)
    if not clusters:
        return np.full((resamples, sums_C_M.shape[1]), np.nan)
    random = np.random.default_rng(seed)
    parts = []
    at_a_time = max(1, _CHUNK // clusters)
    for start in range(0, resamples, at_a_time):
        rows = min(at_a_time, resamples - start)
        drawn = random.integers(clusters, size=(rows, clusters)) + clusters * np.arange(rows)[:, None]
        times_B_C = np.bincount(drawn.ravel(), minlength=rows * clusters).reshape(rows, clusters).astype(np.float64)
        with np.errstate(invalid="ignore"):  # 0 / 0 is NaN, as it should be
            parts.append((times_B_C @ sums_C_M) / (times_B_C @ counts_C_M))
    return np.concatenate(parts)


def _interval(sums_C: Floats, counts_C: Floats, means_B: Floats) -> tuple[float, float] | None:
    sums_C, counts_C = sums_C[counts_C > 0], counts_C[counts_C > 0]
    clusters = len(counts_C)
    if not clusters:
        return None
    _, times = np.unique(np.round(sums_C / counts_C, 9), return_counts=True)
    passes = clusters * float(sums_C.sum() / counts_C.sum())
    if clusters - times.max() < FEWEST_DIFFERENT or min(passes, clusters - passes) < 1:
        return exact_interval(passes, clusters)
    low, high = np.nanquantile(means_B, expanded_percentiles(clusters))
    return float(low), float(high)
