r"""Sets of real numbers in any of their forms: `[1, 2)`, `1 \le x < 2`, `x \in [1, 2)`, `(-1, 0) \cup (1, \infty)`."""

from dataclasses import dataclass

from rloo_verify.checkers.names import is_name
from rloo_verify.checkers.nodes import Brackets, Call, Const, Node, Relation, Text, Union
from rloo_verify.checkers.scalars import infinity, scalars_equal, sign_of

FLIPPED = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}
"""Each inequality sign and what it becomes when both sides change sign."""

_INFINITE = Const("oo")


@dataclass(frozen=True, slots=True)
class _Interval:
    low: Node
    high: Node
    low_open: bool
    high_open: bool


def sets_equal(reference: Node, answer: Node) -> bool:
    """Whether two trees are the same set of real numbers; False where either is no set that is understood."""
    ours, theirs = _intervals(reference), _intervals(answer)
    if not ours or not theirs or len(ours) != len(theirs):
        return False
    return all(any(_same_interval(a, b) for b in theirs) for a in ours) and all(
        any(_same_interval(a, b) for a in ours) for b in theirs
    )


def _same_interval(ours: _Interval, theirs: _Interval) -> bool:
    return (
        (ours.low_open or infinity(ours.low) is not None) == (theirs.low_open or infinity(theirs.low) is not None)
        and (ours.high_open or infinity(ours.high) is not None)
        == (theirs.high_open or infinity(theirs.high) is not None)
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
    if any(sign not in FLIPPED for sign in signs):
        return None
    if signs[0] in (">", ">="):
        signs, sides = tuple(FLIPPED[sign] for sign in reversed(signs)), tuple(reversed(sides))
    if any(sign not in ("<", "<=") for sign in signs):
        return None
    opened = [sign == "<" for sign in signs]
    minus = Call("neg", (_INFINITE,))
    if len(sides) == 3 and is_name(sides[1]):
        return [_Interval(sides[0], sides[2], opened[0], opened[1])]
    if len(sides) == 2 and is_name(sides[0]) and sign_of(sides[1]) is not None:
        return [_Interval(minus, sides[1], True, opened[0])]
    if len(sides) == 2 and is_name(sides[1]) and sign_of(sides[0]) is not None:
        return [_Interval(sides[0], _INFINITE, opened[0], True)]
    return None
