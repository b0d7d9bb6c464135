"""The checker `math`: is the final answer mathematically the reference?

    completion --extract_answer--> text --normalise--> text --read_number--> exact fraction
                                                            --parse--> typed expression --equal--> verdict

The fast path needs no sympy. Doubt is FAIL; a reference that cannot be read is ERROR.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from rloo_verify.checkers.extract import DEFAULT_RULES, extract_answer
from rloo_verify.checkers.limits import MAX_CHARACTERS, TooComplexError
from rloo_verify.checkers.normalise import normalise
from rloo_verify.checkers.numbers import Number, read_number
from rloo_verify.types import Outcome, Verdict


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference answer, read once and used for every completion of its problem."""

    text: str
    number: Number | None


def check(completion: str, answer: Any, row: Mapping[str, Any], *, extract: Sequence[str] = DEFAULT_RULES) -> Verdict:
    """Judge whether a completion's final answer equals the reference.

    Args:
        completion: The text of the completion, reasoning included.
        answer: The reference: text (LaTeX or plain) or a number.
        row: Not used.
        extract: Rules of `extract_answer`, tried in order.

    Returns:
        PASS `correct`; FAIL `no_answer`, `wrong_answer` or `too_complex`; ERROR `unusable_reference`.
    """
    del row
    try:
        reference = prepare(answer)
    except TooComplexError as error:
        return Verdict(Outcome.ERROR, "unusable_reference", f"the reference {str(answer)[:80]!r}: {error}")
    found = extract_answer(completion, extract)
    if found is None:
        return Verdict(Outcome.FAIL, "no_answer", "the completion gives no final answer")
    try:
        same = _same(reference, found)
    except TooComplexError as error:
        return Verdict(Outcome.FAIL, "too_complex", str(error), answer=found[:200])
    return (
        Verdict(Outcome.PASS, "correct", answer=found) if same else Verdict(Outcome.FAIL, "wrong_answer", answer=found)
    )


def prepare(answer: Any, **options: Any) -> Reference:
    """Read the reference answer; cached, because the completions of a group share it.

    Args:
        answer: The reference.
        **options: The options of `check`; not used.

    Returns:
        The reference as `check` uses it.

    Raises:
        TooComplexError: The reference is beyond the limits of the checker, or empty.
    """
    del options
    return _prepare(str(answer))


@lru_cache(maxsize=4096)
def _prepare(answer: str) -> Reference:
    if len(answer) > MAX_CHARACTERS:
        raise TooComplexError(f"it is {len(answer)} characters long; the limit is {MAX_CHARACTERS}")
    text = normalise(answer)
    if not text:
        raise TooComplexError("it is empty")
    return Reference(text, read_number(text))


def _same(reference: Reference, found: str) -> bool:
    if len(found) > MAX_CHARACTERS:
        raise TooComplexError(f"a final answer of {len(found)} characters; the limit is {MAX_CHARACTERS}")
    text = normalise(found)
    if text == reference.text:
        return True
    number = read_number(text)
    return number is not None and reference.number is not None and number.value == reference.number.value
