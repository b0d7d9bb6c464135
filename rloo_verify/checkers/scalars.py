"""Equality of two expressions that stand for numbers, by levels, the cheapest that decides first.

1. The same tree.
2. Exact arithmetic, where both are rational numbers.
3. An algebraic identity, where both are quotients of polynomials.
4. Numeric values. Constants must agree to 30 digits, and then to as many as the sizes on the way can blur. Expressions
   in variables must agree so at several points; where a root or logarithm makes one complex its branch is a convention,
   so only points at which both are real can tell two expressions apart. Names such as n stand for whole numbers where
   nothing else decides.
5. sympy, for what has no value at any of these points.

A level that says "different" ends the comparison: none after it is asked. Doubt (no common point) is inequality.
"""

import random
from collections.abc import Iterable, Mapping
from typing import Any

from rloo_verify.checkers import polynomial, symbolic
from rloo_verify.checkers.levels import Level, note
from rloo_verify.checkers.limits import TooComplexError, UndefinedError
from rloo_verify.checkers.nodes import Call, Const, Node, symbols, walk
from rloo_verify.checkers.numeric import DIGITS, evaluate, numeric
from rloo_verify.checkers.rational import exact
from rloo_verify.checkers.rounding import rounds_to

_RELATIVE = 1e-30
_ABSOLUTE = 1e-34
_MOST_BITS = 24_000
_GUARD_DIGITS = 12
_ENOUGH = 2
_POINTS = ((0.3, 3.0), (0.3, 3.0), (0.3, 3.0), (0.3, 3.0), (-3.0, -0.3), (-3.0, -0.3))
_FAR_POINTS = ((5.0, 50.0), (5.0, 50.0), (0.02, 0.3), (0.02, 0.3), (-50.0, -5.0))
_WHOLE_POINTS = (2, 3, 4, 7, 10, 11)


def scalars_equal(reference: Node, answer: Node) -> bool:
    """Whether an answer is the number, or the expression in variables, that the reference is.

    Raises:
        TooComplexError: A number would grow beyond the limits.
    """
    reference, answer = _without_degrees(reference), _without_degrees(answer)
    if reference == answer:
        note(Level.FORM)
        return True
    if infinity(reference) is not None or infinity(answer) is not None:
        note(Level.FORM)
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
    for point in _points(names, _POINTS):
        try:
            ratios.append(numeric(Call("/", (answer, reference)), point))
        except UndefinedError:
            continue
    if len(ratios) < _ENOUGH or not all(_close(ratio, ratios[0]) for ratio in ratios) or abs(ratios[0]) < _ABSOLUTE:
        return None
    note(Level.NUMERIC)
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
        if ours is not None and theirs is not None:
            note(Level.RATIONAL)
            return ours == theirs or rounds_to(reference, answer) or rounds_to(answer, reference)
        same = polynomial.identical(reference, answer)
    except UndefinedError:
        return False
    names = symbols(reference) | symbols(answer)
    if same is not None:
        note(Level.POLYNOMIAL)
        return same or (not names and (rounds_to(reference, answer) or rounds_to(answer, reference)))
    if not names:
        return _constants_equal(reference, answer)
    return _agree_at_points(reference, answer, names)


def _constants_equal(reference: Node, answer: Node) -> bool:
    same = _agree(reference, answer, {})
    if same is None and symbolic.has_calculus(reference):
        return _by_sympy(reference, answer)
    note(Level.NUMERIC)
    if same and _agree_closely(reference, answer, {}):
        return True
    return rounds_to(reference, answer) or rounds_to(answer, reference)


def _agree_at_points(reference: Node, answer: Node, names: frozenset[str]) -> bool:
    """Near points first, then far ones, whole numbers, and sympy: as long as nothing has decided."""
    imaginary = any(part == Const("i") for node in (reference, answer) for part in walk(node))
    whole = [dict.fromkeys(names, value) for value in _WHOLE_POINTS] if names <= symbolic.INTEGER_NAMES else []
    stages: tuple[Iterable[Mapping[str, Any]], ...] = (_points(names, _POINTS), _points(names, _FAR_POINTS), whole)
    doubts, too_large = False, None
    for points in stages:
        agreed = []
        for point in points:
            try:
                same = _agree(reference, answer, point)
            except TooComplexError as error:  # e^{-x^4} far from 0: this point decides nothing
                too_large = error
                continue
            if same is False and (imaginary or _both_real(reference, answer, point)):
                note(Level.NUMERIC)
                return False
            doubts = doubts or same is False
            if same:
                agreed.append(point)
        if len(agreed) >= _ENOUGH:
            note(Level.NUMERIC)
            return _agree_closely(reference, answer, min(agreed, key=lambda point: _bits(reference, answer, point)))
    if too_large is not None:
        raise too_large
    return not doubts and _by_sympy(reference, answer)


def _by_sympy(reference: Node, answer: Node) -> bool:
    """The last level. An answer may leave a sum or integral open only where the reference does."""
    if symbolic.has_calculus(answer) and not symbolic.has_calculus(reference):
        return False
    if not symbolic.supports(reference) or not symbolic.supports(answer):
        return False
    note(Level.SYMPY)
    return symbolic.identical(reference, answer)


def _agree(reference: Node, answer: Node, point: Mapping[str, Any]) -> bool | None:
    """Whether the values agree at a point; None where either has none."""
    try:
        return _close(numeric(reference, point), numeric(answer, point))
    except UndefinedError:
        return None


def _agree_closely(reference: Node, answer: Node, point: Mapping[str, Any]) -> bool:
    """Whether values that agree to 30 digits still do where rounding on the way can blur none of the digits that count.

    This tells e^{pi sqrt(163)} from the whole number next to it, and sqrt(10^60 + 1) from 10^30.
    """
    bits = _bits(reference, answer, point)
    if bits > _MOST_BITS:
        raise TooComplexError(f"a number beyond 2^{_MOST_BITS}, too large to compare")
    digits = 2 * DIGITS + int(2 * bits * 0.302)
    ours, theirs = (evaluate(node, point, digits) for node in (reference, answer))
    import mpmath  # type: ignore[import-untyped]

    with mpmath.workdps(digits):
        noise = mpmath.mpf(2) ** max(ours.bits, theirs.bits) * mpmath.mpf(10) ** (_GUARD_DIGITS - digits)
        return bool(abs(ours.number - theirs.number) <= noise)


def _bits(reference: Node, answer: Node, point: Mapping[str, Any]) -> int:
    """The size of the most extreme number on the way to either value."""
    return max(evaluate(node, point).bits for node in (reference, answer))


def _both_real(reference: Node, answer: Node, point: Mapping[str, Any]) -> bool:
    """The branch of a root or logarithm of a negative number is a convention; where both are real it plays no part."""
    return all(numeric(node, point).imag == 0 for node in (reference, answer))


def _close(a: Any, b: Any) -> bool:
    difference = abs(a - b)
    scale = max(abs(a), abs(b))
    return bool(difference <= scale * _RELATIVE + _ABSOLUTE)


def _points(names: frozenset[str], ranges: Iterable[tuple[float, float]]) -> Iterable[dict[str, Any]]:
    """Random but fixed points: the same expressions always get the same verdict."""
    import mpmath

    for index, (low, high) in enumerate(ranges):
        yield {name: mpmath.mpf(random.Random(f"{name} {index} {low}").uniform(low, high)) for name in sorted(names)}


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
