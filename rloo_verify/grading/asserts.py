"""Reads assert scripts: literal asserts become calls, so that no test code runs at all.

`assert f(LITERALS) == LITERAL`, `assert f(...)`, `assert not f(...)`, `is`, `!=` and `abs(f(...) - NUMBER) < NUMBER`
are understood, alone or as the body of `def check(candidate)`. One assert that is anything else and the whole script is
left as it is: it then runs in a process of its own, against a stub of the program.
"""

import ast
from collections.abc import Iterable
from typing import Any

from rloo_verify.grading.suite import CallTest, Expectation

_NO_VALUE = object()


def calls_of(source: str, *, check: str = "", entry: str = "") -> list[CallTest] | None:
    """The calls that a script makes.

    Args:
        source: The script.
        check: The function whose body holds the asserts (`check`); empty where they are at the top level.
        entry: What `candidate` stands for inside `check`.

    Returns:
        At least one call, or None where the script is more than literal asserts or does not compile.
    """
    try:
        statements: Iterable[ast.stmt] = ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
    candidate = ""
    if check:
        functions = [node for node in statements if isinstance(node, ast.FunctionDef) and node.name == check]
        others = [node for node in statements if node not in functions]
        if len(functions) != 1 or len(functions[0].args.args) != 1 or not all(map(_is_inert, others)):
            return None
        statements, candidate = functions[0].body, functions[0].args.args[0].arg
    tests: list[CallTest] = []
    for statement in statements:
        if _is_inert(statement):
            continue
        test = _call_of(statement)
        if test is None or (candidate and test.name not in (candidate, entry)):
            return None
        tests.append(CallTest(test.args, test.expected, test.kwargs, entry) if candidate else test)
    return tests or None


def without_function(source: str, name: str) -> str:
    """A prompt's code without one function: its imports and helpers. Empty where it does not compile."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return ""
    kept = [node for node in tree.body if not (isinstance(node, ast.FunctionDef) and node.name == name)]
    return "\n".join(ast.unparse(node) for node in kept if not isinstance(node, ast.Expr))


def _is_inert(node: ast.stmt) -> bool:
    """Docstrings, `pass`, `assert True`, and constants such as METADATA."""
    if isinstance(node, ast.Pass):
        return True
    if isinstance(node, ast.Assert):
        return isinstance(node.test, ast.Constant) and bool(node.test.value)
    if isinstance(node, ast.Expr):
        return isinstance(node.value, ast.Constant | ast.Name)
    return isinstance(node, ast.Assign) and _literal(node.value) is not _NO_VALUE


def _call_of(node: ast.stmt) -> CallTest | None:
    if not isinstance(node, ast.Assert):
        return None
    test = node.test
    if isinstance(test, ast.Call):
        return _test(test, Expectation("true")) or _near(test)
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        return _test(test.operand, Expectation("false"))
    if not isinstance(test, ast.Compare) or len(test.ops) != 1:
        return None
    left, operator, right = test.left, test.ops[0], _literal(test.comparators[0])
    if right is _NO_VALUE:
        if isinstance(operator, ast.Eq) and (value := _literal(left)) is not _NO_VALUE:
            return _test(test.comparators[0], Expectation("equals", value))
        return None
    if isinstance(operator, ast.Eq):
        return _test(left, Expectation("equals", right))
    if isinstance(operator, ast.NotEq):
        return _test(left, Expectation("differs", right))
    if isinstance(operator, ast.Is) and (right is None or isinstance(right, bool)):
        return _test(left, Expectation("is", right))
    if isinstance(operator, ast.Lt) and isinstance(right, int | float) and isinstance(left, ast.Call):
        return _near(left, right)
    return None


def _near(node: ast.Call, tolerance: float | None = None) -> CallTest | None:
    """`abs(f(...) - NUMBER)`, below a tolerance."""
    if tolerance is None or not isinstance(node.func, ast.Name) or node.func.id != "abs" or len(node.args) != 1:
        return None
    difference = node.args[0]
    if not isinstance(difference, ast.BinOp) or not isinstance(difference.op, ast.Sub):
        return None
    number = _literal(difference.right)
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    return _test(difference.left, Expectation("near", number, tolerance))


def _test(node: ast.expr, expected: Expectation) -> CallTest | None:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Name):
        return None
    args = [_literal(arg) for arg in node.args]
    kwargs = {keyword.arg or "": _literal(keyword.value) for keyword in node.keywords}
    if any(value is _NO_VALUE for value in (*args, *kwargs.values())) or "" in kwargs:
        return None
    return CallTest(tuple(args), expected, kwargs, node.func.id)


def _literal(node: ast.expr) -> Any:
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return _NO_VALUE
