r"""Finds the final answer in a completion, by rules that are tried in order; the first that applies wins.

    boxed          the last \boxed{...}, \fbox{...}, \boxed 5, or <|begin_of_box|>...<|end_of_box|>;
                   a "final answer" that is announced after it corrects it
    answer_tag     the last <answer>...</answer>
    hashes         what follows the last #### on its line
    phrase         what follows the last "the answer is", "final answer:", and the same in other languages
    conclusion     what follows the last "therefore it is"
    bare           all of the text, where it is one line and no sentence
    last_quantity  the last formula or number
    last_math      the last formula between $...$, \(...\) or \[...\]
    last_number    the last number
    whole          all of the text

Two modes name the rules for most tasks: `strict` takes an answer only where the completion marks it, `lenient` also
reads sentences. Reasoning does not count: everything up to the last `</think>` is cut off first, and an unfinished
`<think>` is no answer. A rule that applies but finds nothing in its place (an empty box, a box never closed) decides:
no answer. Every rule takes time linear in the length of the text, however hostile.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from rloo_verify.checkers.boxes import find_last_box, last_box
from rloo_verify.checkers.phrases import conclusion, last_announced, phrase
from rloo_verify.checkers.prose import bare, last_math, last_number, last_quantity
from rloo_verify.errors import TaskError

MODES: Mapping[str, tuple[str, ...]] = {
    "strict": ("boxed", "answer_tag", "hashes", "phrase"),
    "lenient": ("boxed", "answer_tag", "hashes", "phrase", "conclusion", "bare", "last_quantity"),
}
DEFAULT_RULES = MODES["strict"]


@dataclass(frozen=True, slots=True)
class Found:
    """A final answer and the rule that found it."""

    text: str
    rule: str


def extract_answer(completion: str, rules: Sequence[str] = DEFAULT_RULES, *, reasoning: bool = False) -> str | None:
    """Find the final answer.

    Args:
        completion: The text of the completion, reasoning included.
        rules: Names of rules, tried in order.
        reasoning: Whether what stands inside `<think>` counts too.

    Returns:
        The answer without surrounding white space, or None where the completion gives none.

    Raises:
        TaskError: A rule's name is unknown.
    """
    found = find_answer(completion, rules, reasoning=reasoning)
    return None if found is None else found.text


def find_answer(completion: str, rules: Sequence[str] = DEFAULT_RULES, *, reasoning: bool = False) -> Found | None:
    """Like `extract_answer`, and says which rule found the answer."""
    for name in rules:
        if name not in RULES:
            raise TaskError(f"extract = {name!r} is no rule of extraction; the rules are {', '.join(RULES)}")
    text = completion if reasoning else without_reasoning(completion)
    if text is None:
        return None
    for name in rules:
        found = RULES[name](text)
        if found is not None:
            return Found(found.strip(), name) if found.strip() else None
    return None


def without_reasoning(completion: str) -> str | None:
    """Cut off everything up to the last `</think>`; None where a `<think>` was never finished."""
    answer = completion.rpartition("</think>")[2]
    return None if "<think>" in answer else answer


def _boxed(text: str) -> str | None:
    """The last box; or a final answer that is announced behind it, which has the last word."""
    box = find_last_box(text) if "box" in text else None
    if box is None or not box.content or not re.search(r"final\s", text[box.end :], re.IGNORECASE):
        return None if box is None else box.content
    later = last_announced(text[box.end :])
    if later is None or not later.final or not re.search(r"\d|\\[a-z]|^\(?[A-J]\)?$", later.content):
        return box.content
    return later.content


def _answer_tag(text: str) -> str | None:
    end = text.rfind("</answer>")
    start = text.rfind("<answer>", 0, max(end, 0))
    if end < 0 or start < 0:
        return "" if "<answer>" in text else None
    inside = text[start + len("<answer>") : end]
    before = text[:start].rstrip()
    if before.endswith("</answer>") and before[before.rfind("<answer>") + 8 : -9].strip() != inside.strip():
        return ""  # several answers in a row
    return last_box(inside) or phrase(inside) or inside


def _hashes(text: str) -> str | None:
    before, hashes, after = text.rpartition("####")
    if not hashes or before.endswith("#"):
        return None
    line, _, rest = after.lstrip(" :").partition("\n")
    # "#### Step 2" is a markdown heading, not an answer: what follows must be a number, or the end of the text.
    return line if not rest.strip() or re.match(r"\s*[-+$]*\s*[\d.]", line) else None


RULES: Mapping[str, Callable[[str], str | None]] = {
    "boxed": _boxed,
    "answer_tag": _answer_tag,
    "hashes": _hashes,
    "phrase": phrase,
    "conclusion": conclusion,
    "bare": bare,
    "last_quantity": last_quantity,
    "last_math": last_math,
    "last_number": last_number,
    "whole": lambda text: text,
}
