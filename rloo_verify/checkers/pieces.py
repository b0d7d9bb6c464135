"""Sets of real numbers as pieces, and their union, intersection, difference, and joining of what touches.

The ends of pieces are trees. Every operation that needs to know which end comes first gives None where it cannot.
"""

from dataclasses import dataclass

from rloo_verify.checkers.nodes import Call, Const, Node
from rloo_verify.checkers.scalars import infinity, scalars_equal, sign_of

PLUS = Const("oo")
MINUS = Call("neg", (PLUS,))
_MOST_PIECES = 16


@dataclass(frozen=True, slots=True)
class Piece:
    """The numbers between two ends; an open end does not belong to it."""

    low: Node
    high: Node
    low_open: bool
    high_open: bool


REALS = [Piece(MINUS, PLUS, True, True)]
"""All real numbers."""


def same_piece(ours: Piece, theirs: Piece) -> bool:
    """Whether two pieces have equal ends that are open alike; an infinite end is always open."""
    return (
        (ours.low_open or infinity(ours.low) is not None) == (theirs.low_open or infinity(theirs.low) is not None)
        and (ours.high_open or infinity(ours.high) is not None)
        == (theirs.high_open or infinity(theirs.high) is not None)
        and scalars_equal(ours.low, theirs.low)
        and scalars_equal(ours.high, theirs.high)
    )


def union(found: list[list[Piece] | None]) -> list[Piece] | None:
    """All pieces of several sets; None where one of the sets is not understood."""
    if any(pieces is None for pieces in found):
        return None
    return [piece for pieces in found for piece in pieces or ()]


def either(found: list[list[Piece] | None]) -> list[Piece] | None:
    """Conditions in a row without a word between them: all of them hold, or, where that is impossible, one of them."""
    both = found[0]
    for other in found[1:]:
        both = intersection(both, other)
    return both or union(found)


def _order(a: Node, b: Node) -> int | None:
    """-1, 0 or 1 as `a` is below, at or above `b`; None where that is not known."""
    ours, theirs = infinity(a) or 0, infinity(b) or 0
    if ours or theirs:
        return (ours > theirs) - (ours < theirs)
    if scalars_equal(a, b):
        return 0
    return sign_of(Call("+", (a, Call("neg", (b,)))))


def intersection(ours: list[Piece] | None, theirs: list[Piece] | None) -> list[Piece] | None:
    """What two sets share; None where the ends cannot be put in order."""
    if ours is None or theirs is None or len(ours) * len(theirs) > _MOST_PIECES**2:
        return None
    shared = []
    for a in ours:
        for b in theirs:
            low, high = _order(a.low, b.low), _order(a.high, b.high)
            if low is None or high is None:
                return None
            piece = Piece(
                b.low if low < 0 else a.low,
                b.high if high > 0 else a.high,
                (a.low_open and low >= 0) or (b.low_open and low <= 0),
                (a.high_open and high <= 0) or (b.high_open and high >= 0),
            )
            filled = _order(piece.low, piece.high)
            if filled is None:
                return None
            if filled < 0 or (filled == 0 and not piece.low_open and not piece.high_open):
                shared.append(piece)
    return shared


def without(whole: list[Piece] | None, removed: list[Piece] | None) -> list[Piece] | None:
    """The numbers of `whole` that are in no piece of `removed`."""
    for piece in removed or ():
        below = Piece(MINUS, piece.low, True, not piece.low_open)
        above = Piece(piece.high, PLUS, not piece.high_open, True)
        sides = [side for side in (below, above) if _order(side.low, side.high) != 0]
        whole = intersection(whole, sides)
    return whole if removed is not None else None


def joined(pieces: list[Piece]) -> list[Piece] | None:
    """The pieces in order, those that touch or overlap joined; None where the ends cannot be put in order."""
    if len(pieces) > _MOST_PIECES:
        return None
    done: list[Piece] = []
    rest = list(pieces)
    while rest:
        first = rest[0]
        for piece in rest[1:]:
            order = _order(piece.low, first.low)
            if order is None:
                return None
            if order < 0 or (order == 0 and not piece.low_open):
                first = piece
        rest.remove(first)
        width = _order(first.low, first.high)
        if width is None:
            return None
        if width > 0 or (width == 0 and (first.low_open or first.high_open)):
            continue  # an empty piece
        done = _appended(done, first)
    return done


def _appended(done: list[Piece], piece: Piece) -> list[Piece]:
    if not done:
        return [piece]
    last = done[-1]
    touch, beyond = _order(piece.low, last.high), _order(piece.high, last.high)
    if touch is None or touch > 0 or (touch == 0 and piece.low_open and last.high_open):
        return [*done, piece]
    if beyond is None or beyond < 0:
        return done
    open_end = piece.high_open and (last.high_open or beyond > 0)
    return [*done[:-1], Piece(last.low, piece.high, last.low_open, open_end)]
