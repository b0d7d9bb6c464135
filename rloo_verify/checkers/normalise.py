r"""Brings a final answer to one plain spelling before it is read: the same text after this is the same answer.

Each step is a small pure function and may be read alone; `normalise` applies them in order. Nothing here decides what
equals what: no step drops a digit, a sign, a relation or a word.
"""

import re
import unicodedata

_SYMBOLS = {
    "\u2212": "-", "\u2013": "-", "\u2014": "-", "\uff0d": "-", "×": r"\times ", "·": r"\cdot ", "⋅": r"\cdot ",
    "÷": "/", "∕": "/", "⁄": "/", "≤": r"\le ", "⩽": r"\le ", "≥": r"\ge ", "⩾": r"\ge ", "≠": r"\ne ",
    "≈": r"\approx ", "±": r"\pm ", "∓": r"\mp ", "∞": r"\infty ", "√": r"\sqrt ", "∛": r"\sqrt[3]", "°": r"^\circ ",
    "∪": r"\cup ", "∩": r"\cap ", "∅": r"\emptyset ", "∈": r"\in ", "∖": r"\setminus ", "ℝ": r"\mathbb{R}",
    "ℤ": r"\mathbb{Z}", "ℕ": r"\mathbb{N}", "ℚ": r"\mathbb{Q}", "ℂ": r"\mathbb{C}", "π": r"\pi ", "θ": r"\theta ",
    "α": r"\alpha ", "β": r"\beta ", "γ": r"\gamma ", "λ": r"\lambda ", "μ": r"\mu ", "φ": r"\phi ", "ω": r"\omega ",
    "′": "'", "’": "'", "“": '"', "”": '"', "，": ",", "；": ";", "：": ":", "（": "(", "）": ")", "【": "[", "】": "]",
    "。": ".", "、": ",", "∶": ":", "➗": "/", "⟨": r"\langle ", "⟩": r"\rangle ",
}  # fmt: skip
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ", "0123456789+-()ni")
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉₊₋", "0123456789+-")
_SUPERSCRIPT_RUN = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱ]+")
_SUBSCRIPT_RUN = re.compile("[₀₁₂₃₄₅₆₇₈₉₊₋]+")
_VULGAR = re.compile("[½⅓⅔¼¾⅕⅖⅗⅘⅙⅚⅛⅜⅝⅞⅐⅑⅒]")
_INVISIBLE = re.compile("[\u200b-\u200f\u202a-\u202e\u2060-\u2064\ufeff\u00ad]|\\\\x0[cC]")
_SIZES = re.compile(r"\\(?:left|right|[bB]igg?[lrm]?|middle)(?![a-zA-Z])\s*(?:\.(?!\d))?")
_LAYOUT = re.compile(
    r"\\(?:displaystyle|textstyle|scriptstyle|limits|nolimits|phantom\{[^{}]*\}|hline|rm|bf|it|normalsize|large|Large)(?![a-zA-Z])"
)
_SPACES = re.compile(
    r"(?<!\\)\\[,;:> ]|\\q?quad|\\(?:enspace|thinspace|space|hfill)(?![a-zA-Z])|~|[\s\u00a0\u2000-\u200a\u202f]+"
)
_FRACTIONS = re.compile(r"\\(?:dfrac|tfrac|cfrac)(?![a-zA-Z])")
_SPELLINGS = (
    (re.compile(r"\\(?:leq|leqslant|leqq)(?![a-zA-Z])"), r"\\le"),
    (re.compile(r"\\(?:geq|geqslant|geqq)(?![a-zA-Z])"), r"\\ge"),
    (re.compile(r"\\neq(?![a-zA-Z])|\\not\s*="), r"\\ne"),
    (re.compile(r"\\(?:varnothing|O)(?![a-zA-Z])"), r"\\emptyset"),
    (re.compile(r"\\(?:degree|degrees)(?![a-zA-Z])"), r"^\\circ"),
    (re.compile(r"\^\s*\{\s*\\circ\s*\}|\^\s*\\circ(?![a-zA-Z])"), r"^\\circ "),
    (re.compile(r"\\(?:dbinom|tbinom)(?![a-zA-Z])"), r"\\binom"),
    (re.compile(r"\\lbrace(?![a-zA-Z])"), r"\\{"),
    (re.compile(r"\\rbrace(?![a-zA-Z])"), r"\\}"),
    (re.compile(r"\\(?:lbrack)(?![a-zA-Z])"), "["),
    (re.compile(r"\\(?:rbrack)(?![a-zA-Z])"), "]"),
    (re.compile(r"\\langle(?![a-zA-Z])"), "("),
    (re.compile(r"\\rangle(?![a-zA-Z])"), ")"),
)
_ESCAPED = re.compile(r"\\\\(?=[a-zA-Z{}()\[\]])")
_MONEY = re.compile(r"\\?\$|[€£¥]")
_DECIMAL_COMMA = re.compile(r"[-+]?0,\d{3,}")  # nothing else has a zero before three digits
_DOTS = re.compile(r"(\.\d{0,40}?)(\d)\2{2,40}\s?(?:\.\.\.|\\[cl]?dots(?![a-zA-Z]))")  # 0.333...
_PLAIN = re.compile(r"\s*[-+]?\d+(?:\.\d+)?\s*")
_ROW_END = re.compile(r"\\\\\s*\[[-\d.a-z ]{1,12}\]|\\cr(?![a-zA-Z])")
_COLOUR = re.compile(r"\\(?:text)?color\s*\{[a-zA-Z]+\}")
_TWO_INDICES = re.compile(r"_\{\s*(\w)\s*,\s*(\w)\s*\}")
_OVER = re.compile(r"\{\s*([^{}]+?)\s*\\over\s*([^{}]+?)\s*\}")
_GROUPED = re.compile(r"(?<=\d)\s*(?:\{\s*,\s*\}\s*|,\\!\s*|\\!,\s*|\\,)(?=\d{3}(?!\d))")
_FRENCH = re.compile(r"(?<![\w)}\]])([\[\]])([^\[\](){}]{1,60}[,;][^\[\](){}]{1,60})([\[\]])(?![\w(\[])")
_WRAPPERS = (("$$", "$$"), ("$", "$"), (r"\(", r"\)"), (r"\[", r"\]"), ("**", "**"), ("`", "`"), ("*", "*"))
_WRAPPED = ("$", "\\", "*", "`")
_MAX_WRAPPINGS = 8
_FONT = re.compile(
    r"\s*\\(?:boxed|fbox|textnormal|mathbf|boldsymbol|bm|mathit|mathsf|textbf|emph|underline|text|mathrm|textit|textrm|mbox|ensuremath)\s*\{"
)


