"""Exact values: trees of rational operations as fractions. Every operation is bounded before it is done."""

import math
import operator
from collections.abc import Callable, Mapping
from fractions import Fraction

from rloo_verify.checkers.limits import MAX_BITS, MAX_FACTORIAL, TooComplexError, UndefinedError
from rloo_verify.checkers.nodes import Call, Node, Num


def exact(node: Node) -> Fraction | None:
    """The value of a tree of rational operations; None where something in it is not rational or not known.

    Raises:
        TooComplexError: A number would grow beyond the limits.
        UndefinedError: Division by zero.
    """
    match node:
        case Num(value):
            return value
        case Call(name, args):
            values = [exact(part) for part in args]
            known = [value for value in values if value is not None]
            if len(known) == len(values) and name in _EXACT:
                return _EXACT[name](*known)
    return None


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1:
        return _exact_root(base, exponent)
    if base == 0 and exponent < 0:
        raise UndefinedError("division by zero")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) != 1 and base != 0 and abs(exponent) * size > MAX_BITS:
        raise TooComplexError("a power that is too large")
    return base ** (exponent.numerator % 2 if abs(base) == 1 else exponent.numerator)


def _exact_root(base: Fraction, exponent: Fraction) -> Fraction | None:
    if base < 0 or exponent.denominator > 64:
        return None
    roots = []
    for part in (base.numerator, base.denominator):
        if part.bit_length() > 1000:
            return None
        root = round(part ** (1 / exponent.denominator))
        if root**exponent.denominator != part:
            return None
        roots.append(root)
    return _exact_power(Fraction(roots[0], roots[1]), Fraction(exponent.numerator))


def _factorial(n: Fraction) -> Fraction | None:
    if n.denominator != 1 or n < 0:
        return None
    if n > MAX_FACTORIAL:
        raise TooComplexError(f"the factorial of a number above {MAX_FACTORIAL}")
    return Fraction(math.factorial(n.numerator))


def _binom(n: Fraction, k: Fraction) -> Fraction | None:
    if n.denominator != 1 or k.denominator != 1 or n < 0 or k < 0:
        return None
    if n > MAX_FACTORIAL:
        raise TooComplexError(f"a binomial coefficient of a number above {MAX_FACTORIAL}")
    return Fraction(math.comb(n.numerator, k.numerator))


def _base(digits: Fraction, base: Fraction) -> Fraction | None:
    if digits.denominator != 1 or base.denominator != 1 or not 2 <= base <= 36:
        return None
    text = str(digits.numerator)
    return Fraction(int(text, base.numerator)) if all(int(digit) < base for digit in text.removeprefix("-")) else None


def _divide(numerator: Fraction, denominator: Fraction) -> Fraction:
    if denominator == 0:
        raise UndefinedError("division by zero")
    return numerator / denominator


def _integers(function: Callable[..., int]) -> Callable[..., Fraction | None]:
    return lambda *values: (
        Fraction(function(*(value.numerator for value in values)))
        if all(value.denominator == 1 for value in values)
        else None
    )


def _fold(operation: Callable[[Fraction, Fraction], Fraction], start: int) -> Callable[..., Fraction]:
    def fold(*values: Fraction) -> Fraction:
        total = Fraction(start)
        for value in values:
            total = operation(total, value)
            if max(total.numerator.bit_length(), total.denominator.bit_length()) > MAX_BITS:
                raise TooComplexError("a number that grows too large")
        return total

    return fold


_EXACT: Mapping[str, Callable[..., Fraction | None]] = {
    "+": _fold(operator.add, 0),
    "*": _fold(operator.mul, 1),
    "/": _divide,
    "^": _exact_power,
    "neg": lambda value: -value,
    "!": _factorial,
    "%": lambda value: value / 100,
    "abs": abs,
    "sqrt": lambda value: _exact_root(value, Fraction(1, 2)),
    "root": lambda value, n: _exact_root(value, 1 / n) if n.denominator == 1 and n > 0 else None,
    "binom": _binom,
    "base": _base,
    "floor": lambda value: Fraction(math.floor(value)),
    "ceil": lambda value: Fraction(math.ceil(value)),
    "min": lambda *values: min(values),
    "max": lambda *values: max(values),
    "gcd": _integers(math.gcd),
    "lcm": _integers(math.lcm),
}
