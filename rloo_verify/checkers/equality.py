"""Whether an answer is what the reference is. The reference decides what is asked for; doubt is inequality.

| reference | accepts |
|---|---|
| number, expression | an equal one; with or without a unit or a name in front (`x = 5` for 5); never another unit |
| name = value | the value alone, or the same name with an equal value |
| equation | the same equation times a constant |
| inequality, interval, union | the same set in any of these forms |
| tuple `(a, b)` | equal entries in this order, in the same brackets |
| list, set, plus-minus | the same members in any order, each once |
| ratio | a proportional one |
| matrix | equal entries |
| text | the same words |
"""

from dataclasses import dataclass
from fractions import Fraction

from rloo_verify.checkers.nodes import (
    Brackets, Call, Const, Matrix, Node, Num, Quantity, Relation, Sym, Text, Union, symbols, walk,
)  # fmt: skip
from rloo_verify.checkers.scalars import constant_ratio, infinity, scalars_equal, sign_of

_MAX_MEMBERS = 64
_FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
_INFINITE = Const("oo")


def equal(reference: Node, answer: Node) -> bool:
    """Whether `answer` is what `reference` is.

    Raises:
        TooComplexError: A number would grow beyond the limits.
    """
    if reference == answer:
        return True
    if isinstance(reference, Quantity) or isinstance(answer, Quantity):
        return _quantities_equal(reference, answer)
    ours, theirs = _members(reference), _members(answer)
    if ours is not None or theirs is not None:
        return _same_members(ours or [reference], theirs or [answer]) if ours != [] and theirs != [] else ours == theirs
    if isinstance(reference, Relation) or isinstance(answer, Relation):
        return _relations_equal(reference, answer)
    match reference, answer:
        case Brackets(), Brackets():
            return (
                (reference.opening, reference.closing) == (answer.opening, answer.closing)
                and len(reference.items) == len(answer.items)
                and all(map(equal, reference.items, answer.items))
            )
        case Matrix(ours_rows), Matrix(their_rows):
            return [len(row) for row in ours_rows] == [len(row) for row in their_rows] and all(
                equal(a, b) for ours, theirs in zip(ours_rows, their_rows, strict=True) for a, b in zip(ours, theirs, strict=True)
            )
        case (Union() | Text("R"), _) | (_, Union() | Text("R")):
            return _sets_equal(reference, answer)
        case Call("ratio", ours_parts), Call("ratio", their_parts):
            return _ratios_equal(ours_parts, their_parts)
        case (Text() | Matrix() | Brackets(), _) | (_, Text() | Matrix() | Brackets()):
            return False
    return scalars_equal(reference, answer)


def _quantities_equal(reference: Node, answer: Node) -> bool:
    ours, our_unit = (reference.value, reference.unit) if isinstance(reference, Quantity) else (reference, None)
    theirs, their_unit = (answer.value, answer.unit) if isinstance(answer, Quantity) else (answer, None)
    if our_unit is not None and their_unit is not None and _singular(our_unit) != _singular(their_unit):
        return False
    return equal(ours, theirs)


def _singular(unit: str) -> str:
    long = {
        "centimeter": "cm", "meter": "m", "kilometer": "km", "millimeter": "mm", "second": "s", "hour": "h", "hr": "h",
        "minute": "min", "gram": "g", "kilogram": "kg", "inche": "in", "inch": "in", "feet": "ft", "foot": "ft",
        "dollar": "dollar", "sec": "s",
    }  # fmt: skip
    unit = unit.removesuffix("s") if len(unit) > 2 else unit
    return long.get(unit, unit)


def _members(node: Node) -> list[Node] | None:
    """The members of a bare list, a set in braces, or a plus-minus; None for anything that is one thing."""
    if isinstance(node, Brackets) and node.opening in ("", "{"):
        return [part for item in node.items for part in (_members(item) or [item])]
    if isinstance(node, Relation) and node.signs[0] in ("=", "in") and len(node.sides) == 2 and _is_name(node.sides[0]):
        inside = _members(node.sides[1])
        if inside is not None:
            return [Relation(("=",), (node.sides[0], part)) for part in inside] if node.signs[0] == "=" else inside
    if any(isinstance(part, Call) and part.name in ("pm", "mp") for part in walk(node)):
        return [_with_sign(node, 1), _with_sign(node, -1)]
    return None


