r"""The last level: sympy, for what has no numeric value at our points, such as `\sum_{k=1}^{n} k` with n left open.

Our tree becomes sympy objects through their constructors; no text ever reaches sympy. What sympy would evaluate on the
way (powers, factorials) is bounded first, and so is the size of what it is asked to simplify.
"""

from collections.abc import Callable, Mapping
from typing import Any

from rloo_verify.checkers.limits import TooComplexError, UndefinedError
from rloo_verify.checkers.nodes import Call, Const, Node, Num, Sym, walk
from rloo_verify.checkers.rational import exact

CALCULUS = frozenset(["sum", "prod", "int", "lim"])
"""What only this level understands. The arguments: variable, low, high, body; for `lim` variable, to, body."""

INTEGER_NAMES = frozenset("nkmjlNi")
"""Variables that stand for whole numbers by custom."""

_MOST_NODES = 120
_MOST_BITS = 2_048
_LARGEST_FACTORIAL = 200
_MOST_TERMS = 1_000
_LARGEST_DIFFERENCE = 200
_FUNCTIONS = {
    "sqrt": "sqrt", "exp": "exp", "abs": "Abs", "floor": "floor", "ceil": "ceiling",
    "binom": "binomial", "root": "root",
    "sin": "sin", "cos": "cos", "tan": "tan", "cot": "cot", "sec": "sec", "csc": "csc", "sinh": "sinh", "cosh": "cosh",
    "tanh": "tanh", "arcsin": "asin", "arccos": "acos", "arctan": "atan", "log": "log", "!": "factorial",
}  # fmt: skip


def has_calculus(node: Node) -> bool:
    """Whether a tree holds a sum, product, integral or limit that is not carried out."""
    return any(isinstance(part, Call) and part.name in CALCULUS for part in walk(node))


def supports(node: Node) -> bool:
    """Whether sympy knows everything in a tree; asked first, because importing sympy takes a while."""
    return all(
        part.name in CALCULUS or part.name in _BUILDERS or part.name in _FUNCTIONS
        if isinstance(part, Call)
        else isinstance(part, Num | Sym | Const)
        for part in walk(node)
    )


def identical(reference: Node, answer: Node) -> bool:
    """Whether sympy shows that two expressions are equal; False where it shows the contrary or nothing.

    Raises:
        TooComplexError: They are too large to be handed to sympy.
    """
    import sympy

    if sum(1 for _ in walk(reference)) + sum(1 for _ in walk(answer)) > _MOST_NODES:
        raise TooComplexError(f"more than {_MOST_NODES} parts, too many to simplify")
    if sum(isinstance(part, Call) and part.name in CALCULUS for node in (reference, answer) for part in walk(node)) > 2:
        raise TooComplexError("more than two sums, products, integrals or limits")
    try:
        difference = _built(reference, sympy).doit() - _built(answer, sympy).doit()
        if difference.has(sympy.nan, sympy.zoo, sympy.oo) or sympy.count_ops(difference) > _LARGEST_DIFFERENCE:
            return False
        return any(step(difference) == 0 for step in (sympy.expand, sympy.simplify))
    except (UndefinedError, ValueError, TypeError, NotImplementedError, AttributeError, RecursionError):
        return False


def _built(node: Node, sympy: Any) -> Any:
    """The sympy object of a tree.

    Raises:
        UndefinedError: Part of it has no counterpart.
        TooComplexError: A power or factorial is too large.
    """
    match node:
        case Num(value):
            return sympy.Rational(value.numerator, value.denominator)
        case Const(name):
            return {"pi": sympy.pi, "e": sympy.E, "i": sympy.I, "oo": sympy.oo}[name]
        case Sym(name):
            return sympy.Symbol(name, integer=True) if name in INTEGER_NAMES else sympy.Symbol(name, real=True)
        case Call(name, args) if name in CALCULUS:
            return _calculus(name, args, sympy)
        case Call(name, args):
            parts = [_built(part, sympy) for part in args]
            builder = _BUILDERS.get(name)
            if builder is not None:
                return builder(sympy, *parts)
            if name in _FUNCTIONS:
                _bound(name, parts)
                return getattr(sympy, _FUNCTIONS[name])(*parts)
    raise UndefinedError(f"{type(node).__name__} is nothing that sympy simplifies")


def _calculus(name: str, args: tuple[Node, ...], sympy: Any) -> Any:
    *limits, body = args
    variable = _built(limits[0], sympy)
    if name == "lim":
        return sympy.Limit(_built(body, sympy), variable, _built(limits[1], sympy))
    low, high = (exact(limit) for limit in limits[1:])
    if name != "int" and low is not None and high is not None and high - low > _MOST_TERMS:
        raise TooComplexError(f"a sum or product of more than {_MOST_TERMS} terms")
    kind = {"sum": sympy.Sum, "prod": sympy.Product, "int": sympy.Integral}[name]
    return kind(_built(body, sympy), (variable, *(_built(limit, sympy) for limit in limits[1:])))


def _power(sympy: Any, base: Any, exponent: Any) -> Any:
    if base.is_Rational and exponent.is_Rational:
        bits = max(int(base.p).bit_length(), int(base.q).bit_length())
        if abs(exponent) * bits > _MOST_BITS or exponent.q > _MOST_BITS:
            raise TooComplexError("a power that is too large for sympy")
    elif base.is_number and exponent.is_number and abs(exponent.evalf(5)) > _MOST_BITS:
        raise TooComplexError("an exponent that is too large for sympy")
    return sympy.Pow(base, exponent)


def _bound(name: str, parts: list[Any]) -> None:
    if name in ("!", "binom") and any(part.is_number and abs(part) > _LARGEST_FACTORIAL for part in parts):
        raise TooComplexError(f"a factorial of a number above {_LARGEST_FACTORIAL}")
    if name == "root" and not (parts[1].is_Integer and 0 < parts[1] < _LARGEST_FACTORIAL):
        raise UndefinedError("a root of unknown degree")


_BUILDERS: Mapping[str, Callable[..., Any]] = {
    "+": lambda sympy, *parts: sympy.Add(*parts),
    "*": lambda sympy, *parts: sympy.Mul(*parts),
    "/": lambda sympy, over, under: sympy.Mul(over, sympy.Pow(under, -1)),
    "^": _power,
    "neg": lambda sympy, part: sympy.Mul(-1, part),
    "%": lambda sympy, part: sympy.Mul(part, sympy.Rational(1, 100)),
    "deg": lambda sympy, part: sympy.Mul(part, sympy.pi, sympy.Rational(1, 180)),
}
