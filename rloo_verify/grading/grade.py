"""Runs a program against a suite and says PASS or FAIL, with the reason.

Reasons: `accepted`; `wrong_answer`, `runtime_error`, `time_limit`, `memory_limit`, `output_limit`, `compile_error`,
`no_code`. Infrastructure trouble is no reason: `BoxError` leaves this module, and `verify.py` makes it an ERROR.
"""

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from rloo_verify.checkers import UnusableReferenceError
from rloo_verify.grading.compare import OutputComparison, ValueComparison, output_comparison, value_comparison
from rloo_verify.grading.runs import LONGEST_DETAIL, first_reply, raised_of, replies_of, shortened, trouble_of
from rloo_verify.grading.suite import CallTest, Expectation, OutputTest, Suite, TestFile
from rloo_verify.sandbox.box import Job, RunResult
from rloo_verify.sandbox.inside import values
from rloo_verify.sandbox.runner import BrokeSandboxError, Sandbox
from rloo_verify.sandbox.settings import Limits
from rloo_verify.types import Outcome, Verdict

ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True)
class TestOutcome:
    """How one test ended: a reason, what was seen, what the run cost, and whether the program could have tampered."""

    __test__ = False  # no test for pytest to collect

    reason: str
    detail: str = ""
    cpu: float = 0.0
    wall: float = 0.0
    weaker: bool = False


@dataclass(frozen=True, slots=True)
class Program:
    """What is run: alternatives of the source, whether prose may follow it, and how the reply continues a prompt."""

    sources: tuple[str, ...]
    trim: bool = False


@dataclass(frozen=True, slots=True)
class Budget:
    """What all tests of an answer may use together; a program over it is too slow, however many tests it passed."""

    cpu_seconds: float = 60.0
    wall_seconds: float = 240.0


def grade(
    suite: Suite,
    program: Program,
    sandbox: Sandbox,
    limits: Limits,
    *,
    budget: Budget | None = None,
    every_test: bool = False,
) -> tuple[Verdict, list[TestOutcome]]:
    """Grades a program.

    Args:
        suite: The tests.
        program: The program.
        sandbox: Where it runs.
        limits: Of each test.
        budget: Of all tests together.
        every_test: Run every test for a report, instead of stopping at the first that fails.

    Returns:
        The verdict, and the outcome of each test that ran.

    Raises:
        BoxError: Three sandboxes broke: nobody knows whether the program is right.
        UnusableReferenceError: The tests cannot be run, whatever the program.
    """
    mark = " (UNSAFE: no sandbox)" if sandbox.backend == "unsafe" else ""
    if not program.sources:
        return Verdict(Outcome.FAIL, "no_code", "the reply has no code" + mark), []
    budget = budget or Budget()
    outcomes: list[TestOutcome] = []

    def take(outcome: TestOutcome) -> bool:
        spent = (sum(o.cpu for o in outcomes) + outcome.cpu, sum(o.wall for o in outcomes) + outcome.wall)
        if outcome.reason == ACCEPTED and (spent[0] > budget.cpu_seconds or spent[1] > budget.wall_seconds):
            outcome = replace(outcome, reason="time_limit", detail="the tests together took too long")
        outcomes.append(outcome)
        return outcome.reason == ACCEPTED or every_test

    try:
        _run(suite, program, sandbox, limits, take)
    except BrokeSandboxError as error:
        outcomes.append(TestOutcome("runtime_error", f"it broke two sandboxes: {error}"))
    if not outcomes:
        raise UnusableReferenceError("there are no tests")
    if any(outcome.weaker for outcome in outcomes):
        mark += " (weaker: the tests ran in the program's own process)"
    failed = next((number for number, outcome in enumerate(outcomes) if outcome.reason != ACCEPTED), None)
    if failed is None:
        return Verdict(Outcome.PASS, ACCEPTED, f"{len(outcomes)} tests passed{mark}"), outcomes
    worst = outcomes[failed]
    detail = f"test {failed + 1}: {worst.detail}"[:LONGEST_DETAIL] + mark
    return Verdict(Outcome.FAIL, worst.reason, detail), outcomes


def _run(suite: Suite, program: Program, sandbox: Sandbox, limits: Limits, take: Callable[[TestOutcome], bool]) -> None:
    """Runs test after test, until `take` says no to an outcome."""
    if isinstance(suite.tests, TestFile):
        take(_run_file(suite, suite.tests, program, sandbox, limits))
        return
    tests = suite.tests
    sent: deque[CallTest | OutputTest] = deque()

    def jobs() -> Iterator[Job]:
        for test in tests:
            sent.append(test)
            yield _job_of_test(suite, test, program, limits)

    def judge(result: RunResult) -> bool:
        test = sent.popleft()
        trouble = trouble_of(result, limits)
        if isinstance(test, OutputTest):
            return take(_outcome(trouble or _judge_output(suite, test, result), result))
        return take(_outcome(trouble or _judge_call(suite, test, result), result))

    sandbox.run_while(jobs(), judge)


def job_of(suite: Suite, program: Program, mode: str, requires: str = "") -> dict[str, Any]:
    """What `inside/program.py` is asked to do."""
    sources = list(program.sources)
    if suite.prompt:
        sources += [suite.prompt + source for source in program.sources]
    return {"mode": mode, "sources": sources, "preamble": suite.preamble, "requires": requires, "trim": program.trim}


