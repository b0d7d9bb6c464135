"""The checker `exact`: the final answer is the reference, character by character."""

from collections.abc import Mapping, Sequence
from typing import Any

from rloo_verify.checkers.extract import extract_answer
from rloo_verify.types import Outcome, Verdict


def check(
    completion: str, answer: Any, row: Mapping[str, Any], *, extract: Sequence[str] = ("whole",), case: bool = True
) -> Verdict:
    """Compare the final answer with the reference as text, without surrounding white space.

    Args:
        completion: The text of the completion.
        answer: The reference; `str(answer)` is compared.
        row: Not used.
        extract: Rules of `extract_answer`, tried in order.
        case: Whether `Yes` and `yes` differ.

    Returns:
        PASS `correct`, FAIL `wrong_answer` or `no_answer`.
    """
    del row
    found = extract_answer(completion, extract)
    if found is None:
        return Verdict(Outcome.FAIL, "no_answer", "the completion gives no final answer")
    reference = str(answer).strip()
    same = found == reference if case else found.casefold() == reference.casefold()
    return (
        Verdict(Outcome.PASS, "correct", answer=found) if same else Verdict(Outcome.FAIL, "wrong_answer", answer=found)
    )
