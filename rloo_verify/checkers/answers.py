r"""A whole final answer -> one tree: splits lists, takes units and words apart, and leaves formulas to the parser.

1, 2 \text{ and } 3      a bare list of three numbers
12\text{ cm}^2           a quantity
x = 1 \text{ or } x = 2  a bare list of two relations
Quadrant I, \text{east}  text
3:30 p.m., July 4        a time, a date
"""

import re

from rloo_verify.checkers.clock import read_clock
from rloo_verify.checkers.limits import MAX_ITEMS, TooComplexError
from rloo_verify.checkers.nodes import Brackets, Node, Quantity, Text
from rloo_verify.checkers.normalise import unwrapped
from rloo_verify.checkers.parser import parse
from rloo_verify.checkers.systems import read_solutions, without_layout
from rloo_verify.checkers.units import NO_UNIT, split_unit

_AND = re.compile(
    r"\s*(?:\\(?:text|mathrm|mbox|textbf)\s*\{\s*,?\s*(?:and|or|,)\s*\}|\b(?:and|or)\b)\s*", re.IGNORECASE
)
_OR = re.compile(r"\bor\b", re.IGNORECASE)
_AND_BETWEEN_DIGITS = re.compile(r"(?<=[\d)])(?:and|or)(?=[\d(a-z\\])|(?<=\d)(?:and|or)(?=\w)")
_THOUSANDS = re.compile(r"(?<![\d.])[1-9]\d{0,2}(?:,\d{3})+(?!\d)")
_TEXTS = re.compile(r"\\text\s*\{[^{}]*\}")
_NO_SOLUTION = re.compile(r"(?:there (?:is|are) )?no (?:real )?(?:solutions?|roots?)|(?:the )?empty set")
_FOR_ALL = re.compile(r"^\\text\s*\{\s*(?:for\s+)?(?:all|any|every)\b[^{}]*\}\s*(?=\S)")
_LONGEST_DATE = 60
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
    text = without_layout(_FOR_ALL.sub("", text))
    clock = read_clock(text) if len(text) <= _LONGEST_DATE else None
    if clock is not None:
        return clock
    words = plain_words(text)
    if words is not None:
        return Brackets("{", "}", ()) if _NO_SOLUTION.fullmatch(words) else Text(words)
    solutions = read_solutions(text)
    if solutions is not None:
        return Brackets("", "", tuple(Brackets("(", ")", tuple(map(_read_item, values))) for values in solutions))
    items, opening, closing = split_list(text), "", "or" if _OR.search(text) else ""
    inside = _in_braces(items[0]) if len(items) == 1 else None
    if inside is not None and len(parts := split_list(inside)) > 1:
        items, opening, closing = parts, "{", "}"
    if len(items) > MAX_ITEMS:
        raise TooComplexError(f"a list of {len(items)} things; the limit is {MAX_ITEMS}")
    if len(items) > 1:
        return Brackets(opening, closing, tuple(_read_item(item) for item in items))
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
    if "," in _TEXTS.sub("", text) and all(0 < len(part.split()) <= 2 for part in bare.split(",")):
        return None  # a list of words
    words = re.findall(r"[^\W\d_]+", bare)
    long = [word for word in words if len(word) > 2 and word not in NO_UNIT]
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
        if grouped is not None:
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


def _in_braces(text: str) -> str | None:
    r"""What stands between the braces where they hold all of the text, `\{a, b\}` or `{a, b}`; else None."""
    for opening, closing in (("\\{", "\\}"), ("{", "}")):
        inside = text[len(opening) : -len(closing)]
        if text.startswith(opening) and text.endswith(closing) and not re.search(r"[{}|:]", inside.replace("\\", "")):
            return inside
    return None


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
