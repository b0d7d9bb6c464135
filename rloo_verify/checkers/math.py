"""The checker `math`: is the final answer mathematically the reference?

    completion --extract_answer--> text --normalise--> plain text --read_number--> exact fraction
                                                       plain text --read_answer--> tree --equal--> verdict

The fast path covers plain numbers and equal spellings, and imports nothing heavy. No text is ever evaluated as code:
the grammar is our own (`parser.py`), and the size of every computation is bounded before it is done (`limits.py`).
Doubt is FAIL; a reference that cannot be used is ERROR.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from rloo_verify.checkers import UnusableReferenceError
from rloo_verify.checkers.answers import read_answer
from rloo_verify.checkers.choice import letter as chosen_letter
from rloo_verify.checkers.equality import equal
from rloo_verify.checkers.extract import DEFAULT_RULES, extract_answer, last_box
from rloo_verify.checkers.limits import MAX_CHARACTERS, TooComplexError, UnreadableError
from rloo_verify.checkers.nodes import Call, Const, Node, Num, Sym, children
from rloo_verify.checkers.normalise import normalise
from rloo_verify.checkers.numbers import Number, read_number
from rloo_verify.checkers.scalars import scalars_equal
from rloo_verify.types import Outcome, Verdict

_LETTER = re.compile(r"\(?([A-J])\)?")
_LONGEST_SHOWN = 200
_PROBE = Num(Fraction(1, 7))


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference answer, read once and used for every completion of its problem.

    Attributes:
        text: As normalised.
        number: Where it is one plain number.
        letter: Where it is the letter of a choice.
        tree: Where it is in the grammar; otherwise only the same text is known to be right.
        unusable: Why there is no tree.
    """

    text: str
    number: Number | None
    letter: str | None
    tree: Node | None
    unusable: str = ""


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
    except UnusableReferenceError as error:
        return Verdict(Outcome.ERROR, "unusable_reference", str(error))
    found = extract_answer(completion, extract)
    if found is None:
        return Verdict(Outcome.FAIL, "no_answer", "the completion gives no final answer")
    shown = found[:_LONGEST_SHOWN]
    try:
        return judge(reference, found, shown)
    except TooComplexError as error:
        return Verdict(Outcome.FAIL, "too_complex", str(error), shown)
    except UnreadableError as error:
        return Verdict(Outcome.FAIL, "wrong_answer", f"the answer cannot be read: {error}", shown)


def prepare(answer: Any, **options: Any) -> Reference:
    """Read the reference answer; cached, because the completions of a group share it.

    Args:
        answer: The reference.
        **options: The options of `check`; not used.

    Returns:
        The reference as `check` uses it.

    Raises:
        UnusableReferenceError: It is empty.
    """
    del options
    return _prepare("" if answer is None else str(answer))


def warm_up() -> None:
    """Import mpmath, which takes a tenth of a second, before the first answer is judged."""
    check(r"\boxed{\sqrt{8}}", r"2\sqrt{2}", {})


def judge(reference: Reference, found: str, shown: str) -> Verdict:
    """Compare a final answer with the reference, the cheapest way that decides.

    Raises:
        TooComplexError: The answer is beyond the limits.
        UnreadableError: It is not in the grammar.
    """
    text = normalise(found)
    if text == reference.text:
        return Verdict(Outcome.PASS, "correct", "the same text", shown)
    if len(text) > MAX_CHARACTERS:
        raise TooComplexError(f"a final answer of {len(text)} characters; the limit is {MAX_CHARACTERS}")
    if not text:
        return Verdict(Outcome.FAIL, "no_answer", "the final answer is empty", shown)
    if reference.letter is not None and chosen_letter(text) == reference.letter:
        return Verdict(Outcome.PASS, "correct", "the same choice", shown)
    number = read_number(text)
    if number is not None and reference.number is not None and number.value == reference.number.value:
        return Verdict(Outcome.PASS, "correct", "the same number", shown)
    if reference.tree is None:
        said = f"the reference {reference.text[:_LONGEST_SHOWN]!r} cannot be judged against: {reference.unusable}"
        return Verdict(Outcome.ERROR, "unusable_reference", said, shown)
    if equal(reference.tree, read_answer(text) if number is None else number.tree):
        return Verdict(Outcome.PASS, "correct", "an equal expression", shown)
    return Verdict(Outcome.FAIL, "wrong_answer", "", shown)


@lru_cache(maxsize=4096)
def _prepare(answer: str) -> Reference:
    shown = repr(answer[:_LONGEST_SHOWN])
    text = normalise(last_box(answer) or answer)
    if not text:
        raise UnusableReferenceError(f"the reference {shown} is empty")
    choice = _LETTER.fullmatch(text)
    letter = choice and choice.group(1)
    try:
        number = read_number(text)
        tree = read_answer(text) if number is None else number.tree
        if number is None:
            _measure(tree)
    except (UnreadableError, TooComplexError) as error:
        return Reference(text, None, letter, None, str(error))
    return Reference(text, number, letter, tree)


def _measure(tree: Node) -> None:
    """Evaluate every expression in a reference once, so that what is too complex in it is not blamed on an answer."""
    if isinstance(tree, Num | Sym | Const | Call):
        scalars_equal(tree, _PROBE)
    else:
        for part in children(tree):
            _measure(part)


check.prepare = prepare  # type: ignore[attr-defined]
check.warm_up = warm_up  # type: ignore[attr-defined]
