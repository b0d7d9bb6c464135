"""Ranges of user ids, one for each sandbox: the kernel counts the processes of a user over the whole host."""

import secrets
from collections.abc import Collection

RANGE = 100_000
_FIRST = 2_000_000
_RANGES = 20_000


def fresh_range(taken: Collection[int] = ()) -> int:
    """The first id of a range that no sandbox in `taken` uses; two owners on one host rarely draw the same one."""
    while True:
        base = _FIRST + RANGE * secrets.randbelow(_RANGES)
        if base not in taken:
            return base
