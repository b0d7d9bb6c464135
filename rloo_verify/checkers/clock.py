"""Times of day and dates: `3:30 p.m.` is `15:30`, and never `3:30 a.m.`; `July 4, 2023` is `4 July 2023`."""

import re
from fractions import Fraction

from rloo_verify.checkers.nodes import Call, Node, Num

_TIME = re.compile(r"(\d{1,2})(?::(\d\d)(?::(\d\d))?)?\s*([ap])\.?\s?m\.?", re.IGNORECASE)
_MONTHS = {
    name: number
    for number, names in enumerate(
        ("jan january", "feb february", "mar march", "apr april", "may", "jun june", "jul july", "aug august",
         "sep sept september", "oct october", "nov november", "dec december"), start=1)
    for name in names.split()
}  # fmt: skip
_NAME = r"(?P<month>[a-z]{3,9})\.?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_DATES = tuple(
    re.compile(pattern, re.IGNORECASE)
    for pattern in (
        rf"{_NAME}\s+{_DAY}(?:\s*,?\s+(?P<year>\d{{4}}))?",
        rf"(?:the\s+)?{_DAY}\s+(?:of\s+)?{_NAME}(?:\s*,?\s+(?P<year>\d{{4}}))?",
        r"(?P<year>\d{4})-(?P<month>\d\d)-(?P<day>\d\d)",
    )
)
_COMMANDS = re.compile(r"\\(?:text|mathrm|textbf|mbox|textit)\s*|[{}~$]")


def read_clock(text: str) -> Node | None:
    """A time with a.m. or p.m., or a date with a named month or in ISO form; None for anything else."""
    text = " ".join(_COMMANDS.sub(" ", text).split())
    match = _TIME.fullmatch(text)
    if match is not None:
        hour, minute, second = (int(part or 0) for part in match.groups()[:3])
        if not 1 <= hour <= 12 or minute > 59 or second > 59:
            return None
        return _tree("time", hour % 12 + 12 * (match[4] in "pP"), minute, second)
    for pattern in _DATES:
        match = pattern.fullmatch(text)
        if match is not None:
            name = match["month"].casefold()
            month = int(name) if name.isdecimal() else _MONTHS.get(name)
            return None if month is None else _tree("date", int(match["year"] or 0), month, int(match["day"]))
    return None


def same_time(clock: Node, other: Node) -> bool:
    """Whether a time with a.m. or p.m. is the same as another, or as `15:30`, which needs neither."""
    match other:
        case Call("ratio", (Num(hour), *rest)) if hour > 12 and len(rest) <= 2:
            values = [*other.args, *[Num(Fraction(0))] * (2 - len(rest))]
            return isinstance(clock, Call) and list(map(_value, clock.args)) == list(map(_value, values))
    return clock == other


def is_time_of_day(parts: tuple[Node, ...]) -> bool:
    """Whether what was read as a ratio, `4:15`, may be a time: then it is compared as written, never in proportion."""
    if len(parts) != 2 or not all(isinstance(part, Num) and part.value.denominator == 1 for part in parts):
        return False
    hour, minute = (_value(part) for part in parts)
    return (hour is not None and minute is not None) and 0 <= hour <= 24 and (10 <= minute <= 59 or minute == 0)


def _value(node: Node) -> Fraction | None:
    return node.value if isinstance(node, Num) else None


def _tree(name: str, *numbers: int) -> Node:
    return Call(name, tuple(Num(Fraction(number)) for number in numbers))
