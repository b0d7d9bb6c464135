r"""Finds the final answer in a completion, by rules that the task names in order; the first that applies wins.

    boxed        the last \boxed{...}, \fbox{...}, \boxed 5, or <|begin_of_box|>...<|end_of_box|>
    answer_tag   the last <answer>...</answer>
    hashes       what follows the last #### on its line
    phrase       what follows the last "the answer is", "final answer:", and the same in other languages
    last_math    the last formula between $...$, \(...\) or \[...\]
    bare         all of the text, where it is one short line
    last_number  the last number
    whole        all of the text

Reasoning does not count: everything up to the last `</think>` is cut off first, and an unfinished `<think>` is no
answer. A rule that applies but finds nothing in its place (an empty box, a box never closed) decides: no answer.
Every rule takes time linear in the length of the text, however hostile.
"""

import re
from collections.abc import Callable, Mapping, Sequence

from rloo_verify.errors import TaskError

DEFAULT_RULES = ("boxed", "answer_tag", "hashes", "phrase")

_LONGEST_JOINT = 60
_LONGEST_BARE = 60
_BOX = re.compile(r"\\(?:boxed|fbox)(?![a-zA-Z])\s*")
_UNBRACED = re.compile(r"[-+]?\d+(?:\.\d+)?|\\[a-zA-Z]+|[A-Z](?![a-zA-Z])")
_JOINT = re.compile(
    r"(?:[\s$(){}\\\[\]]*[,;]|[^.\n]*\b(?:and|or)\b)?"  # 1, 2; 1 apples and 2 pears
    r"(?:[\s$(){}\\\[\]]|\\q?quad|\\text)*"
    r"(?:\w+(?:_\w+)?\s*=\s*)?",  # \boxed{1}, y = \boxed{2}
    re.IGNORECASE,
)
_NUMBER = re.compile(
    r"(?<![\w.)])[-+\u2212]?[$€£]?\\d?frac\{\d+\}\{\d+\}"
    r"|(?:(?<![\w.)\]}])[-+\u2212])?[$€£]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s?/\s?\d+)?(?:\s?\\?%)?"
)
_PHRASE = re.compile(
    r"(?:final\s+answer|answer|r[ée]ponse(?:\s+finale)?|respuesta(?:\s+final)?|antwort|risposta|resposta|ответ|"
    r"最终答案|最后答案|正确答案|答案|答え|故选|correct\s+(?:choice|option))"
    r"(?:[ \t]+to[ \t]+(?:the|this)[ \t]+(?:problem|question))?[ \t*_]*"
    r"(?:(?:should[ \t]+be|would[ \t]+be|must[ \t]+be|is|are|est|es|ist|è|é|равен|应该是|应为|是|为|為|は)"
    r"(?:[ \t]+(?:thus|therefore|simply|just|then|indeed))?[ \t]*[:：]?|[:：=]|(?<=final answer)[ \t*_]*(?=\n))"
    r"[\s*_]*",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r"[.!。！](?=\s|$)|[。！]|;\s|\n"
    r"|[ ,，]+(?:because|since|as|so|which|where|in total|after|for|when|therefore|though|but)\b"
    r"|[,，]\s+(?=[a-zA-Z]{3,}\s)",
    re.IGNORECASE,
)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(.+?)(?<!\\)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_DOLLARS = re.compile(r"(?<!\\)\$+")


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
    r"""The content of the last box; "" where that box is empty or was never closed; None where there is no box.

    Boxes that the text joins into one answer, `\boxed{1} and \boxed{2}`, are returned as a list, `1, 2`.
    """
    glm_end = text.rfind("<|end_of_box|>")
    glm_start = text.rfind("<|begin_of_box|>", 0, max(glm_end, 0))
    contents: list[str] = []
    after = len(text)
    for match in reversed([match for match in _BOX.finditer(text) if match.start() > glm_start]):
        braced = text[match.end() : match.end() + 1] == "{"
        content = _box_content(text, match.end(), after)
        if content is None:
            if braced and contents:
                break  # it holds what was found
            continue
        end = match.end() + len(content) + 2 * braced
        if contents and not (end <= after <= end + _LONGEST_JOINT and _joins(text[end:after])):
            break
        contents.append(content)
        after = match.start()
        if not content:
            break
    if not contents and 0 <= glm_start < glm_end:
        return text[glm_start + len("<|begin_of_box|>") : glm_end]
    return ", ".join(reversed(contents)) if contents else None


def _joins(between: str) -> bool:
    """Whether what stands between two boxes makes one answer of them."""
    return bool(re.search(r"[,;]|\b(?:and|or)\b", between, re.IGNORECASE)) and _JOINT.fullmatch(between) is not None


def _box_content(text: str, start: int, stop: int) -> str | None:
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


def _answer_tag(text: str) -> str | None:
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, max(end, 0))
    if end < 0 or start < 0:
        return "" if "<answer>" in text else None
    inside = text[start + len("<answer>") : end]
    return last_box(inside) or _phrase(inside) or inside


def _hashes(text: str) -> str | None:
    before, hashes, after = text.rpartition("####")
    if not hashes or before.endswith("#"):
        return None
    line, _, rest = after.lstrip(" :").partition("\n")
    # "#### Step 2" is a markdown heading, not an answer: what follows must be a number, or the end of the text.
    return line if not rest.strip() or re.match(r"\s*[-+$]*\s*[\d.]", line) else None


def _phrase(text: str) -> str | None:
    match = _last(_PHRASE, text)
    if match is None:
        return None
    tail = text[match.end() :].lstrip()
    formula = _FORMULA.match(tail)
    if formula is not None:
        return next(group for group in formula.groups() if group is not None)
    end = _CLAUSE_END.search(tail)
    return (tail[: end.start()] if end else tail).strip(" *_,")


def _last_math(text: str) -> str | None:
    dollars = list(_DOLLARS.finditer(text))
    pairs = [(first.end(), second.start()) for first, second in zip(dollars[::2], dollars[1::2], strict=False)][-1:]
    for opening, closing in ((r"\(", r"\)"), (r"\[", r"\]")):
        end = text.rfind(closing)
        start = text.rfind(opening, 0, max(end, 0))
        if start >= 0:
            pairs.append((start + len(opening), end))
    if not pairs:
        return None
    start, end = max(pairs, key=lambda pair: pair[1])
    return text[start:end]


def _last_number(text: str) -> str | None:
    match = _last(_NUMBER, text)
    return None if match is None else match.group().rstrip(",")


def _bare(text: str) -> str | None:
    text = text.strip()
    return text if len(text) <= _LONGEST_BARE and "\n" not in text else None


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
    "bare": _bare,
    "last_number": _last_number,
    "whole": lambda text: text,
}