def _with_sign(node: Node, sign: int) -> Node:
    """The tree with every plus-minus replaced by `sign`, and every minus-plus by its opposite."""
    match node:
        case Call("pm", ()):
            return Num(Fraction(sign))
        case Call("mp", ()):
            return Num(Fraction(-sign))
        case Call(name, args):
            return Call(name, tuple(_with_sign(part, sign) for part in args))
        case Relation(signs, sides):
            return Relation(signs, tuple(_with_sign(part, sign) for part in sides))
        case Brackets(opening, closing, items):
            return Brackets(opening, closing, tuple(_with_sign(part, sign) for part in items))
    return node


def _same_members(ours: list[Node], theirs: list[Node]) -> bool:
    ours, theirs = _distinct(ours), _distinct(theirs)
    if len(ours) != len(theirs) or len(ours) > _MAX_MEMBERS:
        return False
    left = list(theirs)
    for member in ours:
        found = next((index for index, other in enumerate(left) if equal(member, other)), None)
        if found is None:
            return False
        del left[found]
    return True


def _distinct(members: list[Node]) -> list[Node]:
    return list(dict.fromkeys(members))


def _relations_equal(reference: Node, answer: Node) -> bool:
    if isinstance(reference, Relation) and isinstance(answer, Relation):
        ours, theirs = _named_value(reference, strict=True), _named_value(answer, strict=True)
        if ours is not None and theirs is not None and _same_name(ours.name, theirs.name):
            return equal(ours.value, theirs.value)
        return _equations_equal(reference, answer) or _sets_equal(reference, answer)
    if isinstance(answer, Relation):
        named = _named_value(answer, strict=False)
        return (named is not None and equal(reference, named.value)) or _sets_equal(reference, answer)
    assert isinstance(reference, Relation)
    named = _named_value(reference, strict=True)
    return (named is not None and equal(named.value, answer)) or _sets_equal(reference, answer)


@dataclass(frozen=True, slots=True)
class _Named:
    name: Node | None
    value: Node


def _same_name(ours: Node | None, theirs: Node | None) -> bool:
    """`x` and `x`; two names for a set or a point need not agree, because `in` gives none."""
    return ours == theirs or (ours is None) != (theirs is None)


def _named_value(relation: Relation, *, strict: bool) -> _Named | None:
    """What `name = value` says, for a chain too where all of its values agree; None where it says no such thing.

    With `strict` the name must be a plain one (`x`, `f(x)`, `AB`); without, any expression free of numbers will do
    (`m+n = 17`), because the reference, which is no equation, shows what was asked for.
    """
    signs, sides = list(relation.signs), list(relation.sides)
    if "~" in signs:  # x = 1/3 ~ 0.33: the exact value counts; x ~ 11 has no other
        cut = signs.index("~")
        if cut == 0 and not _is_label(sides[0]):
            return _Named(None, sides[0])
        signs, sides = (signs[:cut], sides[: cut + 1]) if cut else (["="], sides[:2])
    if signs == ["in"]:
        return _Named(None, sides[1]) if _is_name(sides[0]) else None
    if any(sign != "=" for sign in signs):
        return None
    is_name = _is_name if strict else _is_label
    name: Node | None = None
    if is_name(sides[0]):
        name, *sides = sides
    elif is_name(sides[-1]):
        *sides, name = sides
    elif any(symbols(side) for side in sides):
        return None
    if not all(equal(sides[-1], side) for side in sides[:-1]):
        return None
    return _Named(name, sides[-1])


def _is_name(node: Node) -> bool:
    match node:
        case Sym() | Call("apply" | "angle" | "prime", _) | Text():
            return True
        case Call("abs", (inside,)):
            return _is_name(inside)
        case Call("*" | "/" | "ratio", parts):
            return all(isinstance(part, Sym) and part.name[0].isupper() or _is_ratio(part) for part in parts)
        case Brackets(_, _, items):
            return bool(items) and all(isinstance(part, Sym) for part in items)
    return False


def _is_ratio(node: Node) -> bool:
    return isinstance(node, Call) and _is_name(node)


