"""Pass rates of judged completions: the estimates, how certain they are, and the counts that they rest on."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from rloo_verify.checkers.normalise import normalise
from rloo_verify.intervals import rate_intervals
from rloo_verify.passk import maj_at_k, pass_all_k, pass_at_k
from rloo_verify.samples import Sample, group_samples
from rloo_verify.types import Group, Outcome

Rates = Mapping[str, float | None]
"""A value by name, `pass@1`, `maj@4`, `pass^4`; None where it cannot be estimated."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Pass rates of one policy on one set of problems, with the counts that they rest on.

    Attributes:
        rates: Means over problems of the unbiased estimates. Problems with fewer than k judged completions are left
            out of that k; None where no problem is left. `maj@k` is None, too, where passing completions have no
            extracted answer, so that there is nothing to vote for. With k = 1, `maj@1` and `pass^1` are `pass@1`.
        intervals: The 95% interval of each rate over problems (`intervals.rate_intervals`); None as the rates.
        problems: Problems drawn.
        problems_at: Problems that the rates of each k rest on.
        errors_as_fail: The same rates with every ERROR counted as a FAIL; equal to `rates` where there are none.
        completions: Completions drawn; `judged + errors`.
        judged: Completions with a PASS or FAIL verdict.
        passed: Completions with a PASS verdict.
        errors: Completions that could not be judged, or could not be drawn.
        truncated: Completions cut at `max_new_tokens`.
        mean_tokens: Mean length in tokens of the completions whose length is known; None where none is.
        reasons: Verdict reasons and how often each was given.
    """

    rates: dict[str, float | None]
    intervals: dict[str, tuple[float, float] | None]
    problems_at: dict[int, int]
    errors_as_fail: dict[str, float | None]
    problems: int
    completions: int
    judged: int
    passed: int
    errors: int
    truncated: int
    mean_tokens: float | None
    reasons: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """For JSON files: `pass@1` and so on as keys beside the counts."""
        values = asdict(self)
        rates = values.pop("rates")
        values["problems_at"] = {str(k): count for k, count in self.problems_at.items()}
        return {**rates, **values}


@dataclass(frozen=True, slots=True)
class ProblemRates:
    """The estimates of one problem; None where fewer than k of its completions were judged."""

    problem: str
    family: str | None
    rates: Rates


def rate_names(ks: Sequence[int]) -> list[str]:
    """The names of the rates of an evaluation, in the order in which they are shown."""
    more = [k for k in ks if k > 1]
    return [*(f"pass@{k}" for k in ks), *(f"maj@{k}" for k in more), *(f"pass^{k}" for k in more)]


def evaluate_samples(samples: Sequence[Sample], ks: Sequence[int]) -> Evaluation:
    """Pass rates of judged completions, whatever order they come in.

    Args:
        samples: Judged completions; those of one problem are one group.
        ks: The k of each pass@k, in the order in which they are shown.
    """
    problems = problem_rates(samples, ks)
    names = rate_names(ks)
    values_P_M = np.array([[problem.rates[name] for name in names] for problem in problems], dtype=np.float64)
    intervals = rate_intervals(values_P_M.reshape(-1, len(names)), [problem.family for problem in problems])
    lengths = [sample.tokens for sample in samples if sample.tokens is not None]
    outcomes = Counter(sample.outcome for sample in samples)
    reasons = Counter(sample.reason for sample in samples)
    rates = _means(problems, names)
    return Evaluation(
        rates=rates,
        intervals=dict(zip(names, intervals, strict=True)),
        problems_at={k: sum(problem.rates[f"pass@{k}"] is not None for problem in problems) for k in ks},
        errors_as_fail=_errors_as_fail(samples, ks) if outcomes[Outcome.ERROR] else rates,
        problems=len(problems),
        completions=len(samples),
        judged=outcomes[Outcome.PASS] + outcomes[Outcome.FAIL],
        passed=outcomes[Outcome.PASS],
        errors=outcomes[Outcome.ERROR],
        truncated=sum(sample.truncated for sample in samples),
        mean_tokens=sum(lengths) / len(lengths) if lengths else None,
        reasons=dict(sorted(reasons.items(), key=lambda item: (-item[1], item[0]))),
    )


def evaluate_groups(groups: Sequence[Group], ks: Sequence[int]) -> Evaluation:
    """Pass rates of judged groups, as the training loop has them."""
    return evaluate_samples(group_samples(groups), ks)


def problem_rates(samples: Sequence[Sample], ks: Sequence[int]) -> list[ProblemRates]:
    """The rates of each problem, in order of the problems' ids."""
    groups: dict[str, list[Sample]] = {}
    for sample in samples:
        groups.setdefault(sample.problem, []).append(sample)
    can_vote = all(_answer(sample) for sample in samples if sample.outcome is Outcome.PASS)
    return [
        ProblemRates(problem, group[0].family, _rates(group, ks, can_vote=can_vote))
        for problem, group in sorted(groups.items())
    ]


def _rates(group: Sequence[Sample], ks: Sequence[int], *, can_vote: bool) -> Rates:
    judged = [sample for sample in group if sample.outcome is not Outcome.ERROR]
    n, c = len(judged), sum(sample.outcome is Outcome.PASS for sample in judged)
    # What passes equals the reference, so it is one answer, however it was spelt. Whether two wrong answers are equal
    # nobody has checked: they are where they are spelt the same without layout.
    answers = [_answer(sample) for sample in judged if sample.outcome is Outcome.FAIL]
    wrong = Counter(answer for answer in answers if answer)
    rates: dict[str, float | None] = dict.fromkeys(rate_names(ks))
    for k in (k for k in ks if k <= n):
        rates[f"pass@{k}"] = pass_at_k(n, c, k)
        if k > 1:
            rates[f"pass^{k}"] = pass_all_k(n, c, k)
            if can_vote:
                rates[f"maj@{k}"] = maj_at_k(c, list(wrong.values()), n - c - wrong.total(), k)
    return rates


def _answer(sample: Sample) -> str:
    return "" if sample.answer is None else normalise(str(sample.answer))


def _means(problems: Sequence[ProblemRates], names: Sequence[str]) -> dict[str, float | None]:
    means: dict[str, float | None] = {}
    for name in names:
        known = [rate for problem in problems if (rate := problem.rates[name]) is not None]
        means[name] = math.fsum(known) / len(known) if known else None
    return means


def _errors_as_fail(samples: Sequence[Sample], ks: Sequence[int]) -> dict[str, float | None]:
    failed = [replace(s, outcome=Outcome.FAIL) if s.outcome is Outcome.ERROR else s for s in samples]
    return _means(problem_rates(failed, ks), rate_names(ks))
