r"""Answers that stand in a sentence: "The answer is for sure D, not A", "The volume of $ABC$ is 120".

The rules look at one clause, or for the last resorts at the whole text, and never choose between alternatives: a clause
that negates or offers several answers has none.
"""

import re
from collections.abc import Iterator

_NUMBER = re.compile(
    r"(?<![\w.)])[-+\u2212]?[$€£]?\\d?frac\{\d+\}\{\d+\}"
    r"|(?:(?<![\w.)\]}])[-+\u2212])?[$€£]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s?/\s?\d+)?(?:\s?\\?%)?"
)
_DOLLARS = re.compile(r"(?<!\\)\$+")
_IN_TEXT = re.compile(r"\\(?:text|mathrm|textbf|mbox|operatorname|mathbf)\s*\{[^{}]*\}|\\[a-zA-Z]+")
_WORD = re.compile(r"(?<![^\W\d_])[^\W\d_]{2,}(?![^\W\d_])")
_OTHER_SCRIPT = re.compile("[\u0400-\u1fff\u3040-\u30ff\uac00-\ud7af]")
_NO_PROSE = frozenset([
    "sin", "cos", "tan", "cot", "sec", "csc", "log", "ln", "exp", "sqrt", "pi", "min", "max", "gcd", "lcm", "cm",
    "mm", "km", "kg", "mod", "in", "oo", "inf", "infinity", "abs", "arcsin", "arccos", "arctan", "and", "or",
])  # fmt: skip
_ONLY_IN_SENTENCES = frozenset([
    "is", "are", "was", "were", "be", "been", "am", "has", "have", "had", "does", "did", "do", "so", "thus",
    "hence", "therefore", "then", "the", "this", "that", "these", "those", "it", "we", "he", "she", "they", "there",
    "answer", "about", "just", "get", "gets", "got", "costs", "equals", "because", "since", "how", "what", "which",
    "who", "que", "choose", "would", "with", "chose", "pick", "est", "donc", "il", "elle", "a", "ist", "es",
])  # fmt: skip
_CHINESE_VERB = re.compile("[是为有]|所以|因此|故")
_CHOICE_FIRST = re.compile(r"\(?[A-J]\)?\s*[.:)。：]")
_ALTERNATIVES = re.compile(
    r"(?:\b(?:not|or|either|neither|nor|between|never|except|unless|cannot|isn't|aren't|wasn't|doesn't|can't)\b"
    r"|n't\b|\\neq?\b|≠|不是|或者?)",
    re.IGNORECASE,
)
_PAUSE = re.compile(r"[,，;；。.]\s")
_ASIDE = re.compile(
    r"[,，;；。.]\s|\b(?:because|since|as|not|and not)\b|\b(?:non|pas|nicht|mais|but)\b|因为|不是|而不是", re.IGNORECASE
)
_LETTER = re.compile(r"(?<![\w'’$\\])[(\[]?([A-J])[)\]]?(?![\w'’=^*/+-]|\s*[=+*/^<>])")
_LABEL = re.compile(r"[^\W\d_]{3,20}(?: [^\W\d_]{2,20}){0,2}\s?[:：]\s+(?=\S)")  # Result: 42
_LONGEST_BARE = 400
_MOST_WORDS = 4
_NEAR = 24
_ASKED = re.compile(r"[\s$*]{0,4}[?？]")
_SAYS_SOMETHING = re.compile(r"[^\W\d_]|=")


def bare(text: str) -> str | None:
    """All of the text, where it is one line that is an answer and no sentence."""
    text = text.strip()
    if not text or len(text) > _LONGEST_BARE or "\n" in text.strip("$ \n"):
        return None
    text = text[label.end() :] if (label := _LABEL.match(text)) else text
    return text if _CHOICE_FIRST.match(text) or not is_sentence(text) else None


