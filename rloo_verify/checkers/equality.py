"""Whether an answer is what the reference is. The reference decides what is asked for; doubt is inequality.

The rules are stated one by one in docs/math-equality.md, and each is a test in tests/test_math_equality.py.
"""

from fractions import Fraction

from rloo_verify.checkers.clock import is_time_of_day, same_time
from rloo_verify.checkers.descriptions import described_equal
from rloo_verify.checkers.intervals import FLIPPED, sets_equal
from rloo_verify.checkers.levels import Level, note
from rloo_verify.checkers.matrices import has_matrix, matrices_equal
from rloo_verify.checkers.members import members, same_members
from rloo_verify.checkers.names import is_name, named_values, same_name
from rloo_verify.checkers.nodes import (
    Brackets,
    Call,
    Matrix,
    Node,
    Num,
    Quantity,
    Relation,
    Sym,
    Text,
    Union,
    symbols,
    walk,
)
from rloo_verify.checkers.scalars import constant_ratio, scalars_equal, sign_of
from rloo_verify.checkers.units import same_unit

_NEAR = Fraction(1, 20)


def equal(reference: Node, answer: Node) -> bool:
    """Whether `answer` is what `reference` is.

    Raises:
        TooComplexError: A number would grow beyond the limits.
    """
    if reference == answer:
        note(Level.FORM)
        return True
    if isinstance(reference, Quantity) or isinstance(answer, Quantity):
        return _quantities_equal(reference, answer)
    if _is_described(reference) or _is_described(answer):
        return _descriptions_equal(reference, answer)
    ours, theirs = members(reference), members(answer)
    if ours is not None or theirs is not None:
        if same_members(ours, theirs, reference, answer, equal):
            return True
        if _as_coordinates(reference, answer):
            return True
        if _is_operation(reference) or _is_operation(answer):
            return _as_sets(reference, answer)
        return _only_relations(ours) and _only_relations(theirs) and _as_sets(reference, answer)
    if isinstance(reference, Relation) or isinstance(answer, Relation):
        return _relations_equal(reference, answer)
    return _things_equal(reference, answer)


def _things_equal(reference: Node, answer: Node) -> bool:
    if has_matrix(reference):
        return matrices_equal(reference, answer, equal)
    match reference, answer:
        case Brackets(), Brackets():
            return (
                (reference.opening, reference.closing) == (answer.opening, answer.closing)
                and len(reference.items) == len(answer.items)
                and all(map(equal, reference.items, answer.items))
            )
        case (Call("time" | "date") as clock, other) | (other, Call("time" | "date") as clock):
            return same_time(clock, other)
        case _ if _is_operation(reference) or _is_operation(answer):
            return _as_sets(reference, answer)
        case Call("ratio", ours_parts), Call("ratio", their_parts):
            return _ratios_equal(ours_parts, their_parts)
        case (Text() | Brackets(), _) | (_, Text() | Matrix() | Brackets()):
            return False
    return scalars_equal(reference, answer)


def _quantities_equal(reference: Node, answer: Node) -> bool:
    ours, our_unit = (reference.value, reference.unit) if isinstance(reference, Quantity) else (reference, None)
    theirs, their_unit = (answer.value, answer.unit) if isinstance(answer, Quantity) else (answer, None)
    if our_unit is not None and their_unit is not None and not same_unit(our_unit, their_unit):
        return False
    return equal(ours, theirs)


def _is_described(node: Node) -> bool:
    return isinstance(node, Brackets) and node.opening == "{|"


def _descriptions_equal(reference: Node, answer: Node) -> bool:
    if _as_sets(reference, answer):
        return True
    both = isinstance(reference, Brackets) and isinstance(answer, Brackets) and _is_described(reference)
    return both and _is_described(answer) and described_equal(reference, answer, equal)  # type: ignore[arg-type]


def _is_operation(node: Node) -> bool:
    """Whether a tree is the real numbers, or makes a set out of others."""
    match node:
        case Union() | Text("R") | Call("setminus") | Call("apply", (Sym("cap"), *_)):
            return True
        case Call("+", (Text(), Call("neg", (Brackets("{"),)))):
            return True
    return False


def _as_coordinates(reference: Node, answer: Node) -> bool:
    """`x = 1, y = 2` for the tuple (1, 2), or the other way round; the names are in alphabetical order."""
    match reference, answer:
        case Brackets("(", ")", items), Brackets("", "", named) if (values := _named_in_order(named)) is not None:
            return len(items) == len(values) and all(map(equal, items, values))
        case Brackets("", "", named), Brackets("(", ")", items) if (values := _named_in_order(named)) is not None:
            return len(items) == len(values) and all(map(equal, values, items))
    return False


