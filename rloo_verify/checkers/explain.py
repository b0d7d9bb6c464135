"""What the math checker saw in one answer, step by step: `rloo-verify check math --gold G --response R --explain`."""

from typing import Any

from rloo_verify.checkers import UnusableReferenceError, levels
from rloo_verify.checkers.answers import read_answer
from rloo_verify.checkers.extract import find_answer, without_reasoning
from rloo_verify.checkers.limits import TooComplexError, UnreadableError
from rloo_verify.checkers.math import check, rules
from rloo_verify.checkers.nodes import Brackets, Call, Const, Matrix, Node, Num, Quantity, Relation, Sym, Text, Union
from rloo_verify.checkers.normalise import normalise
from rloo_verify.checkers.numbers import read_number
from rloo_verify.checkers.reference import Reference, read_references

_LONGEST = 200
_BRACKETS = {"(": "tuple or interval", "[": "interval or list", "{": "set", "{|": "described set", "": "bare list"}
_CALLS = {"%": "percentage", "ratio": "ratio", "time": "time of day", "date": "date", "base": "number in another base"}


def explain(gold: Any, response: str, mode: str) -> dict[str, str]:
    """Every step from a response to its verdict, in order.

    Args:
        gold: The reference, as `check` takes it.
        response: The completion.
        mode: `strict` or `lenient`.

    Returns:
        Names of steps and what each found: `extraction`, `reference_type`, `answer_form`, `level`, `verdict`...

    Raises:
        TaskError: The mode is unknown.
    """
    names = rules(mode)
    visible = without_reasoning(response)
    found = find_answer(response, names)
    steps = {"mode": f"{mode}: {', '.join(names)}"}
    steps["reasoning"] = "a <think> that is not finished: no answer" if visible is None else _cut(response, visible)
    steps["extraction"] = "no final answer" if found is None else f"{found.text[:_LONGEST]!r} by the rule {found.rule}"
    steps.update(_reference_steps(gold))
    if found is not None:
        steps.update(_steps("answer", normalise(found.text[: 10 * _LONGEST])))
    verdict = check(response, gold, {}, mode=mode)
    steps["level"] = ", ".join(levels.used()) or "none: nothing was compared"
    steps["verdict"] = f"{verdict.outcome} ({verdict.reason})"
    steps["detail"] = verdict.detail
    return steps


def kind(node: Node) -> str:
    """The type of an answer, in words."""
    match node:
        case Num(value, places):
            return "decimal" if places is not None else "integer" if value.denominator == 1 else "fraction"
        case Brackets(opening, _, _):
            return _BRACKETS[opening]
        case Relation(signs, _):
            return "equation" if set(signs) == {"="} else "relation or inequality"
        case Quantity(_, unit):
            return f"quantity in {unit}"
        case Call(name, _) if name in _CALLS:
            return _CALLS[name]
    names = {Sym: "variable", Const: "constant", Call: "expression", Matrix: "matrix", Union: "union", Text: "text"}
    return names[type(node)]


def written(node: Node) -> str:
    """A tree in one line, as the checker compares it."""
    match node:
        case Num(value):
            return str(value)
        case Sym(name) | Const(name) | Text(name):
            return name
        case Call(name, args):
            return f"{name}({', '.join(map(written, args))})"
        case Brackets(opening, closing, items):
            return f"{opening}{', '.join(map(written, items))}{closing}" if opening else ", ".join(map(written, items))
        case Relation(signs, sides):
            chain = zip(signs, map(written, sides[1:]), strict=True)
            return written(sides[0]) + "".join(f" {sign} {side}" for sign, side in chain)
        case Matrix(rows):
            return "; ".join(" ".join(map(written, row)) for row in rows)
        case Union(parts):
            return " cup ".join(map(written, parts))
        case Quantity(value, unit):
            return f"{written(value)} [{unit}]"
    raise AssertionError(node)


def _cut(response: str, visible: str) -> str:
    return f"{len(response) - len(visible)} characters up to </think> do not count" if visible != response else "none"


def _reference_steps(gold: Any) -> dict[str, str]:
    try:
        references: list[Reference] = read_references(gold)
    except UnusableReferenceError as error:
        return {"reference": f"cannot be used: {error}"}
    steps: dict[str, str] = {}
    for number, reference in enumerate(references, start=1):
        name = "reference" if len(references) == 1 else f"reference_{number}"
        steps.update(_steps(name, reference.text))
        if reference.unusable:
            steps[f"{name}_unusable"] = reference.unusable
    return steps


def _steps(name: str, text: str) -> dict[str, str]:
    steps = {f"{name}_text": text[:_LONGEST]}
    try:
        number = read_number(text)
        tree = read_answer(text) if number is None else number.tree
        steps[f"{name}_type"] = kind(tree)
        steps[f"{name}_form"] = written(tree)[:_LONGEST]
    except (UnreadableError, TooComplexError) as error:
        steps[f"{name}_type"] = f"not in the grammar: {error}"
    return steps
