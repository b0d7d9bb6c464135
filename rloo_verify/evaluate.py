"""Measures pass rates: draws n completions of each problem, judges them, and counts everything."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rloo_verify.passk import pass_at_k
from rloo_verify.types import FinishReason, Group, Outcome


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Pass rates of one policy on one set of problems, with the counts that they rest on.

    Attributes:
        pass_at: Mean over problems of the unbiased pass@k, by k. Problems with fewer than k judged completions are
            left out of that k; None where no problem is left.
        problems: Problems drawn.
        problems_at: Problems that pass@k rests on, by k.
        completions: Completions drawn; `judged + errors`.
        judged: Completions with a PASS or FAIL verdict.
        passed: Completions with a PASS verdict.
        errors: Completions that could not be judged.
        truncated: Completions cut at `max_new_tokens`.
        mean_tokens: Mean length in tokens.
        reasons: Verdict reasons and how often each was given.
    """

    pass_at: dict[int, float | None]
    problems: int
    problems_at: dict[int, int]
    completions: int
    judged: int
    passed: int
    errors: int
    truncated: int
    mean_tokens: float
    reasons: dict[str, int]

    def as_json(self) -> dict[str, Any]:
        """For JSON files: `pass@1` and so on as keys beside the counts."""
        values = asdict(self)
        rates = {f"pass@{k}": rate for k, rate in values.pop("pass_at").items()}
        values["problems_at"] = {str(k): count for k, count in self.problems_at.items()}
        return {**rates, **values}


def evaluate_groups(groups: Sequence[Group], ks: Sequence[int]) -> Evaluation:
    """Pass rates of judged groups.

    Args:
        groups: One group a problem.
        ks: The k of each pass@k.
    """
    counts = []
    for group in groups:
        judged = [reward for reward in group.rewards_G if reward is not None]
        counts.append((len(judged), int(sum(judged))))
    estimates = {k: [pass_at_k(n, c, k) for n, c in counts if n >= k] for k in ks}
    completions = [completion for group in groups for completion in group.completions_G]
    verdicts = [verdict for group in groups for verdict in group.verdicts_G]
    return Evaluation(
        pass_at={k: sum(values) / len(values) if values else None for k, values in estimates.items()},
        problems=len(groups),
        problems_at={k: len(values) for k, values in estimates.items()},
        completions=len(completions),
        judged=sum(n for n, _ in counts),
        passed=sum(c for _, c in counts),
        errors=sum(verdict.outcome is Outcome.ERROR for verdict in verdicts),
        truncated=sum(completion.finish_reason is FinishReason.LENGTH for completion in completions),
        mean_tokens=sum(len(c.token_ids_T) for c in completions) / max(1, len(completions)),
        reasons=dict(Counter(verdict.reason for verdict in verdicts).most_common()),
    )
