"""Programs whose rewards are known: exploits, and honest programs that naive graders fail, on both backends."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from open_sandboxes import BACKENDS, open_sandbox, shared

from rloo_verify.errors import ConfigError
from rloo_verify.grading.audit import Report, audit, read_cases
from rloo_verify.grading.output_checkers import load_checkers
from rloo_verify.sandbox.runner import Sandbox

OWN = Path(__file__).parent / "code_cases.jsonl"


@pytest.fixture(scope="module", params=BACKENDS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    yield from open_sandbox(request.param)


def clean(report: Report) -> bool:
    return not report.disagreements and report.agree == report.cases > 0


@pytest.mark.slow
def test_the_shared_cases_reward_no_exploit_and_fail_no_honest_program(sandbox: Sandbox) -> None:
    report = audit(read_cases(shared("code_cases/cases.jsonl")), sandbox, load_checkers(None))
    assert clean(report), report.disagreements


@pytest.mark.slow
def test_our_own_cases_reward_no_exploit_and_fail_no_honest_program(sandbox: Sandbox) -> None:
    report = audit(read_cases(OWN), sandbox, load_checkers(None))
    assert clean(report), report.disagreements


def test_a_case_that_is_graded_wrongly_is_a_disagreement(sandbox: Sandbox) -> None:
    tests = {"type": "stdio", "compare": "tokens", "cases": [{"input": "", "output": "1"}]}
    wrong = {"id": "wrong", "tests": tests, "solution_code": "print(2)", "expected_reward": 1}
    lucky = {"id": "lucky", "tests": tests, "solution_code": "print(1)", "expected_reward": 0}
    odd = {"id": "odd", "tests": {**tests, "compare": "checker:none"}, "solution_code": "", "expected_reward": 0}
    report = audit([wrong, lucky, odd], sandbox, load_checkers(None))
    assert (report.agree, report.false_fail, report.false_pass, report.errors) == (0, 1, 1, 1)


def test_a_file_that_is_no_case_file_is_named_with_its_line(tmp_path: Path) -> None:
    file = tmp_path / "cases.jsonl"
    file.write_text(json.dumps({"id": "x", "tests": {}, "expected_reward": 1}) + "\n")
    with pytest.raises(ConfigError, match="line 1: it lacks solution_code or response"):
        read_cases(file)


@pytest.mark.docker
def test_no_container_is_left_when_a_sandbox_is_closed() -> None:
    for sandbox in open_sandbox("docker"):
        names = {box.stream.name.split()[-1] for box in sandbox._programs._ready}
    listed = subprocess.run(["docker", "ps", "-aq"], capture_output=True, text=True, check=True).stdout.split()
    assert not names & set(listed)
