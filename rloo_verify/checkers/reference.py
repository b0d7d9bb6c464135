"""A reference answer, read once and used for every completion of its problem."""

import re
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from rloo_verify.checkers import UnusableReferenceError
from rloo_verify.checkers.answers import read_answer
from rloo_verify.checkers.boxes import reference_box
from rloo_verify.checkers.extract import extract_answer
from rloo_verify.checkers.limits import MAX_RAW_CHARACTERS, TooComplexError, UnreadableError
from rloo_verify.checkers.nodes import Call, Const, Node, Num, Sym, children
from rloo_verify.checkers.normalise import normalise
from rloo_verify.checkers.numbers import Number, read_number
from rloo_verify.checkers.prose import is_sentence
from rloo_verify.checkers.scalars import scalars_equal
from rloo_verify.checkers.symbolic import has_calculus
from rloo_verify.checkers.units import currency

_LETTER = re.compile(r"\(?([A-J])\)?")
_LONGEST_SHOWN = 200
_SHORTEST_SOLUTION = 60
_PROBE = Num(Fraction(1, 7))


@dataclass(frozen=True, slots=True)
class Reference:
    """A reference answer as `check` uses it.

    Attributes:
        text: As normalised.
        number: Where it is one plain number.
        letter: Where it is the letter of a choice.
        currency: Where it names one.
        tree: Where it is in the grammar; otherwise only the same text is known to be right.
        unusable: Why there is no tree.
    """

    text: str
    number: Number | None
    letter: str | None
    currency: str | None
    tree: Node | None
    unusable: str = ""


@lru_cache(maxsize=4096)
def read_reference(answer: str) -> Reference:
    """Read a reference; cached, because the completions of a group share it.

    Raises:
        UnusableReferenceError: It is empty.
    """
    if len(answer) > MAX_RAW_CHARACTERS:
        raise UnusableReferenceError(f"the reference {answer[:_LONGEST_SHOWN]!r}... has {len(answer)} characters")
    text = normalise(reference_box(answer) or _marked(answer) or answer)
    if not text:
        raise UnusableReferenceError(f"the reference {answer[:_LONGEST_SHOWN]!r} is empty")
    choice = _LETTER.fullmatch(text)
    letter = choice and choice.group(1)
    money = currency(answer)
    try:
        number = read_number(text)
        tree = read_answer(text) if number is None else number.tree
        if number is None:
            _measure(tree)
    except (UnreadableError, TooComplexError) as error:
        return Reference(text, None, letter, money, None, str(error))
    return Reference(text, number, letter, money, tree)


def _marked(answer: str) -> str | None:
    """The final answer of a reference that is a whole solution without a box."""
    if len(answer) < _SHORTEST_SOLUTION or not is_sentence(answer):
        return None
    return extract_answer(answer, ("answer_tag", "hashes", "phrase"))


def read_references(answer: Any) -> list[Reference]:
    """Read a reference, or each of a list of references, any of which may be given as the answer.

    Raises:
        UnusableReferenceError: One is empty, or there is none.
    """
    answers = list(answer) if isinstance(answer, list | tuple) else [answer]
    if not answers:
        raise UnusableReferenceError("the list of references is empty")
    return [read_reference("" if one is None else str(one)) for one in answers]


def _measure(tree: Node) -> None:
    """Evaluate every expression in a reference once, so that what is too complex in it is not blamed on an answer."""
    if isinstance(tree, Num | Sym | Const | Call):
        if not has_calculus(tree):
            scalars_equal(tree, _PROBE)
    else:
        for part in children(tree):
            _measure(part)