def is_sentence(text: str) -> bool:
    """Whether a text has words as a sentence has them, and not only units, names of functions or a few words."""
    words = [word.casefold() for word in _WORD.findall(_IN_TEXT.sub(" ", text))]
    words = [word for word in words if word not in _NO_PROSE]
    if sum(_OTHER_SCRIPT.match(word) is not None for word in words) > 1:
        return True
    return len(words) > _MOST_WORDS or any(word in _ONLY_IN_SENTENCES or _CHINESE_VERB.search(word) for word in words)


def only_quantity(clause: str) -> str | None:
    """The one formula or number of a clause; None where there is none, or several, or where the clause negates it."""
    if _ALTERNATIVES.search(clause):
        return None
    found = {text.strip() for _, text in _quantities(clause)}
    if len(found) > 1:  # 220 $ to pay in 12 months
        found = {text for text in found if re.search(rf"[$€£]\s?{re.escape(text)}|{re.escape(text)}\s?[$€£]", clause)}
    return found.pop() if len(found) == 1 else None


def last_quantity(text: str) -> str | None:
    """The last formula or number of the text; "" where the words before it negate it or offer alternatives."""
    quantities = list(_quantities(text))
    if not quantities:
        return None
    start, found = quantities[-1]
    if len(quantities) > 1 and not _SAYS_SOMETHING.search(text, max(0, start - 2 * _NEAR), start):
        return ""  # nothing but numbers
    if _ASKED.match(text, start + len(found)):
        return ""
    words = re.split(r"\d", text[max(0, start - _NEAR) : start])[-1]
    return "" if _ALTERNATIVES.search(words) else found


def last_number(text: str) -> str | None:
    """The last number of the text."""
    match = None
    for match in _NUMBER.finditer(text):  # noqa: B007
        pass
    return None if match is None else match.group().rstrip(",")


def last_math(text: str) -> str | None:
    r"""The last formula between `$...$`, `\(...\)` or `\[...\]`."""
    spans = _formulas(text)
    return text[spans[-1][0] : spans[-1][1]] if spans else None


def only_letter(clause: str) -> str | None:
    """The one letter from A to J that the first part of a clause chooses: "for sure D, it can't be A" is D."""
    for sentence_part in _PAUSE.split(clause):
        part = _ASIDE.split(sentence_part, maxsplit=1)[0]
        letters = {match.group(1) for match in _LETTER.finditer(part) if not _is_article(part, match)}
        if letters:
            return letters.pop() if len(letters) == 1 and not _ALTERNATIVES.search(part) else None
    return None


def _is_article(text: str, match: re.Match[str]) -> bool:
    """Whether an A or I is a word: "A triangle", "I choose"."""
    return match.group(0) in "AI" and re.match(r"\s+(?!is\b)[a-z]|'", text[match.end() :]) is not None


def _quantities(text: str) -> Iterator[tuple[int, str]]:
    """Formulas that are more than a name, and numbers outside of formulas, in order of where they start."""
    spans = [span for span in _formulas(text) if not is_sentence(text[slice(*span)])]
    position = 0
    for start, end in [*spans, (len(text), len(text))]:
        for match in _NUMBER.finditer(text, position, start):
            yield match.start(), match.group().rstrip(",")
        if re.search(r"\d|\\(?:pi|infty|emptyset|sqrt)", text[start:end]):
            yield start, text[start:end]
        position = max(position, end)


def _formulas(text: str) -> list[tuple[int, int]]:
    """Where formulas start and end, in order."""
    dollars = list(_DOLLARS.finditer(text))
    spans = [(first.end(), second.start()) for first, second in zip(dollars[::2], dollars[1::2], strict=False)]
    for opening, closing in ((r"\(", r"\)"), (r"\[", r"\]")):
        start = text.find(opening)
        while start >= 0:
            end = text.find(closing, start)
            if end < 0:
                break
            spans.append((start + len(opening), end))
            start = text.find(opening, end)
    return sorted(spans)
