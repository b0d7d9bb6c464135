r"""The checker `choice`: the letter of a multiple-choice question: `C`, `(C)`, `\text{C}`, `C. 42`, `(C) text`."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rloo_verify.checkers.extract import DEFAULT_RULES, extract_answer
from rloo_verify.types import Outcome, Verdict

_WRAPPER = re.compile(r"\\(?:text|textbf|textit|mathrm|mathbf|mathsf|rm|bf)\b|[{}$*`]|\\[()\[\],! ]")
_LETTER = re.compile(
    r"\s*(?:option|choice|answer)?\s*(?:[(\[]\s*([A-Ja-j])\s*[)\]]|([A-Ja-j])(?![\w'+*/^=-]))(.*)", re.DOTALL | re.I
)
_ANOTHER = re.compile(r"\b(?:or|and)\b|[,/&]\s*\(?[A-J]\)?(?!\w)|\([A-J]\)", re.IGNORECASE)


def check(completion: str, answer: Any, row: Mapping[str, Any], *, extract: Sequence[str] = DEFAULT_RULES) -> Verdict:
    """Compare the chosen letter, A to J, with the reference letter.

    Args:
        completion: The text of the completion.
        answer: The reference: a letter in any form that `letter` reads.
        row: Not used.
        extract: Rules of `extract_answer`, tried in order.

    Returns:
        PASS `correct`; FAIL `wrong_answer`, or `no_answer` where there is no final answer or it names no single letter;
        ERROR `unusable_reference` where the reference names no letter.
    """
    del row
    reference = letter(str(answer))
    if reference is None:
        return Verdict(
            Outcome.ERROR, "unusable_reference", f"the reference {str(answer)[:80]!r} is no letter from A to J"
        )
    found = extract_answer(completion, extract)
    chosen = None if found is None else letter(found)
    if found is None or chosen is None:
        return Verdict(Outcome.FAIL, "no_answer", "the completion chooses no single letter from A to J", answer=found)
    if chosen == reference:
        return Verdict(Outcome.PASS, "correct", answer=chosen)
    return Verdict(Outcome.FAIL, "wrong_answer", answer=chosen)


def letter(text: str) -> str | None:
    r"""Read the one letter that a final answer chooses.

    Args:
        text: A final answer, for instance `(C) text`, `\text{C}`, `C. 42` or `option c`.

    Returns:
        The letter in upper case, or None where there is none or more than one.
    """
    match = _LETTER.fullmatch(_WRAPPER.sub("", text[:500]))
    if match is None:
        return None
    rest = match.group(3)
    if match.group(2) and rest.strip() and not re.match(r"\s*[.:)]", rest):
        return None  # "A triangle" is not the choice A
    if re.match(r"\s*[+*/^=<>]|\s*-\s*[\d(\\]", rest):
        return None  # (C) + 1 is a sum
    if re.match(r"\s*" + _ANOTHER.pattern, rest, re.IGNORECASE):
        return None
    return (match.group(1) or match.group(2)).upper()