def _job_of_test(suite: Suite, test: CallTest | OutputTest, program: Program, limits: Limits) -> Job:
    """One test as a job; what it expects stays here."""
    if isinstance(test, OutputTest):
        stdin = test.stdin.encode("utf-8", "surrogateescape")
        return Job(job_of(suite, program, "script"), stdin=stdin, limits=limits)
    name = test.name or suite.entry
    request = {
        "op": "call",
        "name": name,
        "args": [values.encode(arg) for arg in test.args],
        "kwargs": {key: values.encode(value) for key, value in test.kwargs.items()},
    }
    return Job(job_of(suite, program, "serve", name), requests=(request,), limits=limits)


def _judge_output(suite: Suite, test: OutputTest, result: RunResult) -> tuple[str, str] | None:
    """Why the output of a run that ended well counts as failed; None where it is right."""
    if _right_output(suite, test, result.stdout):
        return None
    return "wrong_answer", f"printed {shortened(result.stdout)}, expected {shortened(test.expected)}"


def _right_output(suite: Suite, test: OutputTest, found: bytes) -> bool:
    if suite.output_checker is not None:
        return suite.output_checker(test.stdin, test.expected, found.decode("utf-8", "replace")) is True
    compare: OutputComparison = output_comparison(suite.compare)
    return compare(test.expected.encode("utf-8", "surrogateescape"), found)


def _judge_call(suite: Suite, test: CallTest, result: RunResult) -> tuple[str, str] | None:
    """Why what a call returned counts as failed; None where it is right."""
    reply = first_reply(result.replies)
    if reply is None:
        return "runtime_error", "it ended without returning a value"
    if "value" not in reply:
        return raised_of(reply)
    return _judge_value(reply["value"], test.expected, value_comparison(suite.compare))


def _judge_value(encoded: Any, expected: Expectation, equal: ValueComparison) -> tuple[str, str] | None:
    try:
        found = values.decode(encoded)
    except values.ValueFormatError as error:
        return "runtime_error", f"what it returned cannot be read: {error}"
    if meets(expected, found, equal):
        return None
    wanted = shortened(expected.value) if expected.kind in ("equals", "is", "near") else expected.kind
    return "wrong_answer", f"returned {shortened(found)}, expected {wanted}"


def meets(expected: Expectation, found: Any, equal: ValueComparison) -> bool:
    """Whether a plain value is what a test expects."""
    match expected.kind:
        case "equals":
            return equal(expected.value, found)
        case "true":
            return bool(found)
        case "false":
            return not found
        case "is":
            return found is expected.value
        case "differs":
            return not isinstance(found, values.Opaque) and bool(found != expected.value)
    return isinstance(found, int | float) and abs(found - expected.value) < expected.tolerance


def _run_file(suite: Suite, file: TestFile, program: Program, sandbox: Sandbox, limits: Limits) -> TestOutcome:
    what = {"mode": "tests", "kind": file.kind, "source": file.source, "preamble": suite.helpers, "call": file.call}
    tests = Job({**what, "entry": suite.entry, "module": file.module}, limits=limits)
    report = sandbox.run_tests(tests, Job(job_of(suite, program, "serve", suite.entry), limits=limits))
    said = report.report or {}
    if said.get("needs_live"):
        if suite.live:
            return _run_file_live(suite, tests, program, sandbox)
        raise UnusableReferenceError(f"{said['needs_live']}, which needs both in one process (`live`, docs/sandbox.md)")
    if said.get("needs_module"):
        raise UnusableReferenceError(f"its test file needs {said['needs_module']}, which the image lacks")
    trouble = None if report.program.killed == "host" else trouble_of(report.program, limits)
    if "compile_error" in said:
        trouble = "compile_error", str(said["compile_error"])
    passed, failed = said.get("passed", 0), said.get("failed", 1)
    if trouble is None and (failed or not passed):
        trouble = trouble_of(report.tests, limits) or ("wrong_answer", str(said.get("detail") or "no test passed"))
    return _outcome(trouble, report.program, report.tests.cpu)


def _run_file_live(suite: Suite, tests: Job, program: Program, sandbox: Sandbox) -> TestOutcome:
    """Runs a test file in the program's process. What it reports could be the program's word."""
    what = {**tests.what, "program": job_of(suite, program, "serve", suite.entry)}
    result = sandbox.run(replace(tests, what=what))
    trouble = trouble_of(result, tests.limits)
    reports = [reply["report"] for reply in replies_of(result.replies) if isinstance(reply.get("report"), dict)]
    if trouble is None and len(reports) != 1:
        trouble = "runtime_error", "its tests did not end with one report"
    elif trouble is None and (reports[0].get("failed") or not reports[0].get("passed")):
        trouble = "wrong_answer", str(reports[0].get("detail") or "no test passed")
    return replace(_outcome(trouble, result), weaker=True)


def _outcome(trouble: tuple[str, str] | None, result: RunResult, extra_cpu: float = 0.0) -> TestOutcome:
    reason, detail = trouble or (ACCEPTED, "")
    return TestOutcome(reason, detail, result.cpu + extra_cpu, result.wall)
