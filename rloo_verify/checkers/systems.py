r"""Several lines that make one answer, `\begin{cases} x=1 \\ y=2 \end{cases}`, and remarks that change nothing."""

import re

_ENVIRONMENT = re.compile(
    r"(?P<brace>\\\{)?\s*\\begin\{(?P<name>cases|array|aligned|align\*?|gathered|split)\}(?:\s*\{[^{}]*\})?"
    r"(?P<lines>.*)\\end\{(?P=name)\}\s*",
    re.DOTALL,
)
_FEWEST = 2
_JOINT = re.compile(r"\\text\s*\{\s*(?:and|or)\s*\}|\b(?:and|or)\b")
_WHOLE = r"[a-zA-Z]\s*\\in\s*(?:\\mathbb\s*\{?\s*Z\s*\}?|Z(?![a-zA-Z]))"
_ANY_INTEGER = re.compile(
    rf"\s*[,;]?\s*(?:\\text\s*\{{\s*(?:where|for|with|,)?[^{{}}]*\}}\s*|where\s+|for\s+)?"
    rf"(?:\(\s*{_WHOLE}\s*\)|(?<=[,;}}\s]){_WHOLE})$"
)


def without_layout(text: str) -> str:
    """A system of equations as a list, and an answer without the remark that k is any whole number."""
    match = _ENVIRONMENT.fullmatch(text) if "\\begin" in text else None
    if match is not None and (match["brace"] or match["name"] != "array") and "=" in match["lines"]:
        lines = [line.replace("&", " ").strip(" ,;") for line in match["lines"].split(r"\\")]
        text = ", ".join(line for line in lines if line)
    shorter = _ANY_INTEGER.sub("", text) if "\\in" in text else text
    return shorter.rstrip(" ,;") if re.search(r"[a-zA-Z]", shorter) else text


def read_solutions(text: str) -> list[list[str]] | None:
    """Several solutions of a system, `p=5, q=2; p=7, q=2`: the values of each; None for anything else."""
    groups = [group.split(",") for group in _JOINT.sub(";", text).split(";")]
    if len(groups) < _FEWEST or len(groups[0]) < _FEWEST or re.search(r"[(){}\[\]]", _JOINT.sub(";", text)):
        return None
    named = [[item.partition("=") for item in group] for group in groups]
    names = [[name.strip() for name, _, _ in group] for group in named]
    if any(other != names[0] for other in names) or not all(re.fullmatch(r"[a-zA-Z]\w*", name) for name in names[0]):
        return None
    return [[value for _, _, value in group] for group in named]