def _named_in_order(items: tuple[Node, ...]) -> list[Node] | None:
    """The values of `name = value` in a row, where the names are plain, different and in alphabetical order."""
    names, values = [], []
    for item in items:
        match item:
            case Relation(("=",), (Sym(name), value)):
                names.append(name)
                values.append(value)
            case _:
                return None
    return values if names == sorted(set(names)) else None


def _only_relations(members: list[Node] | None) -> bool:
    return members is None or (bool(members) and all(isinstance(member, Relation) for member in members))


def _as_sets(reference: Node, answer: Node) -> bool:
    """Whether both are the same set of real numbers, of variables that have the same name where both name one."""
    ours, theirs = (symbols(node) if _has_relation(node) else None for node in (reference, answer))
    if (ours and theirs and ours != theirs) or not sets_equal(reference, answer):
        return False
    note(Level.STRUCTURE)
    return True


def _has_relation(node: Node) -> bool:
    return any(isinstance(part, Relation) for part in walk(node)) and not _is_described(node)


def _relations_equal(reference: Node, answer: Node) -> bool:
    if isinstance(reference, Relation) and isinstance(answer, Relation):
        ours, theirs = named_values(reference, strict=True), named_values(answer, strict=True)
        if ours is not None and theirs is not None and same_name(ours.name, theirs.name):
            return _all_equal(ours.values[-1], theirs.values)
        return _equations_equal(reference, answer) or _as_sets(reference, answer) or _same_sides(reference, answer)
    if isinstance(answer, Relation):
        if not _approximates(answer):
            return False
        named = named_values(answer, strict=False)
        return _all_equal(reference, named.values if named else ()) or _as_sets(reference, answer)
    assert isinstance(reference, Relation)
    named = named_values(reference, strict=True)
    return (named is not None and equal(named.values[-1], answer)) or _as_sets(reference, answer)


def _approximates(relation: Relation) -> bool:
    r"""Whether `7 \approx 8` is sound: 7 is not about 8. In `x = 1/3 \approx 0.3` the exact value counts alone."""
    left, right = relation.sides[:2]
    if relation.signs[0] != "~" or symbols(left) or symbols(right):
        return True
    apart = Call("abs", (Call("+", (left, Call("neg", (right,)))),))
    allowed = Call("*", (Num(_NEAR), Call("abs", (left,))))
    return sign_of(Call("+", (apart, Call("neg", (allowed,))))) != 1


def _all_equal(reference: Node, values: tuple[Node, ...]) -> bool:
    """Whether a chain `name = value = value` says what the reference is, without contradicting itself."""
    return bool(values) and all(equal(reference, value) for value in values)


def _same_sides(reference: Relation, answer: Relation) -> bool:
    r"""Relations other than equations and inequalities, `G/N \cong K`: the same sign between equal sides."""
    if reference.signs != answer.signs or len(reference.signs) != 1 or is_name(reference.sides[0]):
        return False
    if reference.signs[0] in FLIPPED or reference.signs[0] in ("=", "!=", "~"):
        return False
    return all(map(equal, reference.sides, answer.sides))


def _difference(relation: Relation) -> Node:
    return Call("+", (relation.sides[0], Call("neg", (relation.sides[1],))))


def _equations_equal(reference: Relation, answer: Relation) -> bool:
    """Equations and inequalities with one sign: left minus right is a constant multiple, positive for inequalities."""
    if len(reference.signs) != 1 or len(answer.signs) != 1:
        return False
    (ours,), (theirs,) = reference.signs, answer.signs
    if any(isinstance(part, Brackets | Matrix | Union | Text) for side in (reference, answer) for part in walk(side)):
        return False
    if ours not in FLIPPED and ours not in ("=", "!="):
        return False
    ratio = constant_ratio(_difference(reference), _difference(answer))
    if ratio is None or ratio.imag != 0:
        return False
    if ours in ("=", "!="):
        return ours == theirs
    return theirs == (ours if ratio.real > 0 else FLIPPED.get(ours))


def _ratios_equal(ours: tuple[Node, ...], theirs: tuple[Node, ...]) -> bool:
    """In proportion; but as written where the reference may be a time (4:15 is not 8:30) or has a zero."""
    zero = any(sign_of(part) in (0, None) and not symbols(part) for part in (*ours, *theirs))
    if zero or is_time_of_day(ours):
        return len(ours) == len(theirs) and all(map(equal, ours, theirs))
    return len(ours) == len(theirs) and all(
        scalars_equal(Call("*", (a, theirs[0])), Call("*", (b, ours[0]))) for a, b in zip(ours, theirs, strict=True)
    )
