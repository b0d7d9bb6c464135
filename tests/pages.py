"""The pages of the documentation as blocks, code spans and links, read by a Markdown parser."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]

COMMANDS = ("rloo-verify ", "python ", "pip ", "make ", "git ")
_MARKER = re.compile(r"<!-- *(not run|file|exits|output|needs) *(?:: *(.*?))? *-->", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One code block.

    Attributes:
        line: Line of the page at which it begins, counted from 1.
        language: `sh`, `python`, `toml`, `json`, or empty; an indented block with a command in it is `sh`.
        text: What stands in it.
        marker: The comment before it: `not run`, `file`, `exits`, `output` or `needs`; empty without one.
        value: What the comment says after the colon.
    """

    line: int
    language: str
    text: str
    marker: str
    value: str


def name_of(page: Path) -> str:
    """The page's path in the repository."""
    return page.relative_to(ROOT).as_posix()


def _tokens(page: Path) -> list[Token]:
    return MarkdownIt("commonmark").enable("table").parse(page.read_text(encoding="utf-8"))


def blocks(page: Path) -> list[Block]:
    """The code blocks of a page, in order, each with the marker that stands directly before it."""
    found: list[Block] = []
    marker, value = "", ""
    for token in _tokens(page):
        if token.type == "html_block":
            match = _MARKER.fullmatch(token.content.strip())
            marker, value = (match[1], match[2] or "") if match else ("", "")
            continue
        if token.type in ("fence", "code_block") and token.map:
            language = token.info.strip()
            if token.type == "code_block" and any(line.startswith(COMMANDS) for line in token.content.splitlines()):
                language = "sh"
            found.append(Block(token.map[0] + 1, language, token.content, marker, value))
        marker, value = "", ""
    return found


def _inline(page: Path) -> Iterator[Token]:
    for token in _tokens(page):
        yield from token.children or ()


def code_spans(page: Path) -> list[str]:
    """The `code` in the text of a page."""
    return [token.content for token in _inline(page) if token.type == "code_inline"]


def targets(page: Path) -> list[str]:
    """What the links and images of a page point to."""
    attributes = {"link_open": "href", "image": "src"}
    return [str(token.attrs[attributes[token.type]]) for token in _inline(page) if token.type in attributes]


def anchors(page: Path) -> set[str]:
    """What a link to a heading of a page may name, by GitHub's rule."""
    tokens = _tokens(page)
    headings = [after.content for token, after in pairwise(tokens) if token.type == "heading_open"]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
