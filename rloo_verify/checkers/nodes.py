"""The expressions that the parser makes: immutable trees, compared by structure, free of sympy.

Nothing is computed here, so a tree of `9^{9^{9^9}}` is as cheap as one of `x`.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Num:
    """A number as written; `places` digits followed the decimal point, None where there was none."""

    value: Fraction
    places: int | None = None


@dataclass(frozen=True, slots=True)
class Sym:
    r"""A variable, subscript included: `x`, `x_1`, `\alpha`."""

    name: str


@dataclass(frozen=True, slots=True)
class Const:
    """`pi`, `e`, `i` or `oo` (infinity)."""

    name: str


@dataclass(frozen=True, slots=True)
class Call:
    """An operation or function applied to arguments.

    Operations: `+`, `*` (any number of arguments), `/`, `^`, `neg`, `!`, `%`, `deg`, `pm` and `mp` (the sign alone),
    `base` (digits and base). Functions: `sin`, `log` (of x, to the base b), `sqrt`, `root` (of x, degree n), `abs`,
    `binom`... A function that the text names itself is `apply` of its symbol and its arguments.
    """

    name: str
    args: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Brackets:
    """Several things, or one, between brackets that may mean something: a tuple, an interval, a set.

    `opening` and `closing` are `(`, `[`, `{` (and their partners), or empty for a bare list.
    """

    opening: str
    closing: str
    items: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Relation:
    r"""A chain `a < b \\le c`: `sides` has one more element than `signs`, each of `= != < <= > >= ~ in`."""

    signs: tuple[str, ...]
    sides: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Matrix:
    """Rows of entries."""

    rows: tuple[tuple["Node", ...], ...]


@dataclass(frozen=True, slots=True)
class Union:
    """The union of several sets."""

    parts: tuple["Node", ...]


@dataclass(frozen=True, slots=True)
class Quantity:
    """A value with a unit, or with a noun that says what is counted."""

    value: "Node"
    unit: str


@dataclass(frozen=True, slots=True)
class Text:
    """Words."""

    words: str


Node: TypeAlias = Num | Sym | Const | Call | Brackets | Relation | Matrix | Union | Quantity | Text


def children(node: Node) -> tuple[Node, ...]:
    """The direct parts of a node."""
    match node:
        case Call(_, args):
            return args
        case Brackets(_, _, items):
            return items
        case Relation(_, sides):
            return sides
        case Matrix(rows):
            return tuple(entry for row in rows for entry in row)
        case Union(parts):
            return parts
        case Quantity(value, _):
            return (value,)
    return ()


def rebuilt(node: Node, parts: Sequence[Node]) -> Node:
    """The same node with other direct parts, as many as `children` gives."""
    match node:
        case Call(name, _):
            return Call(name, tuple(parts))
        case Brackets(opening, closing, _):
            return Brackets(opening, closing, tuple(parts))
        case Relation(signs, _):
            return Relation(signs, tuple(parts))
        case Matrix(rows):
            rest = iter(parts)
            return Matrix(tuple(tuple(next(rest) for _ in row) for row in rows))
        case Union(_):
            return Union(tuple(parts))
        case Quantity(_, unit):
            return Quantity(parts[0], unit)
    return node


def substituted(node: Node, name: str, value: Node) -> Node:
    """The tree with `value` in place of the variable `name`."""
    if isinstance(node, Sym):
        return value if node.name == name else node
    parts = children(node)
    return rebuilt(node, [substituted(part, name, value) for part in parts]) if parts else node


def walk(node: Node) -> Iterator[Node]:
    """The node and everything below it."""
    yield node
    for child in children(node):
        yield from walk(child)


def depth(node: Node) -> int:
    """How deep a tree is: 1 for a leaf. Not recursive, so it may be asked of any tree."""
    deepest, level = 0, [node]
    while level:
        deepest += 1
        level = [child for part in level for child in children(part)]
    return deepest


def symbols(node: Node) -> frozenset[str]:
    """Names of the variables in a tree."""
    return frozenset(part.name for part in walk(node) if isinstance(part, Sym))


def product(left: Node, right: Node) -> Node:
    """The product of two factors; a product that grows to the right stays flat."""
    if isinstance(left, Call) and left.name == "*":
        return Call("*", (*left.args, right))
    return Call("*", (left, right))
