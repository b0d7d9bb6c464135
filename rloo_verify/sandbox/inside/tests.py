"""What one fork does with a test file: run it against a stub of the program, which lives in another sandbox.

Each call of the stub goes over the channel to the program's own process, and what comes back are plain values. Nothing
here is written by the program, so what this process reports is the verdict of the test file. Live objects stay with
the program; their methods are forwarded, comparisons never: an object cannot say that it equals the expected value.
"""

import builtins
import importlib
import os
import sys
import traceback
import unittest
from typing import Any, NoReturn

from . import frames, program
from .shared import Shared
from .stub import ProgramGoneError, Stub

_LONGEST_DETAIL = 2_000


def run(job: dict[str, Any], work: str, channel: int) -> NoReturn:
    """Runs the test file and reports; never returns.

    Args:
        job: `kind` (`script`, `pytest`), `source`, `preamble` (the prompt's own helpers, which are not the program's),
            `call` (for a script: the function that takes the candidate), `entry`, `module` (what the file imports),
            perhaps `program` (a job for `program.run`): then it runs in this very process.
        work: The current folder.
        channel: Descriptor of the socket to the host.
    """
    stub: Stub | Shared = Stub(channel)
    try:
        sys.argv = ["tests.py"]
        sys.path.insert(0, work)
        if "program" in job:
            stub = Shared(job["program"], f"{work}/solution.py", channel)
        report = run_script(job, stub) if job["kind"] == "script" else run_file(job, stub)
    except ProgramGoneError:
        report = {"passed": 0, "failed": 1, "detail": "the program ended during the tests"}
    except BaseException as error:  # a test file may fail in any way
        report = {"passed": 0, "failed": 1, "detail": describe(error)}
    if stub.needs_live:
        report["needs_live"] = stub.needs_live
    report["calls"] = stub.calls
    frames.write(channel, {"report": report})
    program.finish(0)


def describe(error: BaseException) -> str:
    """The last line of a traceback and where it happened in the test file."""
    lines = traceback.format_exception(error)
    return "".join(lines[-3:])[-_LONGEST_DETAIL:]


class Namespace(dict[str, Any]):
    """The globals of an assert script: what it does not define itself is looked up in the program."""

    def __init__(self, stub: Stub | Shared) -> None:
        super().__init__(__name__="tests", __builtins__=builtins)
        self.stub = stub

    def __missing__(self, name: str) -> Any:
        if hasattr(builtins, name):
            raise KeyError(name)
        try:
            found = self.stub.lookup(name)
        except AttributeError:
            raise KeyError(name) from None
        self[name] = found
        return found


def run_script(job: dict[str, Any], stub: Stub | Shared) -> dict[str, Any]:
    """An assert script: it passes if it runs to its end."""
    namespace = Namespace(stub)
    if job.get("preamble"):
        exec(compile(job["preamble"], "preamble", "exec", dont_inherit=True), namespace)
    if job.get("entry"):
        namespace.pop(job["entry"], None)
        namespace[job["entry"]] = namespace["candidate"] = stub.lookup(job["entry"])
    exec(compile(job["source"], "tests.py", "exec", dont_inherit=True), namespace)
    if job.get("call"):
        namespace[job["call"]](namespace["candidate"])
    return {"passed": 1 if stub.calls else 0, "failed": 0, "detail": "" if stub.calls else "the tests called nothing"}


def run_file(job: dict[str, Any], stub: Stub | Shared) -> dict[str, Any]:
    """A pytest or unittest file: every test must run and pass; skipped and expected failures do not count."""
    sys.modules[job["module"]] = stub.as_module(job["module"])
    with open("test_program.py", "w", encoding="utf-8", errors="surrogatepass") as file:
        file.write(job["source"])
    needs_pytest = "pytest" in compile(job["source"], "tests.py", "exec", dont_inherit=True).co_names
    return run_with_pytest() if needs_pytest else run_plain()


def run_plain() -> dict[str, Any]:
    """Runs functions named test*, classes named Test* and unittest cases; needs no pytest."""
    module = importlib.import_module("test_program")
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    for name, found in list(vars(module).items()):
        if callable(found) and name.startswith("test") and not isinstance(found, type):
            suite.addTest(unittest.FunctionTestCase(found))
        if isinstance(found, type) and name.startswith("Test") and not issubclass(found, unittest.TestCase):
            methods = [method for method in dir(found) if method.startswith("test")]
            suite.addTests(unittest.FunctionTestCase(getattr(found(), method)) for method in methods)
    result = unittest.TestResult()
    suite.run(result)
    bad = [*result.failures, *result.errors]
    not_run = len(result.skipped) + len(result.expectedFailures) + len(result.unexpectedSuccesses)
    details = [text for _, text in bad] or ["a test was skipped or expected to fail"] * bool(not_run)
    failed = len(bad) + not_run
    passed = result.testsRun - failed
    failed += suite.countTestCases() - result.testsRun if result.testsRun else 0
    return {"passed": passed, "failed": failed, "detail": (details or [""])[0][-_LONGEST_DETAIL:]}


def run_with_pytest() -> dict[str, Any]:
    """Runs the file under pytest, whose reports are counted one by one: an exit code says too little."""
    try:
        import pytest
    except ImportError:
        return {"passed": 0, "failed": 0, "detail": "", "needs_module": "pytest"}

    class Count:
        collected, passed, failed, detail = 0, 0, 0, ""

        def pytest_collection_finish(self, session: Any) -> None:
            self.collected = len(session.items)

        def pytest_runtest_logreport(self, report: Any) -> None:
            if report.when == "call" and report.passed and not hasattr(report, "wasxfail"):
                self.passed += 1
            elif not report.passed or hasattr(report, "wasxfail"):
                self.failed += 1
                self.detail = self.detail or str(report.longrepr)[-_LONGEST_DETAIL:]

        def pytest_collectreport(self, report: Any) -> None:
            if not report.passed:
                self.failed += 1
                self.detail = self.detail or str(report.longrepr)[-_LONGEST_DETAIL:]

    count = Count()
    pytest.main(["-q", "-p", "no:cacheprovider", "--noconftest", "-c", os.devnull, "test_program.py"], [count])
    failed = max(count.failed, count.collected - count.passed)
    return {"passed": count.passed, "failed": failed, "detail": count.detail or "not every test ran"}
