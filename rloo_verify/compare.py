"""Compares two evaluations on the problems that they share: differences, how certain they are, and what flipped."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from rloo_verify.errors import FormatError
from rloo_verify.evaluate import ProblemRates, problem_rates, rate_names
from rloo_verify.paired import difference_intervals, sign_test
from rloo_verify.samples import Sample
from rloo_verify.types import Outcome

Groups = Mapping[str, list[Sample]]
"""The judged samples of each problem, in order of their index."""

MAX_EXAMPLES = 3


@dataclass(frozen=True, slots=True)
class RateDifference:
    """One rate of both, over the common problems for which both have it.

    Attributes:
        a: The rate of the first; None where no problem has it.
        b: The rate of the second.
        difference: b - a.
        low: Lower end of the 95% interval of the difference.
        high: Upper end.
        p_value: Of the exact sign test (pass@1 only).
        problems: How many problems it rests on.
    """

    a: float | None
    b: float | None
    difference: float | None
    low: float | None
    high: float | None
    p_value: float | None
    problems: int


@dataclass(frozen=True, slots=True)
class Flip:
    """A problem with different pass rates, over equally many completions of both."""

    problem: str
    a: float
    b: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two evaluations side by side, the second against the first.

    Attributes:
        a: Name of the first.
        b: Name of the second.
        problems: Problems that both have.
        only_a: Problems that the first alone has.
        only_b: Problems that the second alone has.
        rates: Differences by the name of the rate.
        flips: Problems that are passed more or less often, the largest difference first.
        unchanged: Problems with equal pass rates.
        unjudged: Common problems that one of them has no verdict for.
        sign_test_n: The most completions of a problem that gains, losses and the sign test rest on.
        warnings: What makes the two less comparable, a sentence each.
    """

    a: str
    b: str
    problems: int
    only_a: int
    only_b: int
    rates: dict[str, RateDifference]
    flips: list[Flip]
    unchanged: int
    unjudged: int
    sign_test_n: int
    warnings: list[str]

    @property
    def gained(self) -> list[str]:
        """Problems that the second passes more often."""
        return [flip.problem for flip in self.flips if flip.b > flip.a]

    @property
    def lost(self) -> list[str]:
        """Problems that the second passes less often."""
        return [flip.problem for flip in self.flips if flip.b < flip.a]

    def as_json(self) -> dict[str, Any]:
        """For compare.json."""
        return {**asdict(self), "gained": self.gained, "lost": self.lost}


def compare_samples(
    a: Sequence[Sample], b: Sequence[Sample], ks: Sequence[int] = (), *, names: tuple[str, str] = ("a", "b")
) -> Comparison:
    """Compares two sets of judged completions.

    Gains, losses and the sign test use equally many completions of both for each problem, the first judged ones. The
    mean of 16 lies strictly between 0 and 1 more often than that of one, and would win or lose for that alone.

    Args:
        a: Samples of the first.
        b: Samples of the second.
        ks: The k of each pass@k; by default 1 and the largest that both allow.
        names: What to call the two.

    Raises:
        FormatError: They have no problem in common, or a k is larger than what any common problem allows.
    """
    groups_a, groups_b = _judged(a), _judged(b)
    common = sorted(groups_a.keys() & groups_b.keys())
    if not common:
        first_a, first_b = (min(groups, default="nothing") for groups in (groups_a, groups_b))
        raise FormatError(
            f"{names[0]} and {names[1]} have no problem in common:"
            f" the first begins with {first_a}, the second with {first_b}"
        )
    sizes = [min(len(groups_a[problem]), len(groups_b[problem])) for problem in common]
    ks = ks or sorted({1, max(*sizes, 1)})
    if max(ks) > max(sizes):
        raise FormatError(f"k = {max(ks)}: no problem has so many judged answers in both; the most is {max(sizes)}")
    rates_a, rates_b = _rates_of(a, common, ks), _rates_of(b, common, ks)
    families = [
        own.family if own.family is not None else other.family for own, other in zip(rates_a, rates_b, strict=True)
    ]
    equal = [
        (_pass_rate(groups_a[problem][:size]), _pass_rate(groups_b[problem][:size])) if size else (np.nan, np.nan)
        for problem, size in zip(common, sizes, strict=True)
    ]
    flips = [Flip(problem, *pair) for problem, pair in zip(common, equal, strict=True) if abs(pair[1] - pair[0]) > 0]
    return Comparison(
        a=names[0],
        b=names[1],
        problems=len(common),
        only_a=len(groups_a) - len(common),
        only_b=len(groups_b) - len(common),
        rates=_differences(rates_a, rates_b, families, ks, sign_test(np.array([y - x for x, y in equal]), families)),
        flips=sorted(flips, key=lambda flip: (-abs(flip.b - flip.a), flip.problem)),
        unchanged=sum(x == y for x, y in equal),
        unjudged=sizes.count(0),
        sign_test_n=max(sizes),
        warnings=_warnings(groups_a, groups_b, common),
    )


