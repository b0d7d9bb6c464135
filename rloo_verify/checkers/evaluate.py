"""Values of trees: exactly, as fractions, where everything is rational; numerically, to `DIGITS` digits, elsewhere.

Every operation is bounded before it is done, so the work is bounded by the size of the tree.
"""

import math
import operator
import random
from collections.abc import Callable, Mapping
from fractions import Fraction
from typing import Any

from rloo_verify.checkers.limits import MAX_DIGITS, MAX_EXPONENT, MAX_FACTORIAL, TooComplexError
from rloo_verify.checkers.nodes import Call, Const, Node, Num, Sym

DIGITS = 40
"""Precision of numeric evaluation, in decimal digits."""


class UndefinedError(Exception):
    """A tree has no value: it divides by zero, names an unknown function, or is no expression."""


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


def numeric(node: Node, point: Mapping[str, Any]) -> Any:
    """The value of a tree where its variables have the values of `point`.

    Returns:
        An mpmath number, complex where it must be.

    Raises:
        TooComplexError: A number would grow beyond the limits.
        UndefinedError: It has no value there.
    """
    import mpmath  # type: ignore[import-untyped]

    with mpmath.workdps(DIGITS):
        try:
            value = _numeric(node, point, mpmath)
        except (ZeroDivisionError, ValueError, TypeError, OverflowError, mpmath.libmp.NoConvergence) as error:
            raise UndefinedError(str(error)) from error
        if not mpmath.isfinite(value):
            raise UndefinedError("not finite")
        return value


def _numeric(node: Node, point: Mapping[str, Any], mp: Any) -> Any:
    match node:
        case Num(value):
            return mp.mpf(value.numerator) / value.denominator
        case Const("pi"):
            return +mp.pi
        case Const("e"):
            return +mp.e
        case Const("i"):
            return mp.mpc(0, 1)
        case Sym(name):
            if name not in point:
                raise UndefinedError(f"{name} has no value")
            return point[name]
        case Call("apply", (Sym(name), *args)):
            return _unknown_function(name, [_numeric(part, point, mp) for part in args], mp)
        case Call(name, args):
            rational = exact(node) if not any(isinstance(part, Sym | Const) for part in args) else None
            if rational is not None:
                return mp.mpf(rational.numerator) / rational.denominator
            return _bounded(_call(name, [_numeric(part, point, mp) for part in args], mp), mp)
    raise UndefinedError(f"{type(node).__name__} has no number as its value")


def _unknown_function(name: str, values: list[Any], mp: Any) -> Any:
    """Some smooth function, the same for the same name: f(x)+1 equals 1+f(x), and differs from g(x)+1."""
    chance = random.Random(name)
    return mp.sin(mp.fsum(chance.uniform(0.5, 2.0) * value for value in values) + chance.uniform(0.0, 1.0))


def _bounded(value: Any, mp: Any) -> Any:
    if mp.isfinite(value) and value != 0 and abs(mp.mag(value)) > 4 * MAX_EXPONENT:
        raise TooComplexError(f"a number beyond 2^{4 * MAX_EXPONENT}")
    return value


def _call(name: str, values: list[Any], mp: Any) -> Any:
    """An operation on numbers. Exponents and arguments are bounded first: mpmath itself bounds nothing."""
    for value in values:
        if name not in ("+", "*", "/", "neg", "abs", "^", "sqrt", "root") and abs(value) > 10**6:
            raise TooComplexError(f"{name} of a number beyond 10^6")
    match name:
        case "+":
            return mp.fsum(values)
        case "*":
            return mp.fprod(values)
        case "/":
            return values[0] / values[1]
        case "^":
            return _power(values[0], values[1], mp)
        case "root":
            return _root(values[0], values[1], mp)
        case "log":
            return mp.log(values[0]) / mp.log(values[1]) if len(values) == 2 else mp.log(values[0])
        case "neg" | "!" | "%" | "deg":
            return {"neg": lambda v: -v, "!": mp.factorial, "%": lambda v: v / 100, "deg": mp.radians}[name](values[0])
        case "min" | "max":
            return (min if name == "min" else max)(_real(value) for value in values)
    function = _FUNCTIONS.get(name)
    if function is None:
        raise UndefinedError(f"{name} is not known")
    return getattr(mp, function)(*values)


def _real(value: Any) -> Any:
    if getattr(value, "imag", 0) != 0:
        raise UndefinedError("complex numbers have no order")
    return value.real


def _power(base: Any, exponent: Any, mp: Any) -> Any:
    if base != 0 and abs(exponent) * (abs(mp.mag(base)) + 1) > 4 * MAX_EXPONENT:
        raise TooComplexError("a power that is too large")
    return mp.power(base, exponent)


def _root(value: Any, degree: Any, mp: Any) -> Any:
    """A root; of a negative number and odd degree the real one, which is what a root sign means in answers."""
    n = int(degree.real)
    if n == degree and n % 2 and 0 < n < 1000 and value.imag == 0 and value.real < 0:
        return -mp.root(-value.real, n)
    return mp.power(value, 1 / degree)


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator != 1:
        return _exact_root(base, exponent)
    if base == 0 and exponent < 0:
        raise UndefinedError("division by zero")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(base) != 1 and base != 0 and abs(exponent) * size > 4 * MAX_DIGITS:
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
    if n > 4 * MAX_FACTORIAL:
        raise TooComplexError(f"a binomial coefficient of a number above {4 * MAX_FACTORIAL}")
    return Fraction(math.comb(n.numerator, k.numerator))


def _base(digits: Fraction, base: Fraction) -> Fraction | None:
    if digits.denominator != 1 or base.denominator != 1 or not 2 <= base <= 10:
        return None
    text = str(digits.numerator)
    return Fraction(int(text, base.numerator)) if all(int(digit) < base for digit in text) else None


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
            if max(total.numerator.bit_length(), total.denominator.bit_length()) > 8 * MAX_DIGITS:
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
    "min": min,
    "max": max,
    "gcd": _integers(math.gcd),
    "lcm": _integers(math.lcm),
}

_FUNCTIONS = {
    **{name: name for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "coth", "exp", "sqrt")},
    **{"arc" + name: "a" + name for name in ("sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh")},
    **{"asinh": "asinh", "acosh": "acosh", "atanh": "atanh", "cbrt": "cbrt", "abs": "fabs", "floor": "floor"},
    **{"ceil": "ceil", "binom": "binomial"},
}  # fmt: skip
