r"""Units of measure and of money: what follows a number, and whether two units are the same."""

import re

from rloo_verify.checkers.lexer import FUNCTIONS

_WORDS = (
    r"(?:\\(?:text|mathrm|mbox|textbf|textit|textnormal|operatorname)\s*\{(?!\s*[ei]\s*\})[^{}]*\}"
    r"|(?<!\\)\b[^\W\d_]{2,}\b|(?<=[\d\s}])[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]+)"
)
_UNIT_PART = rf"(?:{_WORDS}|(?<=[\d\s}}])(?:[kcm]m|kg|ft|in)\b|(?<=[\s}}/])[mgslLhN]\b)(?:\s*\^\s*(?:-?\d|\{{-?\d\}}))?"
_UNIT = re.compile(
    rf"\s*(?:\\frac\s*\{{\s*{_WORDS}\s*\}}\s*\{{\s*{_WORDS}\s*\}}|\^\\circ\s*(?:{_WORDS}|[CFK]\b)"
    rf"|{_UNIT_PART}(?:(?:[\s/*.-]+|(?=\\)){_UNIT_PART})*)\s*$"
)
_LONGEST_UNIT = 80
_IN_TEXT = re.compile(r"\\[a-z]+\s*\{[^{}]*\}|\\[a-z]+")
NO_UNIT = FUNCTIONS | {
    "pi", "theta", "alpha", "beta", "infty", "infinity", "oo", "inf", "in", "and", "or", "not", "to", "if", "mod",
    "base", "more", "less", "minus", "plus", "squared", "cubed", "through", "hundred", "thousand", "million",
    "billion", "trillion", "dozen", "half", "halves", "thirds", "factorial", "approximately",
}  # fmt: skip
"""Words behind a number that are no unit: names, connectives, and what changes the number."""

_SHORT = frozenset([
    "cm", "mm", "km", "dm", "nm", "kg", "mg", "ml", "cl", "ft", "in", "yd", "mi", "lb", "lbs", "oz", "hr", "hrs", "min",
    "sec", "ms", "mph", "kph", "km", "hz", "pct", "deg", "rad", "usd", "eur", "gbp", "cal", "mol", "pa", "kw", "kj",
    "cup", "bag", "box", "day", "men", "man", "egg", "pie", "car", "dog", "cat", "pen", "cow", "hen", "way", "ways",
])  # fmt: skip
"""Words of two or three letters that are units even without `\\text`; any others are products of variables."""
_NO_UNIT_PART = re.compile("[百万億亿萬兆만억]|千(?![克米瓦卡])|^d[a-z]$")  # ten thousand, and the dx of an integral

_LONG = {
    long: short
    for short, names in {
        "mm": "millimeter millimetre", "cm": "centimeter centimetre", "m": "meter metre", "km": "kilometer kilometre",
        "g": "gram gramme", "kg": "kilogram kilo", "s": "second sec", "min": "minute", "h": "hour hr",
        "in": "inch inche", "ft": "foot feet", "mi": "mile", "l": "liter litre", "ml": "milliliter millilitre",
        "lb": "pound", "oz": "ounce", "yd": "yard",
    }.items()
    for long in names.split()
}  # fmt: skip
_POWERS = {"square": "^2", "squared": "^2", "sq": "^2", "cubic": "^3", "cubed": "^3"}
_CURRENCIES = (
    ("euro", re.compile(r"€|\\euro|\beuros?\b", re.IGNORECASE)),
    ("pound", re.compile(r"£|\\pounds")),
    ("yen", re.compile(r"¥|\byen\b", re.IGNORECASE)),
    ("rupee", re.compile(r"₹|\brupees?\b", re.IGNORECASE)),
    ("dollar", re.compile(r"\\\$|\bdollars?\b|\bUSD\b")),
    ("cent", re.compile(r"¢|\bcents?\b", re.IGNORECASE)),
)


def split_unit(text: str) -> tuple[str, str | None]:
    r"""Take the unit off a quantity: `12\\text{ cm}^2` is `12` and `cm^2`. The unit is None where there is none."""
    match = _UNIT.search(text, max(0, len(text) - _LONGEST_UNIT))
    if match is None:
        return text, None
    core = text[: match.start()].rstrip()
    unit = re.sub(r"[\s{}$.]|\\(?:text(?:normal|bf|it)?|mathrm|mbox|operatorname|frac)", " ", match.group())
    words = re.findall(r"[^\W\d_]+", unit)
    if not re.search(r"[\d})]$|\\pi$", core) or any(word in NO_UNIT or _NO_UNIT_PART.search(word) for word in words):
        return text, None
    plain = re.findall(r"[a-zA-Z]+", _IN_TEXT.sub(" ", match.group()))
    if any(1 < len(word) < 4 and word.casefold() not in _SHORT for word in plain):
        return text, None
    if unit.strip().casefold() in ("percent", "percentage", "pct"):
        return core + "%", None
    return core, "".join(unit.split()).casefold()


def same_unit(ours: str, theirs: str) -> bool:
    """Whether two units are the same one; `5 m` is never `5 cm`, and nothing is converted."""
    return _short(ours) == _short(theirs)


def currency(text: str) -> str | None:
    r"""The currency that a text names; None where it names none. A bare `$` is no dollar but LaTeX."""
    return next((name for name, pattern in _CURRENCIES if pattern.search(text)), None)


def _short(unit: str) -> str:
    power = ""
    for word, exponent in _POWERS.items():
        if unit.startswith(word) or unit.endswith(word):
            unit, power = unit.removeprefix(word).removesuffix(word), exponent
            break
    base, caret, rest = unit.partition("^")
    base = base.removesuffix("s") if len(base) > 2 else base
    return _LONG.get(base, base) + power + caret + rest.strip("{}")
