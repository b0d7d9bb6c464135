r"""Sets of real numbers in any of their forms: `[1, 2)`, `1 \le x < 2`, `|x| > 1`, `\mathbb{R} \setminus \{5\}`.

A set is a list of pieces, each from a low to a high end. Where all ends are numbers the pieces are put in order and
those that touch are joined, so `[1,2] \cup [2,3]` is `[1,3]`; ends with variables are compared piece by piece.
"""

from fractions import Fraction

from rloo_verify.checkers.names import is_name
from rloo_verify.checkers.nodes import Brackets, Call, Node, Num, Relation, Sym, Text, Union, substituted, symbols
from rloo_verify.checkers.pieces import (
    MINUS,
    PLUS,
    REALS,
    Piece,
    either,
    intersection,
    joined,
    same_piece,
    union,
    without,
)
from rloo_verify.checkers.scalars import scalars_equal, sign_of

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Each inequality sign and what it becomes when both sides change sign."""


def sets_equal(reference: Node, answer: Node) -> bool:
    """Whether two trees are the same set of real numbers; False where either is no set that is understood."""
    ours, theirs = pieces_of(reference), pieces_of(answer)
    if ours is None or theirs is None or not (ours or theirs):
        return False
    ours, theirs = joined(ours) or ours, joined(theirs) or theirs
    return len(ours) == len(theirs) and all(any(same_piece(a, b) for b in theirs) for a in ours)


def pieces_of(node: Node) -> list[Piece] | None:
    """A set of real numbers as pieces; None where it is none or is not understood."""
    match node:
        case Brackets("(" | "[", ")" | "]", (low, high)):
            return [Piece(low, high, node.opening == "(", node.closing == ")")]
        case Brackets("{", "}", items):
            return [Piece(item, item, False, False) for item in items]
        case Brackets("{|", _, (variable, *conditions)):
            return _built(variable, conditions)
        case Brackets("", joint, items) if _same_variable(items):
            found = [pieces_of(item) for item in items]
            return union(found) if joint == "or" else either(found)
        case Union(parts):
            return union([pieces_of(part) for part in parts])
        case Call("setminus", (whole, part)):
            return without(pieces_of(whole), pieces_of(part))
        case Call("+", (Text("R") as whole, Call("neg", (Brackets("{") as part,)))):
            return without(pieces_of(whole), pieces_of(part))
        case Call("apply", (Sym("cap"), left, right)):
            return intersection(pieces_of(left), pieces_of(right))
        case Text("R"):
            return REALS
        case Relation(("in",), (_, inside)):
            return pieces_of(inside)
        case Relation(("notin",), (_, inside)):
            return without(REALS, pieces_of(inside))
        case Relation():
            return _solved(node)
    return None


def _same_variable(items: tuple[Node, ...]) -> bool:
    """Whether a list holds nothing but relations, all on the same one variable."""
    names = {symbols(item) for item in items}
    return all(isinstance(item, Relation) for item in items) and len(names) == 1 and len(names.pop()) == 1


def _built(variable: Node, conditions: list[Node]) -> list[Piece] | None:
    r"""`\{x \mid x > 1\}`: all conditions hold."""
    if isinstance(variable, Relation) and variable.signs == ("in",):
        conditions, variable = [variable, *conditions], variable.sides[0]
    if not is_name(variable) or not conditions:
        return None
    found: list[Piece] | None = REALS
    for condition in conditions:
        found = intersection(found, pieces_of(condition))
    return found


def _solved(relation: Relation) -> list[Piece] | None:
    """`x < 3`, `1 < x <= 3`, `0 < f(x) < 1`, `|x - 1| > 2`, `2x + 1 >= 5` as pieces of what stands alone."""
    direct = _isolated(relation)
    if direct is not None:
        return direct
    names = symbols(relation)
    if len(names) != 1:
        return None
    found: list[Piece] | None = REALS
    for sign, left, right in zip(relation.signs, relation.sides, relation.sides[1:], strict=False):
        found = intersection(found, _one_sign(sign, left, right, next(iter(names))))
    return found


def _isolated(relation: Relation) -> list[Piece] | None:
    signs, sides = relation.signs, relation.sides
    if any(sign not in FLIPPED for sign in signs):
        return None
    if signs[0] in (">", ">="):
        signs, sides = tuple(FLIPPED[sign] for sign in reversed(signs)), tuple(reversed(sides))
    if any(sign not in ("<", "<=") for sign in signs):
        return None
    opened = [sign == "<" for sign in signs]
    plain = [is_name(side) and not (isinstance(side, Call) and side.name == "abs") for side in sides]
    if len(sides) == 3 and plain[1]:
        return [Piece(sides[0], sides[2], opened[0], opened[1])]
    if len(sides) == 2 and plain[0] and sign_of(sides[1]) is not None:
        return [Piece(MINUS, sides[1], True, opened[0])]
    if len(sides) == 2 and plain[1] and sign_of(sides[0]) is not None:
        return [Piece(sides[0], PLUS, opened[0], True)]
    return None


def _one_sign(sign: str, left: Node, right: Node, name: str) -> list[Piece] | None:
    """Solve `left sign right` for the one variable where both sides are linear, or one is the size of a linear one."""
    if isinstance(right, Call) and right.name == "abs":
        left, right, sign = right, left, FLIPPED.get(sign, sign)
    if isinstance(left, Call) and left.name == "abs" and not symbols(right):
        inside, minus = left.args[0], Call("neg", (right,))
        if (sign_of(right) or 0) <= 0:
            return None
        if sign in ("<", "<="):
            return intersection(_linear(sign, inside, right, name), _linear(FLIPPED[sign], inside, minus, name))
        return union([_linear(sign, inside, right, name), _linear(FLIPPED.get(sign, sign), inside, minus, name)])
    return _linear(sign, left, right, name)


def _linear(sign: str, left: Node, right: Node, name: str) -> list[Piece] | None:
    """Solve `left sign right` where the difference is `slope * name + start`, which is tried at several values."""
    difference = Call("+", (left, Call("neg", (right,))))
    start, one = (substituted(difference, name, Num(Fraction(value))) for value in (0, 1))
    slope = Call("+", (one, Call("neg", (start,))))
    for value in (Fraction(3), Fraction(-5), Fraction(1, 7)):
        line = Call("+", (start, Call("*", (slope, Num(value)))))
        if not scalars_equal(substituted(difference, name, Num(value)), line):
            return None
    direction = sign_of(slope)
    if not direction:
        return None
    root = Call("/", (Call("neg", (start,)), slope))
    if sign == "!=":
        return [Piece(MINUS, root, True, True), Piece(root, PLUS, True, True)]
    if sign not in FLIPPED:
        return [Piece(root, root, False, False)] if sign == "=" else None
    sign = sign if direction > 0 else FLIPPED[sign]
    if sign in ("<", "<="):
        return [Piece(MINUS, root, True, sign == "<")]
    return [Piece(root, PLUS, sign == ">", True)]
