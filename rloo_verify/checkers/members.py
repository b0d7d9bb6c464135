"""Things of several members: bare lists, sets in braces, plus-minus. Order and repetitions do not count."""

from collections.abc import Callable
from fractions import Fraction

from rloo_verify.checkers.names import is_name
from rloo_verify.checkers.nodes import Brackets, Call, Node, Num, Relation, children, rebuilt, walk

_MOST_MEMBERS = 64


def members(node: Node) -> list[Node] | None:
    """The members of a bare list, a set in braces, or a plus-minus; None for anything that is one thing."""
    if isinstance(node, Brackets) and node.opening in ("", "{"):
        return [part for item in node.items for part in (members(item) or [item])]
    if isinstance(node, Relation) and node.signs[0] in ("=", "in") and len(node.sides) == 2 and is_name(node.sides[0]):
        inside = members(node.sides[1])
        if inside is not None:
            return [Relation(("=",), (node.sides[0], part)) for part in inside] if node.signs[0] == "=" else inside
    if any(isinstance(part, Call) and part.name in ("pm", "mp") for part in walk(node)):
        return [_with_sign(node, 1), _with_sign(node, -1)]
    return None


def same_members(
    ours: list[Node] | None,
    theirs: list[Node] | None,
    reference: Node,
    answer: Node,
    equal: Callable[[Node, Node], bool],
) -> bool:
    """Whether two lists have the same members; where one is None, `reference` or `answer` itself is its one member."""
    if ours == [] or theirs == []:
        return ours == theirs
    ours, theirs = _distinct(ours or [reference]), _distinct(theirs or [answer])
    if len(ours) != len(theirs) or len(ours) > _MOST_MEMBERS:
        return False
    left = list(theirs)
    for member in ours:
        found = next((index for index, other in enumerate(left) if equal(member, other)), None)
        if found is None:
            return False
        del left[found]
    return True


def _with_sign(node: Node, sign: int) -> Node:
    """The tree with every plus-minus replaced by `sign`, and every minus-plus by its opposite."""
    match node:
        case Call("pm", ()):
            return Num(Fraction(sign))
        case Call("mp", ()):
            return Num(Fraction(-sign))
    return rebuilt(node, [_with_sign(part, sign) for part in children(node)])


def _distinct(members: list[Node]) -> list[Node]:
    return list(dict.fromkeys(members))
