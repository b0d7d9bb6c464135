"""Every case of every built-in task goes through its checker, in worker processes as in training."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rloo_verify.errors import TaskError
from rloo_verify.folders import data_folder
from rloo_verify.task_cases import Case, load_cases, reference_completions
from rloo_verify.tasks import Task, find_task
from rloo_verify.verify import Verifier

FOLDERS = {path.parent.name: path.parent for path in sorted(data_folder("tasks").glob("*/task.toml"))}
CASES = [(name, case) for name, folder in FOLDERS.items() for case in load_cases(find_task(folder))]
RUNS_PROGRAMS = {
    name
    for name, folder in FOLDERS.items()
    if ((folder / "check.py").is_file() and "code" in (folder / "check.py").read_text())
    or find_task(folder).spec.check.checker == "code"
}


def named(name: str, *values: object, label: str = "") -> Any:
    """A parameter set; tasks that run programs need Docker."""
    marks = [pytest.mark.docker] if name in RUNS_PROGRAMS else []
    return pytest.param(name, *values, marks=marks, id=label or name)


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    with Verifier(FOLDERS, workers=1, timeout_seconds=10.0) as running:
        yield running


@pytest.mark.parametrize(("name", "case"), [named(name, case, label=f"{name}-{case.number}") for name, case in CASES])
def test_a_case_has_the_outcome_that_it_expects(verifier: Verifier, name: str, case: Case) -> None:
    verdict = verifier.submit(case.problem, case.completion).result(60)
    assert verdict.outcome == case.expect, f"{name}: {case.why}: {verdict}"


@pytest.mark.parametrize("name", FOLDERS)
def test_a_task_has_cases_that_pass_and_that_fail_each_with_its_reason(name: str) -> None:
    cases = [case for task, case in CASES if task == name]
    assert {"pass", "fail"} <= {case.expect for case in cases}
    assert all(case.why for case in cases)


@pytest.mark.parametrize("name", [named(name) for name in FOLDERS])
def test_the_references_of_the_sample_pass_and_empty_answers_fail(verifier: Verifier, name: str) -> None:
    task = find_task(FOLDERS[name])
    write_reference = reference_completions(task)
    for problem in task.problems("sample"):
        text = write_reference(problem)
        if text is not None:  # some code tasks have no solution in Python
            assert verifier.submit(problem, text).result(60).outcome == "pass", problem.id
        assert verifier.submit(problem, "").result(60).outcome == "fail", problem.id


@pytest.mark.parametrize("name", FOLDERS)
def test_a_built_in_task_says_where_it_comes_from(name: str) -> None:
    spec = find_task(FOLDERS[name]).spec
    assert spec.source
    assert spec.license
    assert (FOLDERS[name] / "README.md").read_text().startswith(f"# {name}\n")


def write_task(folder: Path, case: str, check: str = 'checker = "exact"') -> Path:
    folder.mkdir()
    (folder / "task.toml").write_text(
        'summary = "s"\nsource = "s"\nlicense = "s"\n[data]\nsample = "rows.jsonl"\n[data.columns]\nquestion = "q"\n'
        f'answer = "a"\n[prompt]\nuser = "{{question}}"\n[check]\n{check}\n'
    )
    (folder / "rows.jsonl").write_text('{"q": "1+1", "a": "2", "unit": "m"}\n')
    (folder / "cases.jsonl").write_text(case)
    return folder


@pytest.mark.parametrize(
    ("case", "message"),
    [
        (
            {"answer": "2", "completion": "2", "expects": "pass"},
            r"case 1: unknown key `expects` \(did you mean `expect`",
        ),
        ({"answer": "2", "completion": "2", "expect": "yes"}, "must be pass, fail or error, not 'yes'"),
        ({"completion": "2", "expect": "pass"}, "a `row` or an `answer`"),
        ({"answer": "2", "completion": 2, "expect": "pass"}, "a text `completion`"),
        ({"row": {"question": "x"}, "completion": "2", "expect": "pass"}, "no column `q`"),
    ],
)
def test_a_malformed_case_is_named(tmp_path: Path, case: dict[str, object], message: str) -> None:
    folder = write_task(tmp_path / "mine", json.dumps(case))
    with pytest.raises(TaskError, match=message):
        load_cases(find_task(folder))


def test_a_task_without_cases_says_what_they_are_for_and_how_to_get_a_first_one(tmp_path: Path) -> None:
    (tmp_path / "task.toml").write_text((FOLDERS["gsm8k"] / "task.toml").read_text())
    with pytest.raises(TaskError, match=r"has no cases\.jsonl: every task needs one.*tasks new"):
        load_cases(Task("bare", tmp_path, find_task(FOLDERS["gsm8k"]).spec))


def test_a_reference_form_may_use_the_answer_and_the_columns(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "mine", "", 'checker = "exact"\nreference_form = "{answer} {unit}"')
    task = find_task(folder)
    assert reference_completions(task)(task.problems("sample")[0]) == "2 m"


def test_a_checker_of_its_own_without_a_reference_function_has_no_reference(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "mine", "", 'checker = "check.py:check"')
    (folder / "check.py").write_text("def check(completion, answer, row):\n    return completion == answer\n")
    task = find_task(folder)
    assert reference_completions(task)(task.problems("sample")[0]) is None
