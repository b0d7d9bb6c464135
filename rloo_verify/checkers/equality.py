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

from fractions import Fraction

from rloo_verify.checkers.intervals import FLIPPED, sets_equal
from rloo_verify.checkers.names import is_name, named_values, same_name
from rloo_verify.checkers.nodes import (
    Brackets,
    Call,
    Matrix,
    Node,
    Num,
    Quantity,
    Relation,
    Text,
    Union,
    children,
    rebuilt,
    symbols,
    walk,
)
from rloo_verify.checkers.scalars import constant_ratio, scalars_equal, sign_of

_MAX_MEMBERS = 64


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
                equal(a, b)
                for ours, theirs in zip(ours_rows, their_rows, strict=True)
                for a, b in zip(ours, theirs, strict=True)
            )
        case (Union() | Text("R"), _) | (_, Union() | Text("R")):
            return sets_equal(reference, answer)
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
    if isinstance(node, Relation) and node.signs[0] in ("=", "in") and len(node.sides) == 2 and is_name(node.sides[0]):
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
    return rebuilt(node, [_with_sign(part, sign) for part in children(node)])


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
        ours, theirs = named_values(reference, strict=True), named_values(answer, strict=True)
        if ours is not None and theirs is not None and same_name(ours.name, theirs.name):
            return _all_equal(ours.values[-1], theirs.values)
        return _equations_equal(reference, answer) or sets_equal(reference, answer)
    if isinstance(answer, Relation):
        named = named_values(answer, strict=False)
        return _all_equal(reference, named.values if named else ()) or sets_equal(reference, answer)
    assert isinstance(reference, Relation)
    named = named_values(reference, strict=True)
    return (named is not None and equal(named.values[-1], answer)) or sets_equal(reference, answer)


def _all_equal(reference: Node, values: tuple[Node, ...]) -> bool:
    """Whether a chain `name = value = value` says what the reference is, without contradicting itself."""
    return bool(values) and all(equal(reference, value) for value in values)


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
    return theirs == (ours if ratio.real > 0 else FLIPPED.get(ours))


def _ratios_equal(ours: tuple[Node, ...], theirs: tuple[Node, ...]) -> bool:
    zero = any(sign_of(part) in (0, None) and not symbols(part) for part in (*ours, *theirs))
    if zero:  # 1:00 is a time
        return len(ours) == len(theirs) and all(map(equal, ours, theirs))
    return len(ours) == len(theirs) and all(
        scalars_equal(Call("*", (a, theirs[0])), Call("*", (b, ours[0]))) for a, b in zip(ours, theirs, strict=True)
    )
