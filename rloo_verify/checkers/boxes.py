r"""Finds `\boxed{...}` and its like: nested braces, `\fbox`, `\boxed 5`, GLM's tokens. Linear in the length."""

import re
from dataclasses import dataclass

_LONGEST_JOINT = 60
_GLM_START, _GLM_END = "<|begin_of_box|>", "<|end_of_box|>"
_BOX = re.compile(r"\\(?:boxed|fbox|framebox)(?![a-zA-Z])\s*")
_UNBRACED = re.compile(r"[-+]?\d+(?:\.\d+)?|\\[a-zA-Z]+|[A-Z](?![a-zA-Z])")
_JOINT = re.compile(
    r"(?:[\s$(){}\\\[\]]*[,;]|[^.\n]*\b(?:and|or)\b)?"  # 1, 2; 1 apples and 2 pears
    r"(?:[\s$(){}\\\[\]]|\\q?quad|\\text)*"
    r"(?:\w+(?:_\w+)?\s*=\s*)?",  # \boxed{1}, y = \boxed{2}
    re.IGNORECASE,
)
_JOINING = re.compile(r"[,;]|\b(?:and|or)\b", re.IGNORECASE)
_NO_WORDS = re.compile(r"[^a-zA-Z\n]{0,20}")


@dataclass(frozen=True, slots=True)
class Box:
    """What a box holds, "" where it is empty or was never closed, and where it ends in the text."""

    content: str
    end: int


def last_box(text: str) -> str | None:
    r"""The content of the last box; "" where that box is empty or was never closed; None where there is no box.

    Boxes that the text joins into one answer, `\boxed{1} and \boxed{2}`, are returned as a list, `1, 2`. Boxes that
    only stand close together are not joined: the last one corrects the others.
    """
    box = find_last_box(text)
    return None if box is None else box.content


def reference_box(text: str) -> str | None:
    r"""Like `last_box` for a reference, which never corrects itself: `\boxed{1}\boxed{2}` is a list too."""
    return None if (box := _find(text, hedges=True)) is None else box.content


def find_last_box(text: str) -> Box | None:
    """The last box of a completion, or the list that the last boxes make; None where there is none."""
    return _find(text, hedges=False)


def _find(text: str, *, hedges: bool) -> Box | None:
    glm_end = text.rfind(_GLM_END)
    glm_start = text.rfind(_GLM_START, 0, max(glm_end, 0))
    contents: list[str] = []
    after, last_end = len(text), len(text)
    for match in reversed([match for match in _BOX.finditer(text) if match.start() > glm_start]):
        braced = text[match.end() : match.end() + 1] == "{"
        content = _content(text, match.end(), after)
        if content is None:
            if braced and contents:
                break  # it holds what was found
            continue
        end = match.end() + len(content) + 2 * braced
        if contents and not (end <= after <= end + _LONGEST_JOINT and _joins(text[end:after], hedges=hedges)):
            break
        last_end = last_end if contents else min(end, len(text))
        contents.append(content)
        after = match.start()
        if not content:
            break
    if not contents and 0 <= glm_start < glm_end:
        return Box(text[glm_start + len(_GLM_START) : glm_end], glm_end + len(_GLM_END))
    return Box(", ".join(reversed(contents)), last_end) if contents else None


def _joins(between: str, *, hedges: bool) -> bool:
    """Whether what stands between two boxes makes one answer of them."""
    if hedges and _NO_WORDS.fullmatch(between):
        return True
    return _JOINING.search(between) is not None and _JOINT.fullmatch(between) is not None


def _content(text: str, start: int, stop: int) -> str | None:
    r"""What a box that opens at `start` holds; None where the word `\boxed` only occurs in the prose.

    A box that holds the next one, at `stop`, is a wrapper of it and None too.
    """
    if text[start : start + 1] != "{":
        unbraced = _UNBRACED.match(text, start)
        return unbraced.group() if unbraced else None
    end = closing_brace(text, start, stop)
    if end is None:
        return "" if stop == len(text) else None
    return text[start + 1 : end]


def closing_brace(text: str, start: int, stop: int) -> int | None:
    r"""The index, before `stop`, of the brace that closes the one at `start`, or None. `\{` and `\}` do not count."""
    depth = 0
    position = start
    while position < stop:
        character = text[position]
        if character == "\\":
            position += 1
        elif character == "{":
            depth += 1
        elif character == "}":
            depth -= 1
            if depth == 0:
                return position
        position += 1
    return None