def normalise(text: str) -> str:
    """Bring a final answer to one plain spelling.

    Args:
        text: A final answer, at most `MAX_CHARACTERS` long.

    Returns:
        The same answer without layout: no math delimiters, sizes or spacing commands, one spelling of each symbol, no
        full stop at the end.
    """
    if _PLAIN.fullmatch(text):
        return text.strip()
    text = plain_symbols(text)
    if "\\" in text or "{" in text:
        text = _without_commands(text)
    if "]" in text or "[" in text:
        text = _FRENCH.sub(_round, text)
    text = _DOTS.sub(r"\1\\overline{\2}", text)
    text = _SPACES.sub(" ", text)
    text = unwrapped(_MONEY.sub(" ", unwrapped(text))).removeprefix("=").lstrip()
    return text.replace(",", ".") if _DECIMAL_COMMA.fullmatch(text) else text


def _without_commands(text: str) -> str:
    """One spelling of LaTeX's commands, and none of those that are only layout."""
    if "\\\\" in text and "\\begin" not in text:
        text = _ESCAPED.sub(r"\\", text)
    if "\\begin" in text:
        text = _ROW_END.sub(r"\\\\ ", text)
    text = _GROUPED.sub("", text)
    text = _SIZES.sub("", text)
    text = _LAYOUT.sub(" ", _COLOUR.sub("", text))
    text = _TWO_INDICES.sub(r"_{\1\2}", text)
    text = _OVER.sub(r"\\frac{\1}{\2}", text.replace(r"\!", ""))
    text = _FRACTIONS.sub(r"\\frac", text)
    for pattern, spelling in _SPELLINGS:
        text = pattern.sub(spelling, text)
    return text


def _round(interval: re.Match[str]) -> str:
    """`]0, 1[`, an interval without its ends, is `(0, 1)`."""
    opening, inside, closing = interval.groups()
    return ("(" if opening == "]" else "[") + inside + (")" if closing == "[" else "]")


def plain_symbols(text: str) -> str:
    """Replace Unicode's mathematical characters by their LaTeX spelling, and drop invisible ones."""
    if text.isascii():
        return text
    text = _INVISIBLE.sub("", text)
    text = _SUPERSCRIPT_RUN.sub(lambda run: "^{" + run.group().translate(_SUPERSCRIPTS) + "}", text)
    text = _SUBSCRIPT_RUN.sub(lambda run: "_{" + run.group().translate(_SUBSCRIPTS) + "}", text)
    text = _VULGAR.sub(_fraction, text)
    text = "".join(_SYMBOLS.get(character, character) for character in text)
    return unicodedata.normalize("NFKC", text)


def _fraction(half: re.Match[str]) -> str:
    numerator, denominator = unicodedata.normalize("NFKC", half.group()).split("\u2044")
    return rf"\frac{{{numerator}}}{{{denominator}}}"


def unwrapped(text: str) -> str:
    r"""Strip what surrounds the whole answer: `$...$`, `\(...\)`, `\boxed{...}`, bold face, a full stop at the end."""
    for _ in range(_MAX_WRAPPINGS):
        before = text
        text = text.strip().rstrip(".,;:\\ ")
        for start, end in _WRAPPERS if text[:1] in _WRAPPED else ():
            inner = text[len(start) : len(text) - len(end)]
            if (
                len(text) > len(start) + len(end)
                and text.startswith(start)
                and text.endswith(end)
                and start not in inner
            ):
                text = inner
        text = without_font(text)
        if text == before:
            break
    return text


def without_font(text: str) -> str:
    r"""Strip one font or text command that holds the whole answer: `\text{17}` is `17`."""
    match = _FONT.match(text) if "\\" in text else None
    if match is None or not text.endswith("}"):
        return text
    depth = 0
    for position in range(match.end() - 1, len(text)):
        if text[position] == "{" and text[position - 1] != "\\":
            depth += 1
        elif text[position] == "}" and text[position - 1] != "\\":
            depth -= 1
            if depth == 0:
                return text[match.end() : -1] if position == len(text) - 1 else text
    return text
