"""Programs out of replies, calls out of asserts, suites out of rows, private tests out of pickles that run nothing."""

import base64
import json
import pickle
import zlib
from dataclasses import replace
from typing import Any

import pytest

from rloo_verify.checkers import UnusableReferenceError
from rloo_verify.grading.asserts import calls_of, without_function
from rloo_verify.grading.extract import extract_code
from rloo_verify.grading.private_tests import PrivateTestsError, decode_private
from rloo_verify.grading.rows import suite_of
from rloo_verify.grading.suite import CallTest, Expectation, OutputTest, TestFile
from rloo_verify.types import Problem
from rloo_verify.verify import _answer_of

F = "```"


@pytest.mark.parametrize(
    ("reply", "first"),
    [
        (f"Text\n{F}python\nA\n{F}\nmore", "A\n"),
        (f"{F}python\nA\n{F}\n{F}python\nB\n{F}", "B\n"),
        (f"{F}python\nA\n{F}\n{F}\noutput\n{F}", "A\n"),
        (f"{F}python\nA\n{F}\n{F}bash\nls\n{F}", "A\n"),
        (f"{F}\nA\n{F}", "A\n"),
        (f"{F}py\r\nA\r\n{F}\r\n", "A\n"),
        ("~~~python\nA\n~~~", "A\n"),
        (f"{F}`python\nA = '{F}'\n{F}\n{F}`", f"A = '{F}'\n{F}\n"),
        (f"- item\n  {F}python\n  A\n    B\n  {F}", "A\n  B\n"),
        (f"{F}python\nA", "A\n"),
        (f"<think>\n{F}python\nB\n{F}\n</think>\n{F}python\nA\n{F}", "A\n"),
        ("print(1)", "print(1)"),
    ],
)
def test_the_program_of_a_reply(reply: str, first: str) -> None:
    assert extract_code(reply).sources[0] == first


@pytest.mark.parametrize("reply", ["", "  \n", f"<think>\n{F}python\nA\n{F}"])
def test_a_reply_without_a_program(reply: str) -> None:
    assert extract_code(reply).sources == ()


def test_prose_before_an_unfenced_program_is_an_alternative() -> None:
    assert extract_code("Here:\nimport sys\nprint(1)").sources[1] == "import sys\nprint(1)"


def test_literal_asserts_become_calls() -> None:
    source = (
        "assert f(1, [2]) == {3: (4,)}\nassert not g('a', key=-1)\nassert abs(h(2) - 0.5) < 1e-6\nassert f(1) is None"
    )
    assert calls_of(source) == [
        CallTest((1, [2]), Expectation("equals", {3: (4,)}), {}, "f"),
        CallTest(("a",), Expectation("false"), {"key": -1}, "g"),
        CallTest((2,), Expectation("near", 0.5, 1e-6), {}, "h"),
        CallTest((1,), Expectation("is", None), {}, "f"),
    ]


@pytest.mark.parametrize(
    "source",
    [
        "x = []\nassert f(x) == 1",
        "assert f(1) == g(2)",
        "assert f(g(1)) == 2",
        "for i in (1, 2):\n    assert f(i)",
        "1 +",
        "assert f(1) < 2",
        "assert f(*[1]) == 2",
        "assert abs(f(1) - x) < 1",
        "pass",
    ],
)
def test_a_script_that_is_more_than_literal_asserts_is_left_as_it_is(source: str) -> None:
    calls = calls_of(source)
    assert calls is None or source.startswith("x = []")


def test_a_check_function_calls_the_entry_point() -> None:
    source = "METADATA = {'a': 1}\ndef check(candidate):\n    assert True\n    assert candidate(1) == 2\n"
    assert calls_of(source, check="check", entry="f") == [CallTest((1,), Expectation("equals", 2), {}, "f")]
    assert calls_of(source + "    assert other(1) == 2\n", check="check", entry="f") is None


def test_the_helpers_of_a_prompt_are_what_is_not_the_entry_point() -> None:
    prompt = 'import math\ndef helper(x):\n    return x\ndef f(x):\n    """Doc."""\n'
    assert without_function(prompt, "f") == "import math\ndef helper(x):\n    return x"


IO: Any = {"inputs": ["1\n", ["2", "3"]], "outputs": ["a", ["b", "c"]]}


def test_the_forms_of_public_data_sets_are_read() -> None:
    runs = [OutputTest("1\n", "a"), OutputTest("2\n3", "b\nc")]
    assert suite_of(IO).tests == suite_of(json.dumps(IO)).tests == runs
    named = {"fn_name": "f", "inputs": [[1, 2], "3\n4"], "outputs": [[5], 6]}
    calls = [CallTest((1, 2), Expectation("equals", 5)), CallTest((3, 4), Expectation("equals", 6))]
    assert (suite_of(named).tests, suite_of(named).entry, suite_of(named).compare) == (calls, "f", "json")
    assert suite_of([{"input": {"stdin": "1"}, "output": {"stdout": "2"}}]).tests == [OutputTest("1", "2")]
    functional = [{"input": "[1]\n2", "output": "3", "testtype": "functional"}]
    assert suite_of(functional, entry="f").tests == [CallTest(([1], 2), Expectation("equals", 3))]
    assert suite_of(["assert f(1) == 2"]).entry == "f"
    assert suite_of("import solution\ndef test_a():\n    pass").tests == TestFile(
        "pytest", "import solution\ndef test_a():\n    pass"
    )
    joined = suite_of({"input": ["2"], "output": ["b"]}, also=[{"input": ["1"], "output": ["a"]}])
    assert joined.tests == [OutputTest("1", "a"), OutputTest("2", "b")]


def test_setup_code_makes_asserts_a_script() -> None:
    suite = suite_of(["assert f(root) == 1"], setup="root = Node(1)")
    assert suite.tests == TestFile("script", "root = Node(1)\nassert f(root) == 1\n")


@pytest.mark.parametrize(
    "tests",
    [
        None,
        "",
        [],
        {},
        5,
        {"inputs": [], "outputs": []},
        {"inputs": ["1"], "outputs": []},
        [{"input": "1"}],
        [1],
        "1 +",
        "def check(candidate): pass",
    ],
)
def test_tests_that_cannot_be_run_are_the_rows_fault(tests: Any) -> None:
    with pytest.raises(UnusableReferenceError):
        suite_of(tests)


class Evil:
    def __reduce__(self) -> Any:
        return (print, ("never",))


def packed(value: Any) -> str:
    return base64.b64encode(zlib.compress(pickle.dumps(value))).decode()


def test_private_tests_are_read_without_any_name(capsys: pytest.CaptureFixture[str]) -> None:
    assert decode_private(packed(json.dumps([{"input": "1", "output": "2"}]))) == '[{"input": "1", "output": "2"}]'
    assert decode_private("no base64!") is None
    for bad in (packed(Evil()), packed(print), base64.b64encode(zlib.compress(b"\x80garbage")).decode()):
        with pytest.raises(PrivateTestsError):
            decode_private(bad)
    with pytest.raises(UnusableReferenceError, match="only plain data"):
        suite_of(packed(Evil()))
    assert capsys.readouterr().out == ""


def test_tests_that_are_a_column_of_the_row_are_sent_to_a_worker_once() -> None:
    tests = '{"inputs": ["1"], "outputs": ["1"]}'
    problem = Problem("apps/test/0", "apps", (), "", answer=tests, row={"problem_id": 0, "input_output": tests})
    assert _answer_of(problem) == {"answer_column": "input_output"}
    assert _answer_of(replace(problem, answer="another")) == {"answer": "another"}
