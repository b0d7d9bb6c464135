"""Equality of two expressions that stand for numbers: exactly where both are rational, else by their values.

Two expressions without variables are equal where 30 digits agree. Two with variables are equal where they agree at
every one of several points at which both have a value: an identity that holds at random points to 30 digits is an
identity, and one wrong digit, sign or exponent breaks it. Doubt (no common point) is inequality.
"""

import random
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from rloo_verify.checkers.limits import UndefinedError
from rloo_verify.checkers.nodes import Call, Const, Node, Num, symbols, walk
from rloo_verify.checkers.numeric import numeric
from rloo_verify.checkers.rational import exact

ROUNDED_DIGITS = 6
"""A decimal with so many significant digits may stand for a number that has no finite decimal: 0.333333 for 1/3."""

_POSITIVE_POINTS = 4
_NEGATIVE_POINTS = 2
_RELATIVE = 1e-30
_ABSOLUTE = 1e-34


def scalars_equal(reference: Node, answer: Node) -> bool:
    """Whether an answer is the number, or the expression in variables, that the reference is.

    Raises:
        TooComplexError: A number would grow beyond the limits.
    """
    reference, answer = _without_degrees(reference), _without_degrees(answer)
    if reference == answer:
        return True
    if infinity(reference) is not None or infinity(answer) is not None:
        return infinity(reference) == infinity(answer)
    if _is_percent(reference) != _is_percent(answer):
        return _equal(_without_percent(reference), _without_percent(answer)) or _equal(reference, answer)
    return _equal(reference, answer)


def infinity(node: Node) -> int | None:
    """1 for plus infinity, -1 for minus infinity, None for anything else."""
    match node:
        case Const("oo"):
            return 1
        case Call("neg", (Const("oo"),)):
            return -1
    return None


def constant_ratio(reference: Node, answer: Node) -> Any | None:
    """The number c other than 0 with answer = c * reference at every point, as mpmath's number; None where none is."""
    names = symbols(reference) | symbols(answer)
    ratios = []
    for point in _points(names):
        try:
            ratios.append(numeric(Call("/", (answer, reference)), point))
        except UndefinedError:
            continue
    if len(ratios) < 2 or not all(_close(ratio, ratios[0]) for ratio in ratios) or abs(ratios[0]) < _ABSOLUTE:
        return None
    return ratios[0]


def sign_of(node: Node) -> int | None:
    """The sign of a real number without variables; None where it has none."""
    try:
        value = numeric(node, {})
    except UndefinedError:
        return None
    if value.imag != 0:
        return None
    return int(value.real > 0) - int(value.real < 0)


def _equal(reference: Node, answer: Node) -> bool:
    try:
        ours, theirs = exact(reference), exact(answer)
    except UndefinedError:
        return False
    if ours is not None and theirs is not None:
        return ours == theirs or _rounds_to(reference, answer) or _rounds_to(answer, reference)
    names = symbols(reference) | symbols(answer)
    if not names:
        return _agree(reference, answer, {}) is True or _rounds_to(reference, answer) or _rounds_to(answer, reference)
    return _agree_at_points(reference, answer, names)


def _agree_at_points(reference: Node, answer: Node, names: frozenset[str]) -> bool:
    agreed = 0
    imaginary = any(part == Const("i") for node in (reference, answer) for part in walk(node))
    for point in _points(names):
        same = _agree(reference, answer, point)
        if same is False and (imaginary or _both_real(reference, answer, point)):
            return False
        agreed += same is True
    return agreed >= 2


def _agree(reference: Node, answer: Node, point: Mapping[str, Any]) -> bool | None:
    """Whether the values agree at a point; None where both have none."""
    values = []
    for node in (reference, answer):
        try:
            values.append(numeric(node, point))
        except UndefinedError:
            continue
    if len(values) < 2:
        return None
    return _close(values[0], values[1])


def _both_real(reference: Node, answer: Node, point: Mapping[str, Any]) -> bool:
    """The branch of a root or logarithm of a negative number is a convention; where both are real it plays no part."""
    try:
        return all(numeric(node, point).imag == 0 for node in (reference, answer))
    except UndefinedError:
        return False


def _close(a: Any, b: Any) -> bool:
    difference = abs(a - b)
    scale = max(abs(a), abs(b))
    return bool(difference <= scale * _RELATIVE + _ABSOLUTE)


def _points(names: frozenset[str]) -> list[dict[str, Any]]:
    """Fixed points, positive ones first: the same expressions always get the same verdict."""
    import mpmath  # type: ignore[import-untyped]

    points = []
    for index in range(_POSITIVE_POINTS + _NEGATIVE_POINTS if names else 0):
        sign = 1 if index < _POSITIVE_POINTS else -1
        points.append(
            {name: mpmath.mpf(sign * random.Random(f"{name} {index}").uniform(0.3, 3.0)) for name in sorted(names)}
        )
    return points


def _rounds_to(number: Node, decimal: Node) -> bool:
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
    return bool(abs(_as_fraction(value.real) - sign * decimal.value) * 10**decimal.places < 1)


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


def _is_percent(node: Node) -> bool:
    return isinstance(node, Call) and (node.name == "%" or (node.name == "neg" and _is_percent(node.args[0])))


def _without_percent(node: Node) -> Node:
    match node:
        case Call("%", (inside,)):
            return inside
        case Call("neg", (inside,)):
            return Call("neg", (_without_percent(inside),))
    return node


def _without_degrees(node: Node) -> Node:
    return node.args[0] if isinstance(node, Call) and node.name == "deg" else node
