"""Finds the program in a chat reply. Nothing here parses Python: the alternatives are compiled inside the sandbox.

The last complete fenced block marked as Python counts, else the last unmarked one, else the last of any kind, else a
block that is never closed (a reply that was cut off), else the whole text. A fence stands alone at the start of a line,
perhaps indented in a list, so backquotes inside a string are code. Reasoning up to `</think>` does not count; an
unfinished one is no answer.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from rloo_verify.checkers.extract import without_reasoning

_FENCE = re.compile(r"([ ]*)(`{3,}|~{3,})[ \t]*([^`\n]*)$")
_PYTHON = ("python", "python3", "py", "py3", "{python}", "{.python}")
_STARTS_CODE = re.compile(
    r"(?:import |from \w|def |class |async def |@\w|if |for |while |try:|with |#|\"\"\"|\w+ *=|print\()"
)


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: its language word, its text, and whether it was closed."""

    language: str
    text: str
    closed: bool


@dataclass(frozen=True, slots=True)
class Extracted:
    """The program of a reply.

    Attributes:
        sources: Alternatives, the best first; empty where the reply has no code.
        fenced: Whether they come from fenced blocks; text without a fence may have prose after the code.
        raw: The reply without reasoning and with plain line ends: what a model without a chat template continued with.
    """

    sources: tuple[str, ...]
    fenced: bool
    raw: str


def extract_code(reply: str) -> Extracted:
    """Finds the program in a reply.

    Args:
        reply: The whole text, reasoning included.

    Returns:
        The alternatives. Later ones matter only where a test needs a name that the earlier ones do not define.
    """
    text = without_reasoning(reply)
    if text is None:
        return Extracted((), False, "")
    text = text.replace("\r\n", "\n")
    blocks = list(_blocks(text))
    if not blocks:
        return Extracted(_unfenced(text), False, text)
    closed = [block for block in blocks if block.closed]
    groups = [
        [block for block in closed if block.language in _PYTHON],
        [block for block in closed if not block.language],
        closed,
        blocks,
    ]
    chosen = next(group for group in groups if group)
    sources = [block.text for block in reversed(chosen)]
    if len(chosen) > 1:
        sources.append("\n".join(block.text for block in chosen))
    return Extracted(tuple(source for source in sources if source.strip()), True, text)


def _blocks(text: str) -> Iterator[Block]:
    opening: re.Match[str] | None = None
    lines: list[str] = []
    for line in text.split("\n"):
        match = _FENCE.match(line) if line.lstrip(" ")[:3] in ("```", "~~~") else None
        if opening is None:
            opening, lines = match, []
        elif match and _closes(match, opening):
            yield Block(_language(opening[3]), "\n".join(lines) + "\n", True)
            opening = None
        else:
            lines.append(line.removeprefix(opening[1]))
    if opening is not None:
        yield Block(_language(opening[3]), "\n".join(lines) + "\n", False)


def _closes(fence: re.Match[str], opening: re.Match[str]) -> bool:
    """Whether a fence ends a block: the same sign, as long, no words, indented by at most three spaces more."""
    same_sign = fence[2][0] == opening[2][0] and len(fence[2]) >= len(opening[2])
    return same_sign and not fence[3].strip() and len(fence[1]) <= len(opening[1]) + 3


def _language(words: str) -> str:
    return (words.split() or [""])[0].lower()


def _unfenced(text: str) -> tuple[str, ...]:
    """The text itself, and the text from the first line on that looks like code."""
    if not text.strip():
        return ()
    lines = text.split("\n")
    start = next((number for number, line in enumerate(lines) if _STARTS_CODE.match(line)), 0)
    later = "\n".join(lines[start:])
    return (text,) if start == 0 else (text, later)
