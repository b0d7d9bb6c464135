r"""Finds the answer that a phrase announces: "the answer is", "final answer:", and the same in other languages."""

import re
from dataclasses import dataclass

from rloo_verify.checkers.prose import is_sentence

_NOUNS = "|".join([
    r"answer", r"correct\s+(?:choice|option)", r"r[ée]ponse(?:\s+finale)?", r"respuesta(?:\s+final)?", r"antwort",
    r"lösung", r"risposta(?:\s+finale)?", r"resposta(?:\s+final)?", r"ответ",
    "最终答案", "最后答案", "正确答案", "答案", "答え", "答", "故选", "应选", "정답", "الجواب", "الإجابة", "उत्तर",
])  # fmt: skip
_VERBS = "|".join([
    r"(?:should[ \t]+be|would[ \t]+be|must[ \t]+be|is|are|est|ist|es|lautet)(?![a-z])", "è", "é", "равен",
    "应该是", "应为", "是", "为", "為", "は", "은", "는", "هو", "هي", "है",
])  # fmt: skip
_ADVERBS = r"thus|therefore|simply|just|then|indeed|clearly|definitely|certainly|for[ \t]+sure|option|choice"
_PHRASE = re.compile(
    rf"(?P<final>final\s+)?(?:{_NOUNS})(?:[ \t]+to[ \t]+(?:the|this)[ \t]+(?:problem|question))?[ \t*_]*"
    rf"(?:(?:{_VERBS})(?:[ \t]+(?:{_ADVERBS}))*[ \t]*[:：]?"  # the answer is ...
    r"|[:：=]|(?<=[*_]{2})[ \t]*(?=\n)|(?<=final answer)[ \t*_]*(?=\n))"  # Answer: ..., or a heading
    r"[\s*_]*"
    r"|(?:答案|故|应|所以|因此)?[,，]?选(?:择|项)?[ \t]*[:：]?[ \t]*(?=[(（]?[A-J])",
    re.IGNORECASE,
)
_CONCLUSION = re.compile(
    r"(?:therefore|thus|hence|so|donc|因此|所以)[,，]?[ \t]+"
    r"(?:(?:i|we)[ \t]+(?:think|believe|guess|conclude|get|choose|pick)[ \t]+)?(?:that[ \t]+)?"
    r"(?:it'?s|it[ \t]+is|it[ \t]+must[ \t]+be|option|choice)[ \t]+",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r"[.!。！](?=\s|$)|[。！]|;\s|\n"
    r"|[ ,，]+(?:because|since|as|so|which|where|in total|after|for|when|therefore|though|but)\b"
    r"|[,，]\s+(?=[a-zA-Z]{3,}\s)|[,，]\s+(?=(?:it|he|we)\b)",
    re.IGNORECASE,
)
_FORMULA = re.compile(r"\$\$(.+?)\$\$|\$(.+?)(?<!\\)\$|\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)
_ANOTHER_FOLLOWS = re.compile(r"\s*(?:,\s*)?(?:(?:or|and)\b\s*|,\s*)(?:\$|\\\(|\d|[A-J]\b)", re.IGNORECASE)
_BETWEEN_REPEATS = re.compile(r"[\s.,;*$]*(?:the|so|and|or|thus)?\s*", re.IGNORECASE)
_OPEN_END = re.compile(r"\b(?:or|and)\s*$", re.IGNORECASE)
_LONGEST_CLAUSE = 1_600


@dataclass(frozen=True, slots=True)
class Announced:
    """What a phrase announces, where the phrase starts and the clause ends, and whether it says "final answer"."""

    content: str
    start: int
    end: int
    final: bool


def phrase(text: str) -> str | None:
    """What the last phrase announces; "" where phrases in a row announce different answers; None without a phrase."""
    last = last_announced(text)
    return None if last is None else last.content


def last_announced(text: str) -> Announced | None:
    """The last announced answer. "The answer is A. The answer is B." announces several, which is none: ""."""
    matches = list(_PHRASE.finditer(text))
    if not matches:
        return None
    last = _announced(text, matches[-1])
    if len(matches) > 1:
        before = _announced(text, matches[-2])
        row = _BETWEEN_REPEATS.fullmatch(text, before.end, last.start)
        if row and before.end <= last.start and before.content and before.content != last.content:
            return Announced("", last.start, last.end, last.final)
    return last


def conclusion(text: str) -> str | None:
    """What a last "therefore it is ..." concludes; None where there is no such phrase."""
    match = None
    for match in _CONCLUSION.finditer(text):  # noqa: B007
        pass
    return None if match is None else _clause(text, match.end())[0]


def _announced(text: str, match: re.Match[str]) -> Announced:
    content, end = _clause(text, match.end())
    return Announced(content, match.start(), end, match["final"] is not None)


def _clause(text: str, start: int) -> tuple[str, int]:
    """The formula that starts here, or the clause; and where it ends."""
    window = text[start : start + _LONGEST_CLAUSE]
    tail = window.lstrip()
    start += len(window) - len(tail)
    formula = _FORMULA.match(tail)
    if formula is not None:
        inside = next(group for group in formula.groups() if group is not None)
        if not is_sentence(inside) and not _ANOTHER_FOLLOWS.match(tail, formula.end()):
            return inside, start + formula.end()
    found = _CLAUSE_END.search(tail)
    end = found.start() if found else len(tail)
    if _OPEN_END.search(tail, 0, end):
        return "", start + end
    return tail[:end].strip(" *_,").removeprefix('\\"').removesuffix('\\"'), start + end