def _is_label(node: Node) -> bool:
    return _is_name(node) or (
        bool(symbols(node)) and not any(isinstance(part, Num | Brackets | Matrix | Union) for part in walk(node))
    )


def _difference(relation: Relation) -> Node:
    return Call("+", (relation.sides[0], Call("neg", (relation.sides[1],))))


def _equations_equal(reference: Relation, answer: Relation) -> bool:
    """Equations and inequalities with one sign: left minus right is a constant multiple, positive for inequalities."""
    if len(reference.signs) != 1 or len(answer.signs) != 1:
        return False
    (ours,), (theirs,) = reference.signs, answer.signs
    if any(isinstance(part, Brackets | Matrix | Union | Text) for side in (reference, answer) for part in walk(side)):
        return False
    ratio = constant_ratio(_difference(reference), _difference(answer))
    if ratio is None or ratio.imag != 0:
        return False
    if ours in ("=", "!="):
        return ours == theirs
    return theirs == (ours if ratio.real > 0 else _FLIPPED.get(ours))


def _ratios_equal(ours: tuple[Node, ...], theirs: tuple[Node, ...]) -> bool:
    zero = any(sign_of(part) in (0, None) and not symbols(part) for part in (*ours, *theirs))
    if zero:  # 1:00 is a time
        return len(ours) == len(theirs) and all(map(equal, ours, theirs))
    return len(ours) == len(theirs) and all(
        scalars_equal(Call("*", (a, theirs[0])), Call("*", (b, ours[0]))) for a, b in zip(ours, theirs, strict=True)
    )


@dataclass(frozen=True, slots=True)
class _Interval:
    low: Node
    high: Node
    low_open: bool
    high_open: bool


def _sets_equal(reference: Node, answer: Node) -> bool:
    ours, theirs = _intervals(reference), _intervals(answer)
    if not ours or not theirs or len(ours) != len(theirs):
        return False
    return all(any(_same_interval(a, b) for b in theirs) for a in ours) and all(
        any(_same_interval(a, b) for a in ours) for b in theirs
    )


def _same_interval(ours: _Interval, theirs: _Interval) -> bool:
    return (
        (ours.low_open or infinity(ours.low) is not None) == (theirs.low_open or infinity(theirs.low) is not None)
        and (ours.high_open or infinity(ours.high) is not None) == (theirs.high_open or infinity(theirs.high) is not None)
        and scalars_equal(ours.low, theirs.low)
        and scalars_equal(ours.high, theirs.high)
    )


def _intervals(node: Node) -> list[_Interval] | None:
    """A set of real numbers as intervals; None where it is none or is not understood."""
    match node:
        case Brackets("(" | "[", _, (low, high)):
            return [_Interval(low, high, node.opening == "(", node.closing == ")")]
        case Union(parts):
            found = [_intervals(part) for part in parts]
            return None if None in found else [interval for part in found if part for interval in part]
        case Text("R"):
            return [_Interval(Call("neg", (_INFINITE,)), _INFINITE, True, True)]
        case Relation(("in",), (_, inside)):
            return _intervals(inside)
        case Relation():
            return _solved(node)
    return None


def _solved(relation: Relation) -> list[_Interval] | None:
    """`x < 3`, `2 >= x`, `1 < x <= 3`, `0 < f(x) < 1` as intervals of what stands alone."""
    signs, sides = relation.signs, relation.sides
    if any(sign not in _FLIPPED for sign in signs):
        return None
    if signs[0] in (">", ">="):
        signs, sides = tuple(_FLIPPED[sign] for sign in reversed(signs)), tuple(reversed(sides))
    if any(sign not in ("<", "<=") for sign in signs):
        return None
    opened = [sign == "<" for sign in signs]
    minus = Call("neg", (_INFINITE,))
    if len(sides) == 3 and _is_name(sides[1]):
        return [_Interval(sides[0], sides[2], opened[0], opened[1])]
    if len(sides) == 2 and _is_name(sides[0]) and sign_of(sides[1]) is not None:
        return [_Interval(minus, sides[1], True, opened[0])]
    if len(sides) == 2 and _is_name(sides[1]) and sign_of(sides[0]) is not None:
        return [_Interval(sides[0], _INFINITE, opened[0], True)]
    return None
