"""Grades a file of programs with known rewards: how well does this grader agree, and does anything survive a case?"""

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from rloo_verify.checkers import UnusableReferenceError
from rloo_verify.errors import ConfigError
from rloo_verify.grading.extract import extract_code
from rloo_verify.grading.grade import Program, grade
from rloo_verify.grading.runs import first_reply
from rloo_verify.grading.suite import (
    STANDARD_IMPORTS,
    CallTest,
    Expectation,
    OutputChecker,
    OutputTest,
    Suite,
    TestFile,
)
from rloo_verify.sandbox.box import BoxError, Job
from rloo_verify.sandbox.canary import PROBE, leftovers
from rloo_verify.sandbox.inside import values
from rloo_verify.sandbox.runner import Sandbox
from rloo_verify.sandbox.settings import Limits
from rloo_verify.types import Outcome, Verdict

CODES = {"accepted": "AC", "wrong_answer": "WA", "runtime_error": "RE", "time_limit": "TLE", "memory_limit": "MLE",
         "output_limit": "OLE", "compile_error": "CE", "no_code": "CE"}  # fmt: skip

_CONTAINERS: Mapping[str, Callable[[Any], Any]] = {
    "__set__": set, "__frozenset__": frozenset, "__tuple__": tuple, "__list__": list, "__dict__": dict,
    "__float__": float, "__complex__": lambda parts: complex(*parts),
    "__bytes__": lambda body: body.encode("latin-1") if isinstance(body, str) else bytes(body),
}  # fmt: skip


@dataclass
class Report:
    """What an audit found.

    Attributes:
        cases: How many were graded.
        agree: How many got the reward that they expect.
        false_pass: Programs that should fail and were rewarded.
        false_fail: Programs that should pass and were not.
        errors: Cases that could not be graded.
        invariants_broken: Cases after which the sandbox was dead, or a process or a file was left.
        seconds: Wall time.
        backend: Where the programs ran.
        disagreements: One entry for each case that is not in `agree`.
        other_verdicts: Cases with the right reward for another reason than the file gives.
        tests: How many test runs that were.
    """

    cases: int = 0
    agree: int = 0
    false_pass: int = 0
    false_fail: int = 0
    errors: int = 0
    invariants_broken: int = 0
    seconds: float = 0.0
    backend: str = ""
    disagreements: list[dict[str, Any]] = field(default_factory=list)
    other_verdicts: list[dict[str, Any]] = field(default_factory=list)
    tests: int = 0

    def as_json(self) -> dict[str, Any]:
        """The report as a JSON object."""
        return asdict(self)


