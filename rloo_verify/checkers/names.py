r"""Names in front of values: `x = 5`, `f(x) = x^2`, `AB = 3`, `x \in [0,1]`, `x = 1/3 \approx 0.33`."""

from dataclasses import dataclass

from rloo_verify.checkers.nodes import Brackets, Call, Matrix, Node, Num, Relation, Sym, Text, Union, symbols, walk


@dataclass(frozen=True, slots=True)
class Named:
    """A name, None where none is given, and the values that a chain says it has, at least one."""

    name: Node | None
    values: tuple[Node, ...]


def same_name(ours: Node | None, theirs: Node | None) -> bool:
    """Whether two names agree. Where only one is given they do: `x = 5` and `5 = 2 + 3`."""
    return ours == theirs or (ours is None) != (theirs is None)


def named_values(relation: Relation, *, strict: bool) -> Named | None:
    """What `name = value`, or a chain `name = value = value`, says; None where it says no such thing.

    With `strict` the name must be a plain one (`x`, `f(x)`, `AB`); without, any expression free of numbers will do
    (`m+n = 17`), because the reference, which is no equation, shows what was asked for.
    """
    signs, sides = list(relation.signs), list(relation.sides)
    if "~" in signs:  # x = 1/3 ~ 0.33: the exact value counts; x ~ 11 has no other
        cut = signs.index("~")
        if cut == 0 and not _is_label(sides[0]):
            return Named(None, (sides[0],))
        signs, sides = (signs[:cut], sides[: cut + 1]) if cut else (["="], sides[:2])
    if signs == ["in"]:
        return Named(None, (sides[1],)) if is_name(sides[0]) else None
    if any(sign != "=" for sign in signs):
        return None
    named = is_name if strict else _is_label
    name: Node | None = None
    if named(sides[0]):
        name, *sides = sides
    elif named(sides[-1]):
        *sides, name = sides
    elif any(symbols(side) for side in sides):
        return None
    return Named(name, tuple(sides))


def is_name(node: Node) -> bool:
    r"""Whether a tree is a plain name: `x`, `f(x)`, `AB`, `\angle A`, `(x, y)`, words."""
    match node:
        case Sym() | Call("apply" | "angle" | "prime", _) | Text():
            return True
        case Call("abs", (inside,)):
            return is_name(inside)
        case Call("*" | "/" | "ratio", parts):
            return all((isinstance(part, Sym) and part.name[0].isupper()) or _is_ratio(part) for part in parts)
        case Brackets(_, _, items):
            return bool(items) and all(isinstance(part, Sym) for part in items)
    return False


def _is_ratio(node: Node) -> bool:
    return isinstance(node, Call) and is_name(node)


def _is_label(node: Node) -> bool:
    return is_name(node) or (
        bool(symbols(node)) and not any(isinstance(part, Num | Brackets | Matrix | Union) for part in walk(node))
    )
