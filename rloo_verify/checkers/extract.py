r"""Finds the final answer in a completion, by rules that the task names in order; the first that applies wins.

    boxed        the last \boxed{...}, \fbox{...}, \boxed 5, or <|begin_of_box|>...<|end_of_box|>
    answer_tag   the last <answer>...</answer>
    hashes       what follows the last #### on its line
    phrase       what follows the last "the answer is", "final answer:", and the same in other languages
    last_math    the last formula between $...$, \(...\) or \[...\]
    last_number  the last number
    whole        all of the text

Reasoning does not count: everything up to the last `</think>` is cut off first, and an unfinished `<think>` is no answer.
A rule that applies but finds nothing in its place (an empty box, a box that was never closed) decides: no answer.
Every rule is linear in the length of the text.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from rloo_verify.errors import TaskError

DEFAULT_RULES = ("boxed", "answer_tag", "hashes", "phrase")

_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
_UNBRACED = re.compile(r"[-+]?\d+(?:\.\d+)?|\\[a-zA-Z]+|[A-Z](?![a-zA-Z])")
_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_GLM_BOX = re.compile(r"<\|begin_of_box\|>(.*?)<\|end_of_box\|>", re.DOTALL)
_NUMBER = re.compile(
    r"(?<![\w.)])[-+\u2212]?[$€£]?\\?d?frac\{\d+\}\{\d+\}"
    r"|(?:(?<![\w.)\]}])[-+\u2212])?[$€£]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s?/\s?\d+)?(?:\s?\\?%)?"
)
_PHRASE = re.compile(
    r"(?:final\s+answer|answer|r[ée]ponse(?:\s+finale)?|respuesta(?:\s+final)?|antwort|risposta|resposta|ответ|"
    r"最终答案|最后答案|正确答案|答案|答え)"
    r"(?:[ \t]+to[ \t]+(?:the|this)[ \t]+(?:problem|question))?"
    r"[ \t*_]*(?:(?:should[ \t]+be|would[ \t]+be|must[ \t]+be|is|are|est|es|ist|è|é|равен|是|为|為|は|应该是|应为)"
    r"(?:[ \t]+(?:thus|therefore|simply|just|then|indeed))?[ \t]*[:：]?|[:：=])[ \t*_]*",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r"[.!。！](?=\s|$)|[。！]|;\s|\n|[ ,，]+(?:because|since|as|so|which|where|in total|after|for|when|therefore|though|but)\b"
    r"|[,，]\s+(?=[a-zA-Z]{3,}\s)",
    re.IGNORECASE,
)
_MATH = re.compile(r"\$\$(.+?)\$\$|(?<!\\)\$(.+?)(?<!\\)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)


def extract_answer(completion: str, rules: Sequence[str] = DEFAULT_RULES) -> str | None:
    """Find the final answer.

    Args:
        completion: The text of the completion, reasoning included.
        rules: Names of rules, tried in order.

    Returns:
        The answer without surrounding white space, or None where the completion gives none.

    Raises:
        TaskError: A rule's name is unknown.
    """
    for name in rules:
        if name not in RULES:
            raise TaskError(f"extract = {name!r} is no rule of extraction; the rules are {', '.join(RULES)}")
    text = without_reasoning(completion)
    if text is None:
        return None
    for name in rules:
        found = RULES[name](text)
        if found is not None:
            return found.strip() or None
    return None


def without_reasoning(completion: str) -> str | None:
    """Cut off everything up to the last `</think>`; None where a `<think>` was never finished."""
    answer = completion.rpartition("</think>")[2]
    return None if "<think>" in answer else answer


def last_box(text: str) -> str | None:
    """The content of the last box; "" where that box is empty or was never closed; None where there is no box."""
    found: str | None = None
    position = -1
    for match in _BOX.finditer(text):
        content = _box_content(text, match.end())
        if content is not None:
            found, position = content, match.start()
    glm = _last(_GLM_BOX, text)
    if glm is not None and glm.start() > position:
        return glm.group(1)
    return found


def _box_content(text: str, start: int) -> str | None:
    """What a box that opens at `start` holds; None where the word `\\boxed` only occurs in the prose."""
    if text[start : start + 1] != "{":
        unbraced = _UNBRACED.match(text, start)
        return unbraced.group() if unbraced else None
    end = closing_brace(text, start)
    return "" if end is None else text[start + 1 : end]


def closing_brace(text: str, start: int) -> int | None:
    r"""The index of the brace that closes the one at `start`, or None. `\{` and `\}` do not count."""
    depth = 0
    position = start
    while position < len(text):
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


def _answer_tag(text: str) -> str | None:
    match = _last(_TAG, text)
    if match is not None:
        return match.group(1)
    return "" if "<answer>" in text.lower() else None


def _hashes(text: str) -> str | None:
    before, hashes, after = text.rpartition("####")
    if not hashes or before.endswith("#"):
        return None
    line, _, rest = after.partition("\n")
    # "#### Step 2" is a markdown heading, not an answer: what follows must be a number, or the end of the text.
    return line if not rest.strip() or re.match(r"\s*[-+$]*\s*[\d.]", line) else None


def _phrase(text: str) -> str | None:
    match = _last(_PHRASE, text)
    if match is None:
        return None
    tail = text[match.end() :].lstrip()
    formula = _MATH.match(tail)
    if formula is not None:
        return next(group for group in formula.groups() if group is not None)
    end = _CLAUSE_END.search(tail)
    return (tail[: end.start()] if end else tail).strip(" *_,")


def _last_math(text: str) -> str | None:
    match = _last(_MATH, text)
    return None if match is None else next(group for group in match.groups() if group is not None)


def _last_number(text: str) -> str | None:
    match = _last(_NUMBER, text)
    return None if match is None else match.group().rstrip(",")


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    match = None
    for match in pattern.finditer(text):  # noqa: B007
        pass
    return match


RULES: Mapping[str, Callable[[str], str | None]] = {
    "boxed": last_box,
    "answer_tag": _answer_tag,
    "hashes": _hashes,
    "phrase": _phrase,
    "last_math": _last_math,
    "last_number": _last_number,
    "whole": lambda text: text,
}
