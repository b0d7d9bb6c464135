"""Numeric values of trees by mpmath, to as many digits as are asked for.

mpmath bounds nothing, so every operation is bounded before it is done: the work is bounded by the size of the tree.
"""

import random
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rloo_verify.checkers.limits import MAX_BITS, TooComplexError, UndefinedError
from rloo_verify.checkers.nodes import Call, Const, Node, Num, Sym
from rloo_verify.checkers.rational import exact

DIGITS = 40
"""Precision of numeric evaluation, in decimal digits, where nothing else is said."""

_ARCS = ["sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh"]
_SAME_NAME = [
    "exp", "sqrt", "asinh", "acosh", "atanh", "floor", "ceil", "sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh",
    "tanh", "coth",
]  # fmt: skip
_FUNCTIONS = {
    **{name: name for name in _SAME_NAME},
    **{f"arc{name}": f"a{name}" for name in _ARCS},
    "abs": "fabs",
    "binom": "binomial",
}  # our names -> mpmath's
_UNBOUNDED = frozenset(["+", "*", "/", "neg", "abs", "^", "sqrt", "root"])


@dataclass(slots=True)
class Value:
    """A number of mpmath, complex where it must be, and the size in bits of the most extreme number on the way."""

    number: Any
    bits: int


def numeric(node: Node, point: Mapping[str, Any]) -> Any:
    """The value of a tree where its variables have the values of `point`, to `DIGITS` digits.

    Raises:
        TooComplexError: A number would grow beyond the limits.
        UndefinedError: It has no value there.
    """
    return evaluate(node, point).number


def evaluate(node: Node, point: Mapping[str, Any], digits: int = DIGITS) -> Value:
    """Like `numeric`, to any precision, and with the size of the numbers on the way."""
    import mpmath  # type: ignore[import-untyped]

    with mpmath.workdps(digits):
        evaluator = _Evaluator(point, mpmath)
        try:
            number = evaluator.value(node)
        except (ZeroDivisionError, ValueError, TypeError, OverflowError, mpmath.libmp.NoConvergence) as error:
            raise UndefinedError(str(error)) from error
        if not mpmath.isfinite(number):
            raise UndefinedError("not finite")
        return Value(number, evaluator.bits)


class _Evaluator:
    """One evaluation of a tree at a point."""

    def __init__(self, point: Mapping[str, Any], mpmath: Any) -> None:
        self.point = point
        self.mp = mpmath
        self.bits = 0

    def value(self, node: Node) -> Any:
        mp = self.mp
        match node:
            case Num(value):
                return self._bounded(mp.mpf(value.numerator) / value.denominator)
            case Const("pi"):
                return +mp.pi
            case Const("e"):
                return +mp.e
            case Const("i"):
                return mp.mpc(0, 1)
            case Sym(name):
                if name not in self.point:
                    raise UndefinedError(f"{name} has no value")
                return self.point[name]
            case Call("apply", (Sym(name), *args)):
                return _unknown_function(name, [self.value(part) for part in args], mp)
            case Call(name, args):
                rational = exact(node) if not any(isinstance(part, Sym | Const) for part in args) else None
                if rational is not None:
                    return self._bounded(mp.mpf(rational.numerator) / rational.denominator)
                return self._bounded(_call(name, [self.value(part) for part in args], mp))
        raise UndefinedError(f"{type(node).__name__} has no number as its value")

    def _bounded(self, value: Any) -> Any:
        if value != 0 and self.mp.isfinite(value):
            bits = abs(int(self.mp.mag(value)))
            if bits > MAX_BITS:
                raise TooComplexError(f"a number beyond 2^{MAX_BITS}")
            self.bits = max(self.bits, bits)
        return value


def _unknown_function(name: str, values: list[Any], mp: Any) -> Any:
    """Some smooth function, the same for the same name: f(x)+1 equals 1+f(x), and differs from g(x)+1."""
    chance = random.Random(name)
    return mp.sin(mp.fsum(chance.uniform(0.5, 2.0) * value for value in values) + chance.uniform(0.0, 1.0))


def _call(name: str, values: list[Any], mp: Any) -> Any:
    """An operation on numbers. Exponents and arguments are bounded first: mpmath itself bounds nothing."""
    for value in values:
        if name not in _UNBOUNDED and abs(value) > 10**6:
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
    if base != 0 and abs(exponent) * (abs(mp.mag(base)) + 1) > MAX_BITS:
        raise TooComplexError("a power that is too large")
    return mp.power(base, exponent)


def _root(value: Any, degree: Any, mp: Any) -> Any:
    """A root; of a negative number and odd degree the real one, which is what a root sign means in answers."""
    n = int(degree.real)
    if n == degree and n % 2 and 0 < n < 1000 and value.imag == 0 and value.real < 0:
        return -mp.root(-value.real, n)
    return mp.power(value, 1 / degree)
