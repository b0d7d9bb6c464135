"""The levels at which an answer is found equal to the reference, cheapest first, and the record of those used.

A comparison of two tuples uses several levels, one an entry; `used()` lists them in the order in which they decided.
"""

from contextvars import ContextVar
from enum import StrEnum


class Level(StrEnum):
    """How two things were found to be equal or different."""

    TEXT = "the same text"
    NUMBER = "exact numbers"
    LETTER = "the same choice"
    FORM = "the same form"
    RATIONAL = "exact arithmetic"
    ROUNDED = "a decimal of enough digits"
    POLYNOMIAL = "an algebraic identity"
    NUMERIC = "values to many digits"
    SYMPY = "sympy"
    STRUCTURE = "type and structure"


_USED: ContextVar[list[Level] | None] = ContextVar("levels_used", default=None)


def start() -> None:
    """Forget what was used before."""
    _USED.set([])


def note(level: Level) -> None:
    """Record that a level decided something."""
    used = _USED.get()
    if used is not None and (not used or used[-1] is not level):
        used.append(level)


def used() -> tuple[Level, ...]:
    """The levels that decided since `start`, each once, in order."""
    return tuple(dict.fromkeys(_USED.get() or ()))
