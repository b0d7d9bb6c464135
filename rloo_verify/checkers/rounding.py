"""Decimals that stand for a number without a finite decimal: 0.333333 for 1/3, 1.41421 for the root of 2."""

from fractions import Fraction
from typing import Any

from rloo_verify.checkers.levels import Level, note
from rloo_verify.checkers.limits import UndefinedError
from rloo_verify.checkers.nodes import Call, Node, Num
from rloo_verify.checkers.numeric import numeric
from rloo_verify.checkers.rational import exact

ROUNDED_DIGITS = 6
"""A decimal needs so many significant digits to stand for a number that has no finite decimal."""

FLOAT_DIGITS = 16
"""From so many digits on, what a 64-bit float prints may be off by one in the last."""


def rounds_to(number: Node, decimal: Node) -> bool:
    """Whether `decimal` is `number`, which has no finite decimal, rounded or cut to `ROUNDED_DIGITS` digits or more."""
    sign = 1
    if isinstance(decimal, Call) and decimal.name == "neg":
        sign, decimal = -1, decimal.args[0]
    if not isinstance(decimal, Num) or decimal.places is None or _is_decimal(number):
        return False
    if len(str(abs(decimal.value.numerator * 10**decimal.places // decimal.value.denominator))) < ROUNDED_DIGITS:
        return False
    try:
        value = numeric(number, {})
    except UndefinedError:
        return False
    if value.imag != 0 or _terminates(exact(number), decimal.places):
        return False
    scaled, digits = _as_fraction(value.real) * 10**decimal.places, sign * decimal.value * 10**decimal.places
    enough = 1 if abs(digits) >= 10 ** (FLOAT_DIGITS - 1) else Fraction(1, 2)
    close = bool(digits == int(scaled) or abs(scaled - digits) <= enough)
    if close:
        note(Level.ROUNDED)
    return close


def _as_fraction(value: Any) -> Fraction:
    """A real mpmath number, exactly."""
    sign, mantissa, exponent, _ = value._mpf_
    magnitude = Fraction(int(mantissa)) * Fraction(2) ** int(exponent)
    return -magnitude if sign else magnitude


def _terminates(value: Fraction | None, places: int) -> bool:
    """Whether a decimal of so many places could have been written exactly; then it must be."""
    return value is not None and (value * 10**places).denominator == 1


def _is_decimal(node: Node) -> bool:
    if isinstance(node, Call) and node.name in ("neg", "%"):
        return _is_decimal(node.args[0])
    return isinstance(node, Num) and (node.places is not None or node.value.denominator == 1)
