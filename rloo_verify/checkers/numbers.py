r"""The exact fast path: reads a plain number into a fraction, with regular expressions alone.

Most references and most answers are one of these: `42`, `-3.50`, `1,234`, `3/4`, `\frac{3}{4}`, `2\frac{1}{2}`,
`1.5e3`, `6\times10^{2}`, `25\%`, `\$18`. Everything else is left to the parser.
"""

import re
from dataclasses import dataclass
from fractions import Fraction

from rloo_verify.checkers.limits import MAX_DIGITS, TooComplexError
from rloo_verify.checkers.nodes import Call, Node, Num

_SIGN = r"(?P<sign>[-+]?)\s*"
_MONEY = r"(?:\\?\$|[€£¥]|\\(?:pounds|euro|text\{\s*\\?\$\s*\}))?\s*"
_DECIMAL = r"(?P<whole>[1-9]\d{0,2}(?:,\d{3})+(?!\d)|\d{1,3}(?: \d{3})+(?!\d)|\d*)(?:\.(?P<decimals>\d*))?"
_POWER = (
    r"(?:[eE](?P<e>[-+]?\d{1,4})"
    r"|\s*(?:\\times|\\cdot|\*|x)\s*10\s*(?:\^|\*\*)\s*(?:\{\s*(?P<p>[-+]?\d{1,4})\s*\}|(?P<q>[-+]?\d{1,4})))?"
)
_PERCENT = r"\s*(?P<percent>\\?%|percent(?:age)?|pct|\\text\{\s*percent\s*\})?"
_NUMBER = re.compile(_SIGN + _MONEY + _DECIMAL + _POWER + _PERCENT)
_FRACTION = re.compile(
    _SIGN + r"(?P<mixed>\d+(?=\s*\\frac|\s+\d+\s*/)\s*)?"
    r"(?:\\frac\s*(?:\{\s*(?P<minus>-?)\s*(?P<n>\d+)\s*\}\s*\{\s*(?P<d>\d+)\s*\}|(?P<n1>\d)\s*(?P<d1>\d))|(?P<n2>\d+)\s*/\s*(?P<d2>\d+))"
    + _PERCENT
)


@dataclass(frozen=True, slots=True)
class Number:
    """An exact number as it was written.

    Attributes:
        value: The number; for a percentage, the fraction of 1: `25%` is 1/4.
        percent: Whether it was written as a percentage.
        decimals: Digits after the decimal point, or None where it was not written as a decimal.
    """

    value: Fraction
    percent: bool = False
    decimals: int | None = None

    @property
    def finite(self) -> bool:
        """Whether it was written as a whole number or a decimal, not as a fraction or a percentage."""
        return not self.percent and (self.decimals is not None or self.value.denominator == 1)

    @property
    def tree(self) -> Node:
        """The number as the parser would have read it."""
        if not self.percent:
            return Num(self.value, self.decimals)
        return Call("%", (Num(100 * self.value, self.decimals),))


def read_number(text: str) -> Number | None:
    """Read a normalised text that is one plain number.

    Args:
        text: A text that `normalise` returned.

    Returns:
        The number, or None where the text is anything else.

    Raises:
        TooComplexError: The number has more than `MAX_DIGITS` digits.
    """
    match = _NUMBER.fullmatch(text)
    if match is not None and (match["whole"] or match["decimals"]):
        return _decimal(match)
    match = _FRACTION.fullmatch(text)
    return None if match is None else _fraction(match)


def digits_to_int(digits: str) -> int:
    """Turn digits into an integer.

    Raises:
        TooComplexError: There are more than `MAX_DIGITS`.
    """
    if len(digits) > MAX_DIGITS:
        raise TooComplexError(f"a number of {len(digits)} digits; the limit is {MAX_DIGITS}")
    return int(digits)


def _decimal(match: re.Match[str]) -> Number:
    whole = match["whole"].replace(",", "").replace(" ", "")
    decimals = match["decimals"]
    number = digits_to_int((whole + (decimals or "")) or "0")
    value = Fraction(number, 10 ** len(decimals)) if decimals else Fraction(number)
    exponent = int(match["e"] or match["p"] or match["q"] or 0)
    if exponent:
        if abs(exponent) > MAX_DIGITS:
            raise TooComplexError(f"a power of ten of {exponent}; the limit is {MAX_DIGITS}")
        value *= Fraction(10) ** exponent
    if match["percent"]:
        value /= 100
    places = None if decimals is None or exponent else len(decimals)
    return Number(-value if match["sign"] == "-" else value, match["percent"] is not None, places)


def _fraction(match: re.Match[str]) -> Number | None:
    numerator = digits_to_int(match["n"] or match["n1"] or match["n2"])
    denominator = digits_to_int(match["d"] or match["d1"] or match["d2"])
    if denominator == 0 or (match["mixed"] and match["minus"]):
        return None
    value = Fraction(-numerator if match["minus"] else numerator, denominator)
    if match["mixed"]:
        value += digits_to_int(match["mixed"].strip())
    if match["percent"]:
        value /= 100
    return Number(-value if match["sign"] == "-" else value, match["percent"] is not None)
