r"""Text -> tokens, for LaTeX and plain math alike: `\frac{\sqrt3}{2}`, `sqrt(3)/2`, `2 <= x`, `\text{ cm}`."""

import re
from dataclasses import dataclass
from typing import Literal

from rloo_verify.checkers.limits import MAX_DIGITS, MAX_TOKENS, TooComplexError, UnreadableError

Kind = Literal["number", "name", "letter", "text", "mark", "end"]

FUNCTIONS = frozenset([
    "sin", "cos", "tan", "cot", "sec", "csc", "arcsin", "arccos", "arctan", "asin", "acos", "atan", "sinh", "cosh",
    "tanh", "coth", "arcsinh", "arccosh", "arctanh", "log", "ln", "lg", "exp", "sqrt", "cbrt", "abs", "min", "max",
    "gcd", "lcm", "floor", "ceil", "binom", "factorial",
])  # fmt: skip
_CONSTANTS = frozenset(["pi", "infty", "infinity", "inf", "oo"])
_SIGNS = {
    "times": "*", "cdot": "*", "ast": "*", "div": "/", "le": "<=", "ge": ">=", "lt": "<", "gt": ">", "ne": "!=",
    "approx": "~", "simeq": "~", "sim": "~", "equiv": "=", "in": "in", "pm": "pm", "mp": "mp", "cup": "cup",
    "mid": "|", "vert": "|", "lvert": "|", "rvert": "|", "colon": ":", "langle": "(", "rangle": ")", "circ": "circ",
    "to": "->", "rightarrow": "->", "Rightarrow": "=>", "implies": "=>", "lfloor": "lfloor", "rfloor": "rfloor",
    "lceil": "lceil", "rceil": "rceil", "prime": "'", "setminus": "setminus", "backslash": "setminus", "cap": "cap",
    "notin": "notin", "cong": "cong",
    "subset": "subset", "subseteq": "subseteq", "supset": "supset", "supseteq": "supseteq", "propto": "propto",
    "perp": "perp", "parallel": "parallel", "oplus": "oplus", "otimes": "otimes", "wedge": "wedge", "vee": "vee",
    "rtimes": "rtimes", "ltimes": "ltimes", "bullet": "bullet",
}  # fmt: skip
ACCENTS = frozenset([
    "hat", "bar", "vec", "tilde", "dot", "widehat", "widetilde", "overline", "underline", "overrightarrow",
    "mathfrak", "mathcal", "mathscr",
])  # fmt: skip
CALCULUS = frozenset(["sum", "prod", "int", "lim"])
_STRUCTURE = frozenset(["frac", "begin", "end", "emptyset", "mathbb", "angle", "triangle", "pmod"]) | ACCENTS | CALCULUS
_UNREAD = frozenset([
    "iint", "iiint", "oint", "limsup", "liminf", "bigcup", "bigcap", "bigoplus", "partial", "nabla", "forall",
    "exists", "not", "neg", "lnot",
])  # fmt: skip
_PLAIN_WORDS = FUNCTIONS | _CONSTANTS | frozenset(["in", "alpha", "beta", "theta", "lambda"])
_TEXTS = r"text|textnormal|mathrm|textbf|textit|textrm|mbox|operatorname|mathbf|mathit|mathsf|boldsymbol|bm|rm"
_TOKEN = re.compile(
    r"(?P<space>\s+)"
    rf"|\\(?:{_TEXTS})\*?\s*\{{(?P<text>[^{{}}]*)\}}"
    r"|(?P<number>\d+(?:\.\d+|\.(?=\\overline|\\dot|\(\d+\)))?|\.\d+)"
    r"|\\(?P<command>[a-zA-Z]+)\*?"
    r"|(?P<word>[a-zA-Z]+)"
    r"|(?P<mark>\*\*|<=|=<|>=|!=|=>|->|\\\\|\\[{}%|$]|[-+*/^_=<>()\[\]{}|!,;:%&'])"
    r"|(?P<letter>[^\W\d_])",
)


@dataclass(frozen=True, slots=True)
class Token:
    """One token. `text` is the number, the name without backslash, the letter, the words, or the mark."""

    kind: Kind
    text: str
    spaced: bool = False


END = Token("end", "")


def tokenize(text: str) -> list[Token]:
    """Split a normalised answer into tokens.

    Args:
        text: A text that `normalise` returned.

    Returns:
        The tokens, `END` last.

    Raises:
        UnreadableError: A character that belongs to no token.
        TooComplexError: Too many tokens, or too long a number.
    """
    tokens: list[Token] = []
    position, spaced = 0, False
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise UnreadableError(f"no token starts at {text[position : position + 20]!r}")
        position = match.end()
        if match.lastgroup == "space":
            spaced = True
            continue
        tokens.extend(_tokens(match, spaced))
        spaced = False
        if len(tokens) > MAX_TOKENS:
            raise TooComplexError(f"more than {MAX_TOKENS} tokens")
    return [*tokens, END]


def _tokens(match: re.Match[str], spaced: bool) -> list[Token]:
    found = match[match.lastgroup or 0]
    match match.lastgroup:
        case "number":
            if len(found) > MAX_DIGITS:
                raise TooComplexError(f"a number of {len(found)} digits; the limit is {MAX_DIGITS}")
            return [Token("number", found, spaced)]
        case "command":
            return [_command(found, spaced)]
        case "word":
            return _word(found, spaced)
        case "text":
            return _text(found, spaced)
        case "mark":
            mark = {"**": "^", "=<": "<=", "\\%": "%", "\\|": "|", "\\$": "$"}.get(found, found)
            return [Token("mark", mark, spaced)]
    return [Token("letter", found, spaced)]


def _command(name: str, spaced: bool) -> Token:
    if name in _SIGNS:
        return Token("mark", _SIGNS[name], spaced)
    if name in FUNCTIONS or name in _CONSTANTS or name in _STRUCTURE:
        return Token("name", name, spaced)
    if name in _UNREAD:
        raise UnreadableError(f"\\{name} is not in the grammar")
    return Token("letter", "\\" + name, spaced)  # a Greek letter, or a name that only its author knows


def _word(word: str, spaced: bool) -> list[Token]:
    """Letters without a backslash: a known name, words of a language, or a product of variables."""
    if len(word) == 1:
        return [Token("letter", word, spaced)]
    if word in ("true", "false", "yes", "no", "True", "False", "Yes", "No"):
        return [Token("text", word, spaced)]
    if word in _PLAIN_WORDS:
        if word in ("alpha", "beta", "theta", "lambda"):
            return [Token("letter", "\\" + word, spaced)]
        return [Token("mark" if word == "in" else "name", word, spaced)]
    if len(word) >= 4 and word[1:].islower():
        return [Token("text", word, spaced)]
    for name in ("sqrt", "pi"):
        if word.endswith(name):  # 2xsqrt(3), rpi
            return [*_word(word[: -len(name)], spaced), Token("name", name)]
    return [Token("letter", letter, spaced and index == 0) for index, letter in enumerate(word)]


def _text(words: str, spaced: bool) -> list[Token]:
    r"""What stands in `\text{}` and its like: a letter is a variable, a number a number, anything else words."""
    words = words.strip()
    if words in FUNCTIONS:
        return [Token("name", words, spaced)]
    if re.fullmatch(r"[^\W\d_]", words):
        return [Token("letter", words, spaced)]
    if re.fullmatch(r"\d+(?:\.\d+)?", words):
        return [Token("number", words, spaced)]
    return [Token("text", words, spaced)] if words else []
