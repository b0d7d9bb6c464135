"""What bounds the work of the math checker. Each limit is a count, not a time: the same text, the same verdict."""

MAX_CHARACTERS = 4_000
"""Longest final answer that is read."""

MAX_RAW_CHARACTERS = 16_000
"""Longest final answer that is looked at, before layout is taken off."""

MAX_DIGITS = 1_000
"""Longest number, in digits, that is read (Python itself refuses to read more than 4,300)."""

MAX_BITS = 65_536
"""Largest numerator, denominator or magnitude, in bits, that is computed: 2^2025 and 1/1987! are, 9^(9^9) is not."""

MAX_TOKENS = 1_500
"""Longest expression, in tokens."""

MAX_DEPTH = 40
"""Deepest nesting of brackets, fractions, roots and exponents."""

MAX_FACTORIAL = 3_000
"""Largest n of which n! is computed."""

MAX_ITEMS = 400
"""Longest list."""


class TooComplexError(Exception):
    """An expression is beyond one of the limits, which the message names."""


class UnreadableError(Exception):
    """A text is no expression of the grammar; the message says where."""


class UndefinedError(Exception):
    """A tree has no value: it divides by zero, names an unknown function, or is no expression."""
