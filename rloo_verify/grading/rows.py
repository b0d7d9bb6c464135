"""Reads the tests of a row into a suite, in the forms that public data sets use; no Python of the row is executed here.

| form | what the tests column holds |
|---|---|
| inputs/outputs | `{"inputs": [...], "outputs": [...], "fn_name": optional}`, JSON-encoded or not (APPS, TACO, rLLM) |
| list of cases | `[{"input": ..., "output": ...}]`, with `{"stdin"}` and `{"stdout"}` inside or not (LiveCodeBench) |
| asserts | a list of assert statements (MBPP), or one text of them |
| check function | a text that defines `check(candidate)` (HumanEval, LeetCode) |
| test file | any other text: a pytest or unittest file |
"""

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from rloo_verify.checkers import UnusableReferenceError
from rloo_verify.grading.asserts import calls_of, without_function
from rloo_verify.grading.private_tests import PrivateTestsError, decode_private
from rloo_verify.grading.suite import CallTest, Expectation, OutputTest, Suite, TestFile

_FUNCTION_KEYS = ("fn_name", "entry_point", "func_name")


def suite_of(
    tests: Any,
    *,
    entry: str = "",
    prompt: str = "",
    setup: str = "",
    compare: str = "",
    preamble: str = "",
    max_tests: int | None = None,
    also: Sequence[Any] = (),
) -> Suite:
    """Reads tests.

    Args:
        tests: The column, in one of the forms above; text that holds JSON is decoded.
        entry: The function under test, where the row names it.
        prompt: Code that a completion continues; its imports and helper functions are given to the program and to
            test files.
        setup: Code that runs after the program and before the asserts (MBPP's `test_setup_code`).
        compare: Name of a comparison; by default `python` for asserts, `json` for calls, `tokens` for output.
        preamble: Imports that the prompt promises.
        max_tests: Use only the first so many cases.
        also: Further columns with tests in the same form (public tests beside private ones).

    Raises:
        UnusableReferenceError: They are in none of these forms, or there are none.
    """
    entry = entry.removeprefix("Solution().")
    helpers = without_function(prompt, entry) if prompt and entry else ""
    shared: dict[str, Any] = {"entry": entry, "prompt": prompt, "helpers": helpers, "preamble": f"{preamble}{helpers}"}
    tests = _decoded(tests)
    for more in filter(None, map(_decoded, also)):
        tests = _joined(tests, more)
    if isinstance(tests, Mapping):
        return _from_columns(tests, shared, compare, max_tests)
    if isinstance(tests, list) and tests and all(isinstance(test, str) for test in tests):
        return _from_asserts([str(test) for test in tests], setup, shared, compare)
    if isinstance(tests, list) and tests:
        return _from_cases(tests, shared, compare, max_tests)
    if isinstance(tests, str) and tests.strip():
        return _from_source(tests, setup, shared, compare)
    raise UnusableReferenceError("there are no tests")


def _joined(tests: Any, more: Any) -> Any:
    """The tests of two columns together."""
    if isinstance(tests, list) and isinstance(more, list):
        return more + tests
    if isinstance(tests, Mapping) and isinstance(more, Mapping):
        return {key: [*more.get(key, []), *value] if isinstance(value, list) else value for key, value in tests.items()}
    raise UnusableReferenceError("the columns with tests have different forms")


def _decoded(tests: Any) -> Any:
    """JSON inside text, or compressed private tests inside text, is decoded."""
    if not isinstance(tests, str):
        return tests
    try:
        return _decoded(json.loads(tests))
    except ValueError:
        try:
            private = decode_private(tests)
        except PrivateTestsError as error:
            raise UnusableReferenceError(str(error)) from None
        return tests if private is None else _decoded(private)
    except RecursionError:
        raise UnusableReferenceError("the tests are JSON that is nested too deeply") from None


