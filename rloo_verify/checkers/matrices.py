r"""Matrices in any of their forms: `\begin{pmatrix}`, `[[1,2],[3,4]]`, a multiple, a sum, a transpose.

Scalars in front and sums are carried into the entries, whose trees are then compared one by one. A row or column of
numbers may also be written as a vector: `(1, 2)`.
"""

from collections.abc import Callable
from typing import TypeAlias

from rloo_verify.checkers.nodes import Brackets, Call, Matrix, Node, Sym, walk

Rows: TypeAlias = tuple[tuple[Node, ...], ...]

_MOST_PRODUCTS = 64


def matrices_equal(reference: Node, answer: Node, equal: Callable[[Node, Node], bool]) -> bool:
    """Whether two trees, at least one of which holds a matrix, are the same matrix."""
    ours, theirs = rows_of(reference), rows_of(answer)
    if ours is None or theirs is None:
        return False
    if isinstance(answer, Brackets) and len(theirs) == 1 and len(ours) > 1 and all(len(row) == 1 for row in ours):
        theirs = tuple(zip(*theirs, strict=True))  # a column vector written in one line
    return [len(row) for row in ours] == [len(row) for row in theirs] and all(
        equal(a, b) for row, other in zip(ours, theirs, strict=True) for a, b in zip(row, other, strict=True)
    )


def has_matrix(node: Node) -> bool:
    """Whether a tree holds a matrix."""
    return any(isinstance(part, Matrix) for part in walk(node))


def rows_of(node: Node) -> Rows | None:
    """The rows of a matrix with everything around it carried out; None where a tree is no matrix."""
    match node:
        case Matrix(rows):
            return rows
        case Brackets("[" | "(", "]" | ")", items) if items:
            return _rows_of_brackets(items)
        case Call("neg", (inside,)):
            return _each(rows_of(inside), lambda entry: Call("neg", (entry,)))
        case Call("/", (inside, under)):
            return _each(rows_of(inside), lambda entry: Call("/", (entry, under)))
        case Call("*", factors) if has_matrix(node):
            return _scaled(factors)
        case Call("+", terms):
            return _added([rows_of(term) for term in terms])
        case Call("^", (inside, Sym("T" | r"\top" | r"\intercal"))):
            turned = rows_of(inside)
            return None if turned is None else _transposed(turned)
    return None


def _rows_of_brackets(items: tuple[Node, ...]) -> Rows | None:
    if len(items) == 1 and isinstance(items[0], Matrix):
        return items[0].rows
    if all(isinstance(item, Brackets) for item in items):
        return tuple(item.items for item in items if isinstance(item, Brackets))
    return None if has_matrix(Brackets("(", ")", items)) else (items,)


def _scaled(factors: tuple[Node, ...]) -> Rows | None:
    matrices = [rows_of(factor) for factor in factors if has_matrix(factor)]
    others = tuple(factor for factor in factors if not has_matrix(factor))
    total = matrices[0]
    for rows in matrices[1:]:
        total = _multiplied(total, rows)
    return _each(total, lambda entry: Call("*", (*others, entry))) if others else total


def _multiplied(left: Rows | None, right: Rows | None) -> Rows | None:
    if left is None or right is None or any(len(row) != len(right) for row in left):
        return None
    if len(left) * len(right) * len(right[0]) > _MOST_PRODUCTS:
        return None
    columns = _transposed(right)
    return tuple(
        tuple(Call("+", tuple(Call("*", pair) for pair in zip(row, column, strict=True))) for column in columns)
        for row in left
    )


def _added(matrices: list[Rows | None]) -> Rows | None:
    known = [rows for rows in matrices if rows is not None]
    if len(known) < len(matrices) or len({tuple(map(len, rows)) for rows in known}) != 1:
        return None
    return tuple(tuple(Call("+", entries) for entries in zip(*rows, strict=True)) for rows in zip(*known, strict=True))


def _each(rows: Rows | None, change: Callable[[Node], Node]) -> Rows | None:
    return None if rows is None else tuple(tuple(map(change, row)) for row in rows)


def _transposed(rows: Rows) -> Rows:
    return tuple(zip(*rows, strict=True)) if len(set(map(len, rows))) == 1 else rows


def determinant(rows: Rows) -> Node | None:
    """The determinant of a matrix of at most three rows, as a tree; None for any other."""
    if not 1 <= len(rows) <= 3 or any(len(row) != len(rows) for row in rows):
        return None
    if len(rows) == 1:
        return rows[0][0]
    terms: list[Node] = []
    for column, entry in enumerate(rows[0]):
        rest = determinant(tuple((*row[:column], *row[column + 1 :]) for row in rows[1:]))
        assert rest is not None
        term = Call("*", (entry, rest))
        terms.append(Call("neg", (term,)) if column % 2 else term)
    return Call("+", tuple(terms))
