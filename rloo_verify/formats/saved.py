"""One saved answer, in the words that every format is translated into."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rloo_verify.types import Outcome

PASS_ABOVE = 0.5
"""A score above this is a pass: scores are 0 or 1, -1 or 1, or 1 less a penalty."""

_WORDS = {
    **dict.fromkeys(("pass", "passed", "correct", "right", "true", "yes", "1"), Outcome.PASS),
    **dict.fromkeys(("fail", "failed", "incorrect", "wrong", "false", "no", "0", "timeout"), Outcome.FAIL),
    "error": Outcome.ERROR,
}


@dataclass(frozen=True, slots=True)
class SavedAnswer:
    """An answer as a file has it; None where the file does not say.

    Attributes:
        line: Where it stands in the file, from 1.
        text: The answer; None only for our own samples that could not be drawn.
        raw: The whole line, for `--by` and `--label`.
        task: Name of its task.
        problem: Id of its problem, in the words of the file.
        prompt: What the model saw, or the question.
        row: A row of the data set that the line carries along.
        reference: The reference answer.
        extracted: Whether the reference is what a checker takes; else the task's gold extractor reads it.
        label: An earlier verdict.
        model: Who wrote it, where a line has the answers of several.
        family: Its problem's family.
        sample_index: Its number among the answers to its problem.
        position: Its place where the line has several answers; picks the label from a list of labels.
        tokens: Its length.
        finish_reason: Why it ended.
        variant: Lines that differ in this alone repeat one answer (lm-eval's filters).
    """

    line: int
    text: str | None
    raw: Mapping[str, Any]
    task: str | None = None
    problem: str | None = None
    prompt: str | None = None
    row: Mapping[str, Any] | None = None
    reference: Any = None
    extracted: bool = True
    label: Outcome | None = None
    model: str | None = None
    family: str | None = None
    sample_index: int | None = None
    position: int = 0
    tokens: int | None = None
    finish_reason: str | None = None
    variant: str | None = None


def outcome_of(value: Any) -> Outcome | None:
    """An earlier verdict: a bool, a score (above `PASS_ABOVE` is a pass) or a word; None for null.

    Raises:
        ValueError: It is none of these.
    """
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        return Outcome.PASS if value > PASS_ABOVE else Outcome.FAIL
    word = _WORDS.get(value.strip().lower()) if isinstance(value, str) else None
    if word is None:
        raise ValueError(f"{value!r} is no verdict: use true or false, a score, pass, fail or error")
    return word


def text_of(value: Any, name: str) -> str:
    """The value, which must be text.

    Raises:
        ValueError: It is not.
    """
    if not isinstance(value, str):
        raise ValueError(f"`{name}` is {'null' if value is None else type(value).__name__}, not text")  # noqa: TRY004 (bad data, not a bad call)
    return value