def _judged(samples: Sequence[Sample]) -> Groups:
    groups: dict[str, list[Sample]] = {}
    for sample in sorted(samples, key=lambda sample: sample.sample_index):
        group = groups.setdefault(sample.problem, [])
        if sample.outcome is not Outcome.ERROR:
            group.append(sample)
    return groups


def _pass_rate(samples: Sequence[Sample]) -> float:
    return sum(sample.outcome is Outcome.PASS for sample in samples) / len(samples)


def _rates_of(samples: Sequence[Sample], common: Sequence[str], ks: Sequence[int]) -> list[ProblemRates]:
    wanted = set(common)
    return problem_rates([sample for sample in samples if sample.problem in wanted], ks)


def _differences(
    a: Sequence[ProblemRates],
    b: Sequence[ProblemRates],
    families: Sequence[str | None],
    ks: Sequence[int],
    p_value: float,
) -> dict[str, RateDifference]:
    names = rate_names(ks)
    a_P_M, b_P_M = (
        np.array([[one.rates[name] for name in names] for one in side], dtype=np.float64) for side in (a, b)
    )
    differences_P_M = b_P_M - a_P_M
    found: dict[str, RateDifference] = {}
    for m, (name, interval) in enumerate(zip(names, difference_intervals(differences_P_M, families), strict=True)):
        known = ~np.isnan(differences_P_M[:, m])
        if interval is None:
            found[name] = RateDifference(None, None, None, None, None, None, 0)
            continue
        rate_a, rate_b = float(a_P_M[known, m].mean()), float(b_P_M[known, m].mean())
        p = p_value if name == "pass@1" else None
        found[name] = RateDifference(rate_a, rate_b, rate_b - rate_a, *interval, p, int(known.sum()))
    return found


def _warnings(a: Groups, b: Groups, common: Sequence[str]) -> list[str]:
    """What is different about the problems or about how many answers they have."""
    warnings = []
    only_a, only_b = len(a) - len(common), len(b) - len(common)
    if only_a or only_b:
        warnings.append(
            f"the problem sets differ: {only_a} only in the first, {only_b} only in the second; both are left out"
        )
    pairs = [(problem, a[problem][0], b[problem][0]) for problem in common if a[problem] and b[problem]]
    for what in ("task", "reference", "prompt"):
        differ = [problem for problem, x, y in pairs if _differ(getattr(x, what), getattr(y, what))]
        if differ:
            examples = ", ".join(differ[:MAX_EXAMPLES]) + (", ..." if len(differ) > MAX_EXAMPLES else "")
            warnings.append(f"{len(differ)} of {len(common)} common problems differ in their {what}: {examples}")
    uneven = sum(len(a[problem]) != len(b[problem]) for problem in common)
    if uneven:
        warnings.append(
            f"{uneven} of {len(common)} common problems have unequally many judged answers; gains, losses and the sign"
            " test use equally many of both"
        )
    return warnings


def _differ(x: Any, y: Any) -> bool:
    return x is not None and y is not None and x != y
