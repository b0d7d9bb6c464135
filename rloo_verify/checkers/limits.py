"""What bounds the work of the math checker. Every limit is a count, never a time: the same text gets the same verdict."""

MAX_CHARACTERS = 4_000
"""Longest final answer that is read."""

MAX_DIGITS = 1_000
"""Longest number, in digits, that is read or computed (Python itself refuses to print more than 4,300)."""

MAX_EXPONENT = 10_000
"""Largest exponent of a power of ten or of a numeric power that is computed exactly, as far as MAX_DIGITS allows."""

MAX_TOKENS = 1_500
"""Longest expression, in tokens."""

MAX_DEPTH = 40
"""Deepest nesting of brackets, fractions, roots and exponents."""

MAX_FACTORIAL = 400
"""Largest n of which n! is computed."""

MAX_TERMS = 400
"""Most terms that an expansion may be asked to produce."""


class TooComplexError(Exception):
    """An expression is beyond one of the limits, which the message names."""


class UnreadableError(Exception):
    """A text is no expression of the grammar; the message says where."""
