r"""A whole final answer -> one tree: splits lists, takes units and words apart, and leaves formulas to the parser.

1, 2 \text{ and } 3      a bare list of three numbers
12\text{ cm}^2           a quantity
x = 1 \text{ or } x = 2  a bare list of two relations
Quadrant I, \text{east}  text
"""

import re

from rloo_verify.checkers.lexer import FUNCTIONS
from rloo_verify.checkers.limits import MAX_ITEMS, TooComplexError
from rloo_verify.checkers.nodes import Brackets, Node, Quantity, Text
from rloo_verify.checkers.normalise import unwrapped
from rloo_verify.checkers.parser import parse

_AND = re.compile(
    r"\s*(?:\\(?:text|mathrm|mbox|textbf)\s*\{\s*,?\s*(?:and|or|,)\s*\}|\b(?:and|or)\b)\s*", re.IGNORECASE
)
_AND_BETWEEN_DIGITS = re.compile(r"(?<=[\d)])(?:and|or)(?=[\d(a-z\\])|(?<=\d)(?:and|or)(?=\w)")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+(?!\d)")
_WORDS = (
    r"(?:\\(?:text|mathrm|mbox|textbf|textit|textnormal|operatorname)\s*\{(?!\s*[ei]\s*\})[^{}]*\}"
    r"|(?<!\\)\b[^\W\d_]{2,}\b)"
)
_UNIT_PART = rf"(?:{_WORDS}|(?<=[\d\s}}])(?:[kcm]m|kg|ft|in)\b|(?<=[\s}}])[mgslLhN]\b)(?:\s*\^\s*(?:-?\d|\{{-?\d\}}))?"
_UNIT = re.compile(
    rf"\s*(?:\\frac\s*\{{\s*{_WORDS}\s*\}}\s*\{{\s*{_WORDS}\s*\}}|\^\\circ\s*(?:{_WORDS}|[CFK]\b)"
    rf"|{_UNIT_PART}(?:(?:[\s/*.-]+|(?=\\)){_UNIT_PART})*)\s*$"
)
_LONGEST_UNIT = 80
# Names, connectives, and words that change the number in front of them.
_NO_UNIT = FUNCTIONS | {
    "pi", "theta", "alpha", "beta", "infty", "infinity", "oo", "inf", "in", "and", "or", "not", "to", "if", "mod",
    "base", "more", "less", "minus", "plus", "squared", "cubed", "through", "hundred", "thousand", "million",
    "billion", "trillion", "dozen", "half", "halves", "thirds", "factorial", "approximately",
}  # fmt: skip
_PROSE = re.compile(r"(?:[^\W\d_]|[\s'\".,!?()/&-])+")
_COMMANDS = re.compile(r"\\(?:text|textnormal|mathrm|textbf|textit|mbox|mathbf|rm|operatorname)\s*|[{}$]")


def read_answer(text: str) -> Node:
    """Read a whole final answer.

    Args:
        text: A text that `normalise` returned.

    Returns:
        The tree of the answer.

    Raises:
        UnreadableError: The text is not in the grammar.
        TooComplexError: It is beyond the limits.
    """
    words = plain_words(text)
    if words is not None:
        return Text(words)
    items = split_list(text)
    if len(items) > MAX_ITEMS:
        raise TooComplexError(f"a list of {len(items)} things; the limit is {MAX_ITEMS}")
    if len(items) > 1:
        return Brackets("", "", tuple(_read_item(item) for item in items))
    return _read_item(items[0])


def plain_words(text: str) -> str | None:
    r"""The words of an answer that is nothing but words, in lower case; None for anything else.

    One word of fewer than two letters is a variable or the letter of a choice, not words.
    """
    bare = _COMMANDS.sub("", text)
    if not _PROSE.fullmatch(bare):
        return None
    if "\\text" not in text and _AND.search(bare):
        return None
    words = re.findall(r"[^\W\d_]+", bare)
    long = [word for word in words if len(word) > 2 and word not in _NO_UNIT]
    if not long or re.search(r"[(/-]\s*\w\s*[)+*/-]", bare):
        return None
    return " ".join(re.sub(r"[.,!?\"]", " ", bare).casefold().split())


def split_list(text: str) -> list[str]:
    """Split at the commas, semicolons, "and" and "or" that stand outside all brackets."""
    text = _AND_BETWEEN_DIGITS.sub(" and ", text)
    items: list[str] = []
    start = position = depth = 0
    while position < len(text):
        character = text[position]
        grouped = _THOUSANDS.match(text, position) if character.isdigit() else None
        if grouped is not None and not text[position - 1 : position].isdigit():
            position = grouped.end()
            continue
        joint = _AND.match(text, position) if depth == 0 else None
        if joint is not None and joint.end() > joint.start():
            items.append(text[start:position])
            start = position = joint.end()
            continue
        if character == "\\":
            depth += {"{": 1, "}": -1}.get(text[position + 1 : position + 2], 0)
            position += 2
            continue
        depth += {"(": 1, "[": 1, "{": 1, ")": -1, "]": -1, "}": -1}.get(character, 0)
        if depth == 0 and character in ",;":
            items.append(text[start:position])
            start = position + 1
        position += 1
    items.append(text[start:])
    kept = [item for item in map(unwrapped, items) if item]
    return kept or [text]


def _read_item(text: str) -> Node:
    text = _THOUSANDS.sub(lambda number: number.group().replace(",", ""), text) if _THOUSANDS.fullmatch(text) else text
    try:
        words = plain_words(text)
        if words is not None:
            return Text(words)
        core, unit = split_unit(text)
        if unit is not None:
            core = _THOUSANDS.sub(lambda number: number.group().replace(",", ""), core)
            return Quantity(parse(core), unit)
        return parse(text)
    except RecursionError:
        raise TooComplexError("nested too deeply") from None


def split_unit(text: str) -> tuple[str, str | None]:
    r"""Take the unit off a quantity: `12\\text{ cm}^2` is `12` and `cm^2`. The unit is None where there is none."""
    match = _UNIT.search(text, max(0, len(text) - _LONGEST_UNIT))
    if match is None:
        return text, None
    core = text[: match.start()].rstrip()
    unit = re.sub(r"[\s{}$.]|\\(?:text(?:normal|bf|it)?|mathrm|mbox|operatorname|frac)", " ", match.group())
    words = re.findall(r"[^\W\d_]+", unit)
    if not re.search(r"[\d})]$|\\pi$", core) or any(word in _NO_UNIT for word in words):
        return text, None
    if unit.strip().casefold() in ("percent", "percentage", "pct"):
        return core + "%", None
    return core, "".join(unit.split()).casefold()
