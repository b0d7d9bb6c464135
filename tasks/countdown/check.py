"""Checks an answer to a countdown puzzle: the right value from the right numbers, without ever evaluating text."""

import ast
import re
from collections import Counter
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from rloo_verify.checkers import UnusableReferenceError
from rloo_verify.checkers.extract import without_reasoning
from rloo_verify.types import Outcome, Verdict

MAX_CHARACTERS = 200  # four numbers need fewer than 40; it also bounds the depth of the parsed tree

_TAG = re.compile(r"<answer>(.*?)</answer>", re.DOTALL | re.IGNORECASE)
_LINE = re.compile(r"answer\s*[:：]([^\n]*)", re.IGNORECASE)
_SPELLINGS = {"×": "*", "·": "*", "⋅": "*", "÷": "/", "−": "-", "–": "-", r"\times": "*", r"\cdot": "*", r"\div": "/"}
_EXPRESSION = re.compile(r"[0-9+\-*/() ]+")


class WrongAnswerError(Exception):
    """The answer is wrong; `reason` is the verdict's reason, the message its detail."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


def check(completion: str, answer: Any, row: Mapping[str, Any]) -> Verdict:
    """Judges one completion.

    Args:
        completion: The text of the completion.
        answer: Not used: any right expression passes.
        row: `nums`, the numbers to use, and `target`, the value to reach; all integers.

    Returns:
        PASS, or FAIL with the reason `no_answer`, `not_an_expression`, `wrong_numbers` or `wrong_answer`.

    Raises:
        UnusableReferenceError: The row has no usable numbers or target.
    """
    del answer
    nums, target = _puzzle(row)
    text = _final_answer(completion)
    if text is None:
        return Verdict(Outcome.FAIL, "no_answer", "there is no <answer>...</answer> and no `answer:`")
    try:
        _judge(text, nums, target)
    except WrongAnswerError as error:
        return Verdict(Outcome.FAIL, error.reason, str(error), answer=text[:MAX_CHARACTERS])
    return Verdict(Outcome.PASS, "correct", answer=text)


def reference(row: Mapping[str, Any]) -> str | None:
    """A completion that should pass, where the row has a `solution`; `tasks check` verifies it."""
    return f"<answer>{row['solution']}</answer>" if "solution" in row else None


def _puzzle(row: Mapping[str, Any]) -> tuple[list[int], int]:
    nums, target = row.get("nums"), row.get("target")
    if not isinstance(nums, list) or not nums or any(type(number) is not int or number < 0 for number in nums):
        raise UnusableReferenceError(f"`nums` should be a list of whole numbers, not {nums!r}")
    if type(target) is not int:
        raise UnusableReferenceError(f"`target` should be an integer, not {target!r}")
    return nums, target


def _final_answer(completion: str) -> str | None:
    text = without_reasoning(completion)
    if text is None:
        return None
    tags = _TAG.findall(text)
    found = tags[-1] if tags else (_LINE.findall(text) or [""])[-1]
    for spelling, sign in _SPELLINGS.items():
        found = found.replace(spelling, sign)
    return " ".join(found.replace("$", " ").replace("\\(", " ").replace("\\)", " ").split()).strip(" .`*") or None


def _judge(text: str, nums: list[int], target: int) -> None:
    if len(text) > MAX_CHARACTERS:
        raise WrongAnswerError("not_an_expression", f"an answer longer than {MAX_CHARACTERS} characters")
    expression, equals, claimed = text.partition("=")
    if equals and claimed.strip() != str(target):
        raise WrongAnswerError("wrong_answer", f"`= {claimed.strip()}` is not the target {target}")
    if not _EXPRESSION.fullmatch(expression):
        raise WrongAnswerError("not_an_expression", "only whole numbers, + - * / and parentheses may stand in it")
    try:
        tree = ast.parse(expression.strip(), mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise WrongAnswerError("not_an_expression", f"it cannot be read: {type(error).__name__}") from error
    used: list[int] = []
    value = _value(tree.body, used)
    if Counter(used) != Counter(nums):
        raise WrongAnswerError("wrong_numbers", f"it uses {sorted(used)}, not each of {sorted(nums)} once")
    if value != target:
        raise WrongAnswerError("wrong_answer", f"it is {value}, not {target}")


def _value(node: ast.expr, used: list[int]) -> Fraction:
    """The exact value of a whitelisted tree; appends its numbers to `used`."""
    match node:
        case ast.Constant(value=int(number)):
            used.append(number)
            return Fraction(number)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, used)
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, used)
        case ast.BinOp(left=left, op=operator, right=right):
            return _combined(_value(left, used), operator, _value(right, used))
    raise WrongAnswerError("not_an_expression", f"{type(node).__name__} is not arithmetic")


def _combined(left: Fraction, operator: ast.operator, right: Fraction) -> Fraction:
    match operator:
        case ast.Add():
            return left + right
        case ast.Sub():
            return left - right
        case ast.Mult():
            return left * right
        case ast.Div():
            if right == 0:
                raise WrongAnswerError("wrong_answer", "it divides by zero")
            return left / right
    raise WrongAnswerError("not_an_expression", f"{type(operator).__name__} is not one of + - * /")
