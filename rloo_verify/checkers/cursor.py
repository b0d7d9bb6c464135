"""A position in a list of tokens, with what every rule of the grammar needs: look, take, expect, bound the depth."""

from collections.abc import Iterator
from contextlib import contextmanager

from rloo_verify.checkers.lexer import END, Token
from rloo_verify.checkers.limits import MAX_DEPTH, TooComplexError, UnreadableError


class Cursor:
    """Where a parser stands in its tokens."""

    def __init__(self, tokens: list[Token]) -> None:
        self.tokens = tokens
        self.position = 0
        self.depth = 0
        self.bars = 0
        self.in_description = False

    @property
    def next(self) -> Token:
        """The token that comes next; `END` after the last."""
        return self.tokens[self.position]

    def take(self) -> Token:
        """Take the next token.

        Raises:
            UnreadableError: There is none.
        """
        token = self.next
        if token is END:
            raise UnreadableError("it ends too early")
        self.position += 1
        return token

    def at(self, *marks: str) -> bool:
        """Whether the next token is one of these marks."""
        return self.next.kind == "mark" and self.next.text in marks

    def accept(self, *marks: str) -> str | None:
        """Take the next token where it is one of these marks; None where it is not."""
        return self.take().text if self.at(*marks) else None

    def expect(self, *marks: str) -> str:
        """Take the next token, which must be one of these marks.

        Raises:
            UnreadableError: It is another one.
        """
        if not self.at(*marks):
            raise UnreadableError(f"{' or '.join(marks)} expected, not {self.next.text or 'the end'!r}")
        return self.take().text

    def expect_end(self) -> None:
        """Raise UnreadableError unless all tokens are taken."""
        if self.next is not END:
            raise UnreadableError(f"{self.next.text!r} was not expected")

    @contextmanager
    def deeper(self) -> Iterator[None]:
        """Count one level of nesting; TooComplexError beyond `MAX_DEPTH`."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise TooComplexError(f"nested more than {MAX_DEPTH} deep")
        yield
        self.depth -= 1