def read_cases(path: Path) -> list[dict[str, Any]]:
    """Reads a file of cases.

    Raises:
        ConfigError: It cannot be read, or a line is no case; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    cases = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        try:
            case = json.loads(line)
            missing = {"id", "tests", "expected_reward"} - case.keys()
        except (ValueError, AttributeError) as error:
            raise ConfigError(f"{path}, line {number} is not a JSON object: {error}") from error
        if missing or not ("solution_code" in case or "response" in case):
            what = ", ".join(sorted(missing)) or "solution_code or response"
            raise ConfigError(f"{path}, line {number}: it lacks {what}")
        cases.append(case)
    return cases


def audit(
    cases: Iterable[Mapping[str, Any]],
    sandbox: Sandbox,
    checkers: Mapping[str, OutputChecker],
    progress: Callable[[str], None] = lambda _: None,
) -> Report:
    """Grades cases one after the other.

    Args:
        cases: As `read_cases` gives them.
        sandbox: Where the programs run.
        checkers: What `compare = "checker:NAME"` names.
        progress: Called with each case's id.
    """
    report = Report(backend=sandbox.backend)
    started = time.monotonic()
    for case in cases:
        progress(case["id"])
        report.cases += 1
        verdict, tests = _grade_case(case, sandbox, checkers)
        report.tests += tests
        _count(report, case, verdict)
        broken = _broken_invariants(sandbox)
        if broken:
            report.invariants_broken += 1
            report.disagreements.append({"id": case["id"], "kind": "invariant", "detail": broken})
    report.seconds = round(time.monotonic() - started, 3)
    return report


def _count(report: Report, case: Mapping[str, Any], verdict: Verdict) -> None:
    wanted = case["expected_reward"]
    code = CODES.get(verdict.reason, "ERROR")
    entry = {"id": case["id"], "expected_reward": wanted, "verdict": code, "detail": verdict.detail[:300]}
    if verdict.reward is None:
        report.errors += 1
        report.disagreements.append({**entry, "kind": "error"})
    elif verdict.reward == wanted:
        report.agree += 1
        if case.get("expected_verdict") and code not in case["expected_verdict"]:
            report.other_verdicts.append({**entry, "expected_verdict": case["expected_verdict"]})
    else:
        kind = "false_pass" if verdict.reward else "false_fail"
        setattr(report, kind, getattr(report, kind) + 1)
        report.disagreements.append({**entry, "kind": kind})


def _grade_case(
    case: Mapping[str, Any], sandbox: Sandbox, checkers: Mapping[str, OutputChecker]
) -> tuple[Verdict, int]:
    try:
        suite = _suite(case, sandbox, checkers)
        limits = _limits(case.get("limits") or {})
        for source in case.get("prior_runs") or ():
            mode = "script" if isinstance(suite.tests, list) and isinstance(suite.tests[0], OutputTest) else "serve"
            sandbox.run(Job({"mode": mode, "sources": [source]}, limits=limits))
        verdict, outcomes = grade(suite, _program(case), sandbox, limits)
        return verdict, len(outcomes)
    except (BoxError, UnusableReferenceError, ValueError, KeyError, TypeError) as error:
        return Verdict(Outcome.ERROR, "error", f"{type(error).__name__}: {error}"), 0


def _program(case: Mapping[str, Any]) -> Program:
    if "response" in case:
        extracted = extract_code(case["response"])
        return Program(extracted.sources, trim=not extracted.fenced)
    return Program((case["solution_code"],))


def _suite(case: Mapping[str, Any], sandbox: Sandbox, checkers: Mapping[str, OutputChecker]) -> Suite:
    tests = case["tests"]
    if tests["type"] == "pytest":
        entry = case.get("entry_point") or ""
        return Suite(TestFile("pytest", tests["test_file"], module=tests.get("module", "solution")), entry=entry)
    compare, checker = tests.get("compare") or "exact", None
    if compare.startswith("checker:"):
        checker = checkers.get(compare.removeprefix("checker:"))
        if checker is None:
            raise ValueError(f"no checker is called {compare!r}; pass a file that defines it with --checkers")
    if tests["type"] == "stdio":
        runs = [OutputTest(*(str(_value(row[key], sandbox)) for key in ("input", "output"))) for row in tests["cases"]]
        return Suite(runs, compare=compare, output_checker=checker)
    if tests["type"] != "function":
        raise ValueError(f"no tests are of the type {tests['type']!r}; use function, stdio or pytest")
    calls = [
        CallTest(
            tuple(_value(row.get("args", []), sandbox)),
            Expectation("equals", _value(row["expected"], sandbox)),
            _value(row.get("kwargs", {}), sandbox),
        )
        for row in tests["cases"]
    ]
    entry = tests.get("entry_point") or case["entry_point"]
    return Suite(calls, entry=entry, compare=compare, preamble=STANDARD_IMPORTS)


def _value(data: Any, sandbox: Sandbox) -> Any:
    """A value of a case: JSON, with `{"__set__": [...]}` and the like, and `{"py": EXPRESSION}`, evaluated inside."""
    if isinstance(data, list):
        return [_value(item, sandbox) for item in data]
    if not isinstance(data, dict):
        return data
    if len(data) == 1:
        (key, body), *_ = data.items()
        if key == "py":
            return _evaluated(body, sandbox)
        if key in _CONTAINERS:
            return _CONTAINERS[key](_value(body, sandbox))
    return {key: _value(body, sandbox) for key, body in data.items()}


def _evaluated(expression: str, sandbox: Sandbox) -> Any:
    call = {"op": "call", "name": "value", "args": []}
    source = f"import math\ndef value():\n    return (\n{expression}\n)\n"
    result = sandbox.run(Job({"mode": "serve", "sources": [source]}, requests=(call,)))
    reply = first_reply(result.replies)
    if reply is None or "value" not in reply:
        raise ValueError(f"the expression {expression[:80]!r} has no value: {result.stderr[-200:]!r}")
    return values.decode(reply["value"])


def _limits(table: Mapping[str, Any]) -> Limits:
    default = Limits()
    return Limits(
        cpu_seconds=table.get("cpu_s", default.cpu_seconds),
        wall_seconds=table.get("wall_s", default.wall_seconds),
        memory_mib=table.get("memory_mb", default.memory_mib),
        processes=table.get("pids", default.processes),
        output_bytes=table["output_kb"] * 1024 if "output_kb" in table else default.output_bytes,
    )


def _broken_invariants(sandbox: Sandbox) -> str:
    """What a case left in the sandbox; empty where it is as it was."""
    try:
        return "" if sandbox.backend == "unsafe" else leftovers(sandbox.run(PROBE))
    except BoxError as error:
        return f"the sandbox is dead: {error}"
