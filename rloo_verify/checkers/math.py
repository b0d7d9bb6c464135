"""The checker `math`: is the final answer mathematically the reference?

    completion --find_answer--> text --normalise--> plain text --read_number--> exact fraction
                                                    plain text --read_answer--> tree --equal--> verdict

The fast path covers plain numbers and equal spellings, and imports nothing heavy. No text is ever evaluated as code:
the grammar is our own (`parser.py`), and the size of every computation is bounded before it is done (`limits.py`).
Doubt is FAIL; a reference that cannot be used is ERROR. docs/math-equality.md states what equals what.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rloo_verify.checkers import UnusableReferenceError, levels
from rloo_verify.checkers.answers import read_answer
from rloo_verify.checkers.choice import letter as chosen_letter
from rloo_verify.checkers.equality import equal
from rloo_verify.checkers.extract import MODES, RULES, Found, find_answer, without_reasoning
from rloo_verify.checkers.levels import Level
from rloo_verify.checkers.limits import MAX_CHARACTERS, MAX_RAW_CHARACTERS, TooComplexError, UnreadableError
from rloo_verify.checkers.normalise import normalise
from rloo_verify.checkers.numbers import Number, read_number
from rloo_verify.checkers.prose import is_sentence, only_letter, only_quantity
from rloo_verify.checkers.reference import Reference, read_references
from rloo_verify.checkers.units import currency
from rloo_verify.errors import TaskError
from rloo_verify.types import Outcome, Verdict

DEFAULT_MODE = "strict"
_LONGEST_SHOWN = 200
_SPOKEN = frozenset(["phrase", "conclusion"])
_DECIMAL_COMMA = re.compile(r"([-+]?\d+|[-+]?\d{1,3}(?:[. ]\d{3})+),(\d+)")
_NO_ANSWER = Verdict(Outcome.FAIL, "no_answer", "the completion gives no final answer")


def check(
    completion: str,
    answer: Any,
    row: Mapping[str, Any],
    *,
    mode: str = DEFAULT_MODE,
    extract: Sequence[str] | None = None,
    reasoning: bool = False,
) -> Verdict:
    """Judge whether a completion's final answer equals the reference.

    Args:
        completion: The text of the completion, reasoning included.
        answer: The reference: text (LaTeX or plain) or a number; or a list of them, any of which is right.
        row: Not used.
        mode: `strict`: the completion must mark its final answer. `lenient`: sentences are read, too.
        extract: Rules of `find_answer`, tried in order, in place of those of the mode.
        reasoning: Whether an answer inside `<think>` counts.

    Returns:
        PASS `correct`; FAIL `no_answer`, `wrong_answer` or `too_complex`; ERROR `unusable_reference`.

    Raises:
        TaskError: The mode or a rule is unknown.
    """
    del row
    try:
        references = read_references(answer)
    except UnusableReferenceError as error:
        return Verdict(Outcome.ERROR, "unusable_reference", str(error))
    lenient = mode == "lenient"
    found = find_answer(completion, rules(mode, extract), reasoning=reasoning)
    verdicts: list[Verdict] = []
    for reference in references:
        chosen = _spoken_letter(completion, found) if lenient and reference.letter else found
        verdicts.append(_NO_ANSWER if chosen is None else _verdict(reference, chosen, lenient=lenient))
        if verdicts[-1].outcome is Outcome.PASS:
            return verdicts[-1]
    if lenient and (found is None or found.rule not in MODES["strict"]) and _repeats(completion, references):
        return Verdict(Outcome.PASS, "correct", Level.TEXT, completion[:_LONGEST_SHOWN])
    # An unusable reference among several leaves in doubt whether the answer is wrong.
    return next((one for one in reversed(verdicts) if one.outcome is not Outcome.FAIL), verdicts[-1])


def rules(mode: str, extract: Sequence[str] | None = None) -> Sequence[str]:
    """The rules of extraction of a mode, unless `extract` names others.

    Raises:
        TaskError: The mode is unknown.
    """
    if mode not in MODES:
        raise TaskError(f"mode = {mode!r} is no mode of the math checker; use {' or '.join(MODES)}")
    return MODES[mode] if extract is None else extract


def prepare(answer: Any, **options: Any) -> list[Reference]:
    """Read the reference alone.

    Args:
        answer: The reference.
        **options: The options of `check`; not used.

    Returns:
        The references as `check` uses them.

    Raises:
        UnusableReferenceError: It is empty.
    """
    del options
    return read_references(answer)


def warm_up() -> None:
    """Import mpmath and sympy, which take up to a second, before the first answer is judged."""
    check(r"\boxed{\frac{n(n+1)}{2}}", r"\sum_{k=1}^{n} k", {})
    check(r"\boxed{\sqrt{8}}", r"2\sqrt{2}", {})


def judge(reference: Reference, text: str) -> bool | None:
    """Whether a final answer, normalised, is the reference, the cheapest way that decides; None where it is unusable.

    Raises:
        TooComplexError: The answer is beyond the limits.
        UnreadableError: It is not in the grammar.
    """
    levels.start()
    if text == reference.text:
        levels.note(Level.TEXT)
        return True
    if len(text) > MAX_CHARACTERS:
        raise TooComplexError(f"a final answer of {len(text)} characters; the limit is {MAX_CHARACTERS}")
    if reference.letter is not None and chosen_letter(text) == reference.letter:
        levels.note(Level.LETTER)
        return True
    number = read_number(text)
    if number is not None and reference.number is not None:
        same = number.value == reference.number.value
        if same or (number.finite and reference.number.finite):  # a decimal is never rounded to another
            levels.note(Level.NUMBER)
            return same
    if reference.number is not None and reference.number.decimals and _decimal_comma(text, reference.number):
        levels.note(Level.NUMBER)
        return True
    if reference.tree is None:
        same = "".join(text.split()) == "".join(reference.text.split())
        levels.note(Level.TEXT)
        return True if same else None
    return equal(reference.tree, read_answer(text) if number is None else number.tree)


def _verdict(reference: Reference, found: Found, *, lenient: bool) -> Verdict:
    text = found.text
    if lenient and found.rule in _SPOKEN:
        if reference.letter:
            text = only_letter(text) or text
        elif is_sentence(text):
            text = only_quantity(text) or text
    shown = text[:_LONGEST_SHOWN]
    if len(text) > MAX_RAW_CHARACTERS:
        return Verdict(Outcome.FAIL, "too_complex", f"a final answer of {len(text)} characters", shown)
    plain = normalise(text)
    if not plain:
        return Verdict(Outcome.FAIL, "no_answer", "the final answer is empty", shown)
    try:
        same = judge(reference, plain)
    except TooComplexError as error:
        return Verdict(Outcome.FAIL, "too_complex", str(error), shown)
    except UnreadableError as error:
        return Verdict(Outcome.FAIL, "wrong_answer", f"the answer cannot be read: {error}", shown)
    if same is None:
        said = f"the reference {reference.text[:_LONGEST_SHOWN]!r} cannot be judged against: {reference.unusable}"
        return Verdict(Outcome.ERROR, "unusable_reference", said, shown)
    if same and reference.currency and (currency(text) or reference.currency) != reference.currency:
        return Verdict(Outcome.FAIL, "wrong_answer", f"{currency(text)}, not {reference.currency}", shown)
    if same:
        return Verdict(Outcome.PASS, "correct", ", ".join(levels.used()), shown)
    return Verdict(Outcome.FAIL, "wrong_answer", ", ".join(levels.used()), shown)


def _spoken_letter(completion: str, found: Found | None) -> Found | None:
    """What was found; or, where it stands in no marked place, the letter that the last sentence chooses."""
    text = without_reasoning(completion) or ""
    if any(RULES[name](text) is not None for name in (*MODES["strict"], "conclusion")):
        return found
    lines = [line for line in text.splitlines() if line.strip()]
    sentence = re.split(r"[.。!]\s+", lines[-1].strip().rstrip(".。!"))[-1] if lines else ""
    letter = only_letter(sentence) if is_sentence(sentence) else None
    return found if letter is None else Found(letter, "conclusion")


def _repeats(completion: str, references: Sequence[Reference]) -> bool:
    """Whether all of the completion is a reference, which may be prose that no rule takes for an answer."""
    if len(completion) > MAX_CHARACTERS:
        return False
    money, text = currency(completion), normalise(completion)
    return any(text == one.text and (money or one.currency) == one.currency for one in references)


def _decimal_comma(text: str, number: Number) -> bool:
    """Whether a text is the number with a decimal comma, digit for digit."""
    match = _DECIMAL_COMMA.fullmatch(text)
    if match is None or len(match[2]) != number.decimals:
        return False
    return read_number(f"{re.sub('[. ]', '', match[1])}.{match[2]}") == number


check.prepare = prepare  # type: ignore[attr-defined]
check.warm_up = warm_up  # type: ignore[attr-defined]
