"""Quotients of polynomials in normal form: the exact test of an algebraic identity, without floating point.

A polynomial is a dictionary from a monomial, which is a sorted tuple of (variable, exponent), to its coefficient.
Two quotients a/b and c/d are equal where a*d - c*b is the empty dictionary. Pi counts as a variable: it is
transcendental.
"""

from fractions import Fraction
from typing import TypeAlias

from rloo_verify.checkers.limits import UndefinedError
from rloo_verify.checkers.nodes import Call, Const, Node, Num, Sym

Monomial: TypeAlias = tuple[tuple[str, int], ...]
Polynomial: TypeAlias = dict[Monomial, Fraction]

_MOST_TERMS = 400
_MOST_PRODUCTS = 20_000
_LARGEST_EXPONENT = 64
_MOST_BITS = 4_096
_ONE: Polynomial = {(): Fraction(1)}


class _BeyondError(Exception):
    """No quotient of polynomials, or too large a one."""


def identical(reference: Node, answer: Node) -> bool | None:
    """Whether two trees are the same quotient of polynomials; None where either is none, or is too large.

    Raises:
        UndefinedError: One divides by zero.
    """
    try:
        (a, b), (c, d) = _quotient(reference), _quotient(answer)
        return not _sum(_product(a, d), _scaled(_product(c, b), Fraction(-1)))
    except _BeyondError:
        return None


def _quotient(node: Node) -> tuple[Polynomial, Polynomial]:
    match node:
        case Num(value):
            return ({(): value} if value else {}), _ONE
        case Sym(name) | Const("pi" as name):
            return {((name, 1),): Fraction(1)}, _ONE
        case Call("+", args):
            return _fold(args, add=True)
        case Call("*", args):
            return _fold(args, add=False)
        case Call("neg", (inside,)):
            top, bottom = _quotient(inside)
            return _scaled(top, Fraction(-1)), bottom
        case Call("/", (over, under)):
            (a, b), (c, d) = _quotient(over), _quotient(under)
            if not c:
                raise UndefinedError("division by zero")
            return _product(a, d), _product(b, c)
        case Call("^", (base, Num(value))) if value.denominator == 1:
            return _power(*_quotient(base), value.numerator)
        case Call("^", (base, Call("neg", (Num(value),)))) if value.denominator == 1:
            return _power(*_quotient(base), -value.numerator)
    raise _BeyondError


def _fold(args: tuple[Node, ...], *, add: bool) -> tuple[Polynomial, Polynomial]:
    top, bottom = _quotient(args[0])
    for part in args[1:]:
        other, under = _quotient(part)
        if not add:
            top, bottom = _product(top, other), _product(bottom, under)
        elif bottom == under:
            top = _sum(top, other)
        else:
            top, bottom = _sum(_product(top, under), _product(other, bottom)), _product(bottom, under)
    return top, bottom


def _power(top: Polynomial, bottom: Polynomial, exponent: int) -> tuple[Polynomial, Polynomial]:
    if abs(exponent) > _LARGEST_EXPONENT:
        raise _BeyondError
    if exponent < 0:
        if not top:
            raise UndefinedError("division by zero")
        top, bottom, exponent = bottom, top, -exponent
    over, under = _ONE, _ONE
    for _ in range(exponent):
        over, under = _product(over, top), _product(under, bottom)
    return over, under


def _sum(a: Polynomial, b: Polynomial) -> Polynomial:
    total = dict(a)
    for monomial, coefficient in b.items():
        value = total.get(monomial, 0) + coefficient
        if value:
            total[monomial] = value
        else:
            total.pop(monomial, None)
    if len(total) > _MOST_TERMS:
        raise _BeyondError
    return total


def _scaled(a: Polynomial, factor: Fraction) -> Polynomial:
    return {monomial: coefficient * factor for monomial, coefficient in a.items()}


def _product(a: Polynomial, b: Polynomial) -> Polynomial:
    if a is _ONE or b is _ONE:
        return b if a is _ONE else a
    if len(a) * len(b) > _MOST_PRODUCTS:
        raise _BeyondError
    total: Polynomial = {}
    for left, x in a.items():
        for right, y in b.items():
            monomial = _times(left, right)
            coefficient = x * y
            if max(coefficient.numerator.bit_length(), coefficient.denominator.bit_length()) > _MOST_BITS:
                raise _BeyondError
            total[monomial] = total.get(monomial, Fraction(0)) + coefficient
    if len(total) > _MOST_TERMS:
        raise _BeyondError
    return {monomial: coefficient for monomial, coefficient in total.items() if coefficient}


def _times(left: Monomial, right: Monomial) -> Monomial:
    if not left or not right:
        return left or right
    exponents = dict(left)
    for name, exponent in right:
        exponents[name] = exponents.get(name, 0) + exponent
    return tuple(sorted(exponents.items()))
