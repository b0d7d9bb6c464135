"""Earlier verdicts and new ones, side by side."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

from rloo_verify.samples import Sample
from rloo_verify.types import Outcome


@dataclass(frozen=True, slots=True)
class Disagreement:
    """An answer that is judged otherwise than before.

    Attributes:
        problem: Id of its problem.
        sample_index: Its number among the answers to it.
        line: Where it stands in the file.
        old: The earlier verdict.
        new: The verdict now.
        reason: The new verdict's word.
        detail: The new verdict's sentence.
        answer: The final answer as extracted now.
        reference: What it was compared with.
    """

    problem: str
    sample_index: int
    line: int
    old: Outcome
    new: Outcome
    reason: str
    detail: str
    answer: str | None
    reference: Any


@dataclass(frozen=True, slots=True)
class Agreement:
    """How earlier verdicts and new ones agree.

    Attributes:
        labelled: Answers that had a verdict.
        agree: Those judged as before.
        counts: How many answers of each earlier outcome (outer key) have each new one (inner key).
        disagreements: The others, in the order of the file.
    """

    labelled: int
    agree: int
    counts: dict[str, dict[str, int]]
    disagreements: list[Disagreement]

    def as_json(self) -> dict[str, Any]:
        """For agreement.json."""
        return asdict(self)


def agreement(judged: Iterable[tuple[int, Outcome | None, Sample]]) -> Agreement | None:
    """Puts verdicts side by side.

    Args:
        judged: Line, earlier verdict and sample of each answer.

    Returns:
        None where no answer had a verdict.
    """
    pairs = [(line, old, sample) for line, old, sample in judged if old is not None]
    if not pairs:
        return None
    counts = Counter((old, sample.outcome) for _, old, sample in pairs)
    disagreements = [
        Disagreement(
            problem=sample.problem,
            sample_index=sample.sample_index,
            line=line,
            old=old,
            new=sample.outcome,
            reason=sample.reason,
            detail=sample.detail,
            answer=sample.answer,
            reference=sample.reference,
        )
        for line, old, sample in pairs
        if old is not sample.outcome
    ]
    return Agreement(
        labelled=len(pairs),
        agree=len(pairs) - len(disagreements),
        counts={str(old): {str(new): counts[old, new] for new in Outcome} for old in Outcome},
        disagreements=disagreements,
    )
