r"""Other spellings of a reference, which must pass, and mutations of it, which must fail: what `tasks check` tries.

A mutation is made only where it surely changes the answer: `1^5` is left alone because `1^6` is the same number.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rloo_verify.checkers.answers import read_answer, split_list
from rloo_verify.checkers.boxes import reference_box
from rloo_verify.checkers.equality import equal
from rloo_verify.checkers.limits import TooComplexError, UnreadableError
from rloo_verify.checkers.nodes import Brackets, Call, Const, Node, Num, Quantity, Relation, Sym, Text, walk
from rloo_verify.checkers.normalise import normalise
from rloo_verify.checkers.numbers import read_number

PROBE = r"\frac{7919}{7907}"
"""An answer that no reference has: whatever cannot be told from it cannot be judged."""

_NOT_FINITE = ("pm", "mp", "apply", "angle", "prime", "sum", "prod", "int", "lim", "deg", "%")
_DIGIT = re.compile(r"\d")
_CHANGES_NOTHING = re.compile(
    r"\d\s*[\^!_]|\^\s*\{?\s*-?\d|_\s*\{?\s*\d|\\(?:binom|log)|1\s*\^|0\s*[*^]|\\cdot\s*0|overline"
)
_PAIR = re.compile(r"[(\[].*[)\]]", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Variant:
    """Another text made from a reference: its kind in a word or two, and whether it must pass."""

    kind: str
    text: str
    equal: bool


def variants(answer: str) -> Iterator[Variant]:
    """The rewritings and the mutations of a reference that make sense for its type."""
    text = normalise(reference_box(answer) or answer)
    yield Variant("probe", PROBE, equal=False)
    try:
        number = read_number(text)
        tree = read_answer(text) if number is None else number.tree
    except (UnreadableError, TooComplexError):
        return
    if tree == read_answer(PROBE):
        return
    yield Variant("layout", _relaid(text), equal=True)
    if number is not None and number.value.denominator == 1 and not number.percent:
        yield Variant("grouped", f"{number.value.numerator:,}.0", equal=True)
    digit = _other_digit(text, tree)
    if digit is not None:
        yield Variant("digit", digit, equal=False)
    if _is_scalar(tree):
        yield Variant("off by one", f"({text}) + 1", equal=False)
        if not (number is not None and number.value == 0):
            yield Variant("sign", f"-({text})", equal=False)
    swapped = _swapped(text, tree)
    if swapped is not None:
        yield Variant("swapped coordinates", swapped, equal=False)


def _relaid(text: str) -> str:
    r"""The same answer in other layout: \dfrac, \left and \right, spaces, a full stop."""
    text = text.replace(r"\frac", r"\dfrac").replace("(", r"\left( ").replace(")", r" \right)")
    return text.replace(",", ", ") + " ." if not re.search(r"\d,\d{3}", text) else text + " ."


def _is_scalar(tree: Node) -> bool:
    """Whether a tree is one finite number or expression, not plus-minus."""
    if not isinstance(tree, Num | Sym | Call) or (isinstance(tree, Call) and tree.name in ("ratio", "time", "date")):
        return False
    strange = Brackets | Relation | Text | Quantity
    return not any(
        isinstance(part, strange) or part == Const("oo") or (isinstance(part, Call) and part.name in _NOT_FINITE)
        for part in walk(tree)
    )


def _other_digit(text: str, tree: Node) -> str | None:
    """The text with its last digit changed, which changes the value; None where it may not."""
    if not isinstance(tree, Num) and (_CHANGES_NOTHING.search(text) or re.search(r"[a-zA-Z]", _plain(text))):
        return None
    digits = list(_DIGIT.finditer(text))
    if not digits or any(isinstance(part, Num) and part.value == 0 for part in walk(tree) if part is not tree):
        return None
    at = digits[-1].start()
    return text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :]


def _plain(text: str) -> str:
    return re.sub(r"\\(?:frac|sqrt|pi|text|left|right|infty)(?![a-zA-Z])|\\begin\{\w+\}|\\end\{\w+\}", " ", text)


def _swapped(text: str, tree: Node) -> str | None:
    """A tuple with its first two entries exchanged; None where there are none, or they are equal."""
    if not isinstance(tree, Brackets) or tree.opening not in ("(", "[") or not _PAIR.fullmatch(text):
        return None
    entries = split_list(text[1:-1])
    if len(entries) < 2 or len(entries) != len(tree.items) or equal(tree.items[0], tree.items[1]):
        return None
    return text[0] + ", ".join([entries[1], entries[0], *entries[2:]]) + text[-1]