def _from_columns(table: Mapping[str, Any], shared: dict[str, Any], compare: str, max_tests: int | None) -> Suite:
    inputs, outputs = table.get("inputs", table.get("input")), table.get("outputs", table.get("output"))
    name = next((str(table[key]) for key in _FUNCTION_KEYS if table.get(key)), "")
    if not isinstance(inputs, list) or not isinstance(outputs, list) or len(inputs) != len(outputs):
        raise UnusableReferenceError("`inputs` and `outputs` must be lists of the same length")
    pairs = list(zip(inputs, outputs, strict=True))[:max_tests]
    if not pairs:
        raise UnusableReferenceError("there are no tests")
    if not name:
        runs = [OutputTest(_text(given), _text(wanted)) for given, wanted in pairs]
        return Suite(runs, compare=compare or "tokens", **shared)
    calls = [CallTest(tuple(_arguments(given)), Expectation("equals", _expected(wanted))) for given, wanted in pairs]
    return Suite(calls, compare=compare or "json", **{**shared, "entry": name})


def _from_cases(cases: list[Any], shared: dict[str, Any], compare: str, max_tests: int | None) -> Suite:
    runs: list[OutputTest] = []
    calls: list[CallTest] = []
    for case in cases[:max_tests]:
        if not isinstance(case, Mapping) or "input" not in case or "output" not in case:
            raise UnusableReferenceError("a test case must have `input` and `output`")
        given, wanted = case["input"], case["output"]
        if isinstance(given, Mapping):
            given = given.get("stdin", given)
        if isinstance(wanted, Mapping):
            wanted = wanted.get("stdout", wanted)
        name = next((str(case[key]) for key in _FUNCTION_KEYS if case.get(key)), "")
        if name or case.get("testtype") == "functional":
            args = _lines_of_json(given)
            expected = _json(wanted) if isinstance(wanted, str) else _expected(wanted)
            calls.append(CallTest(tuple(args), Expectation("equals", expected), {}, name))
        else:
            runs.append(OutputTest(_text(given), _text(wanted)))
    if runs and calls:
        raise UnusableReferenceError("some test cases are calls, others use standard input")
    if calls and not all(call.name or shared["entry"] for call in calls):
        raise UnusableReferenceError("the test cases are calls, but nothing names the function")
    if calls:
        return Suite(calls, compare=compare or "json", **{**shared, "entry": shared["entry"] or calls[0].name})
    return Suite(runs, compare=compare or "tokens", **shared)


def _from_asserts(asserts: list[str], setup: str, shared: dict[str, Any], compare: str) -> Suite:
    script = "\n".join(asserts)
    calls = None if setup.strip() else calls_of(script)
    if calls is not None:
        return Suite(calls, compare=compare or "python", **{**shared, "entry": shared["entry"] or calls[0].name})
    return Suite(TestFile("script", f"{setup}\n{script}\n"), **shared)


def _from_source(source: str, setup: str, shared: dict[str, Any], compare: str) -> Suite:
    try:
        names = {node.name for node in ast.parse(source).body if isinstance(node, ast.FunctionDef)}
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise UnusableReferenceError(f"the tests are no Python: {error}") from None
    check = "check" if "check" in names else ""
    if check and not shared["entry"]:
        raise UnusableReferenceError("the tests define check(candidate), but nothing names the candidate")
    if not check and ("import " in source and ("def test" in source or "TestCase" in source)):
        return Suite(TestFile("pytest", source), **shared)
    calls = None if setup.strip() else calls_of(source, check=check, entry=shared["entry"])
    if calls is not None:
        return Suite(calls, compare=compare or "python", **{**shared, "entry": shared["entry"] or calls[0].name})
    return Suite(TestFile("script", f"{setup}\n{source}\n", call=check), **shared)


def _text(value: Any) -> str:
    """What a program reads or prints: lists are lines."""
    if isinstance(value, list):
        return "\n".join(_text(item) for item in value)
    return value if isinstance(value, str) else str(value)


def _arguments(given: Any) -> list[Any]:
    if isinstance(given, str):
        return _lines_of_json(given)
    return given if isinstance(given, list) else [given]


def _expected(wanted: Any) -> Any:
    """APPS and TACO wrap the value of a function in a list of one."""
    return wanted[0] if isinstance(wanted, list) and len(wanted) == 1 else wanted


def _lines_of_json(given: Any) -> list[Any]:
    """LiveCodeBench writes one JSON value a line, one for each argument."""
    if not isinstance(given, str):
        return given if isinstance(given, list) else [given]
    return [_json(line) for line in given.split("\n") if line.strip()]


def _json(text: Any) -> Any:
    if not isinstance(text, str):
        return text
    try:
        return json.loads(text)
    except ValueError:
        return text
