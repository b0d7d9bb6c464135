"""Tests that hand live objects to the program: they run in the program's process only where that was asked for."""

from collections.abc import Iterator
from typing import Any

import pytest
from open_sandboxes import BACKENDS, open_sandbox

from rloo_verify.checkers import UnusableReferenceError
from rloo_verify.checkers import code as code_checker
from rloo_verify.config import SandboxConfig
from rloo_verify.grading.grade import Program, grade
from rloo_verify.grading.suite import Suite, TestFile
from rloo_verify.sandbox.runner import Sandbox
from rloo_verify.sandbox.settings import Limits, SandboxSettings
from rloo_verify.types import Outcome, Verdict

SCRIPT = TestFile("script", "assert apply(lambda x: x + 1, 2) == 3\nassert apply(lambda x: 2 * x, 5) == 10\n")
PYTEST = TestFile("pytest", "from solution import apply\ndef test_it():\n    assert apply(lambda x: x + 1, 2) == 3\n")
RIGHT = "def apply(f, x):\n    return f(x)\n"


@pytest.fixture(scope="module", params=BACKENDS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    yield from open_sandbox(request.param)


def judged(sandbox: Sandbox, tests: TestFile, source: str, *, live: bool = True) -> Verdict:
    return grade(Suite(tests, live=live), Program((source,)), sandbox, Limits())[0]


@pytest.mark.parametrize("tests", [SCRIPT, PYTEST])
def test_without_being_asked_such_a_row_cannot_be_judged(sandbox: Sandbox, tests: TestFile) -> None:
    with pytest.raises(UnusableReferenceError, match="passes a function to the program"):
        judged(sandbox, tests, RIGHT, live=False)


@pytest.mark.parametrize("tests", [SCRIPT, PYTEST])
def test_where_it_was_asked_for_the_verdict_says_that_it_is_weaker(sandbox: Sandbox, tests: TestFile) -> None:
    verdict = judged(sandbox, tests, RIGHT)
    assert (verdict.outcome, verdict.reason) == (Outcome.PASS, "accepted")
    assert "weaker" in verdict.detail


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("def apply(f, x):\n    return f(x) + 1\n", "wrong_answer"),
        ("def apply(f, x):\n    raise SystemExit(0)\n", "wrong_answer"),
        ("def apply(f, x):\n    import os; os._exit(0)\n", "runtime_error"),
        ("def apply(f, x):\n    while True: pass\n", "time_limit"),
    ],
)
def test_a_wrong_program_fails_in_its_own_process_too(sandbox: Sandbox, source: str, reason: str) -> None:
    verdict = grade(Suite(SCRIPT, live=True), Program((source,)), sandbox, Limits(cpu_seconds=0.5))[0]
    assert (verdict.outcome, verdict.reason) == (Outcome.FAIL, reason)
    assert "weaker" in verdict.detail


def test_tests_that_need_no_live_objects_stay_apart_from_the_program_even_where_it_was_asked_for(
    sandbox: Sandbox,
) -> None:
    verdict = judged(sandbox, TestFile("script", "f = apply\nassert f(3) == 4\n"), "def apply(x):\n    return x + 1\n")
    assert (verdict.outcome, "weaker" in verdict.detail) == (Outcome.PASS, False)


@pytest.mark.parametrize(
    ("live", "settings", "allowed"),
    [(True, SandboxSettings(), True), (False, SandboxSettings(), False),
     (True, SandboxSettings(**SandboxConfig().model_dump()), False),
     (True, SandboxSettings(**SandboxConfig(live_tests=True).model_dump()), True)],
)  # fmt: skip
def test_the_task_must_ask_for_it_and_in_training_the_config_too(
    monkeypatch: pytest.MonkeyPatch, live: bool, settings: SandboxSettings, allowed: bool
) -> None:
    seen: list[bool] = []

    def spy(suite: Suite, *_: Any) -> tuple[Verdict, list[Any]]:
        seen.append(suite.live)
        return Verdict(Outcome.PASS, "accepted"), []

    monkeypatch.setattr(code_checker, "grade", spy)
    monkeypatch.setattr(code_checker, "_sandbox", lambda _: None)
    monkeypatch.setattr(code_checker, "settings_in_force", lambda _: settings)
    code_checker.check("```python\npass\n```", SCRIPT.source, {}, live=live)
    assert seen == [allowed]
