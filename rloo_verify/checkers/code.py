"""Judges programs by running them against the tests of the row, in a sandbox (`rloo_verify.sandbox`).

Judging is waiting: a verifier worker owns a small pool of warm sandboxes and gives each answer one of them. Untrusted
programs never share a process with this one.
"""

import atexit
import os
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rloo_verify.columns import pick
from rloo_verify.grading.extract import extract_code
from rloo_verify.grading.grade import Program, grade
from rloo_verify.grading.rows import suite_of
from rloo_verify.grading.suite import STANDARD_IMPORTS, OutputChecker
from rloo_verify.sandbox.runner import Sandbox
from rloo_verify.sandbox.settings import Limits, settings_in_force
from rloo_verify.types import Verdict

_lock = threading.Lock()
_open: dict[str, Sandbox] = {}
_owner = 0


def check(
    completion: str,
    answer: Any,
    row: Mapping[str, Any],
    *,
    entry: str = "",
    prompt: str = "",
    setup: str = "",
    compare: str = "",
    imports: bool = False,
    cpu_seconds: float = 4.0,
    memory_mib: int = 512,
    max_tests: int | None = None,
    also: Sequence[str] = (),
    sandbox: str = "python",
    live: bool = False,
    output_checker: OutputChecker | None = None,
) -> Verdict:
    """Judge a completion by running its program.

    Args:
        completion: A chat reply, or the continuation of a code prompt.
        answer: The tests, in one of the forms of `rloo_verify.grading.rows`.
        row: The row.
        entry: Column that names the function under test (`entry_point`), or nothing.
        prompt: Column with the code that a completion may continue (HumanEval's `prompt`), or nothing.
        setup: Column with code that runs between program and tests (MBPP's `test_setup_code`), or nothing.
        compare: `exact`, `json`, `python`, `tokens`, `unordered` or `float:TOLERANCE`; else what the form implies.
        imports: Whether the usual imports of contest solutions are there already, as LeetCode promises.
        cpu_seconds: CPU time of each test.
        memory_mib: Memory of each test, in MiB.
        max_tests: Use only the first so many tests.
        also: Further columns with tests (public ones beside private ones).
        sandbox: Name of the sandbox folder.
        live: Whether test files that hand live objects to the program may run in the program's process. Such a verdict
            says that it is weaker. In training `sandbox.live_tests = true` is needed, too.
        output_checker: For a task's own check.py: judges output instead of `compare`.

    Returns:
        PASS `accepted`, or FAIL with the reason.

    Raises:
        UnusableReferenceError: The row's tests cannot be run.
        BoxError: No sandbox works.
        SandboxError: No sandbox can be started.
    """
    suite = suite_of(
        answer,
        entry=_column(row, entry),
        prompt=_column(row, prompt),
        setup=_column(row, setup),
        compare=compare,
        preamble=STANDARD_IMPORTS if imports else "",
        max_tests=max_tests,
        also=[pick(row, path) for path in also],
    )
    settings = settings_in_force(sandbox)
    suite = replace(suite, output_checker=output_checker, live=live and settings.live_tests)
    extracted = extract_code(completion)
    program = Program(extracted.sources, trim=not extracted.fenced)
    limits = Limits(cpu_seconds=cpu_seconds, memory_mib=memory_mib)
    verdict, _ = grade(suite, program, _sandbox(sandbox), limits)
    return verdict


def _column(row: Mapping[str, Any], path: str) -> str:
    if not path:
        return ""
    try:
        value = pick(row, path)
    except (KeyError, ValueError):  # a column that only some rows have
        return ""
    return "" if value is None else str(value)


def _sandbox(image: str) -> Sandbox:
    """This process's sandbox of an image, started on first use and ended with the process."""
    global _owner
    with _lock:
        if _owner != os.getpid():  # a fork must not drive its parent's streams
            _open.clear()
            _owner = os.getpid()
        if image not in _open:
            _open[image] = Sandbox(settings_in_force(image))
            atexit.register(_open[image].close)
        return _open[image]


def warm_up() -> None:
    """Open the default sandbox before the first answer, so that nobody's time limit pays for it."""
    _sandbox("python")


check.warm_up = warm_up  # type: ignore[attr-defined]
check.timeout_seconds = 100.0  # type: ignore[attr-defined] # so 402 s of wall time, above `grade.Budget` and its retries
