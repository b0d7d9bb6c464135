"""The cases of a task (cases.jsonl) and the completions that should pass: what `tasks check` and pytest run."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rloo_verify import checkers
from rloo_verify.columns import pick
from rloo_verify.errors import TaskError
from rloo_verify.prompts import fill, placeholders
from rloo_verify.rows import read_rows
from rloo_verify.task_spec import nearest
from rloo_verify.tasks import Task, find_task
from rloo_verify.types import Outcome, Problem

CASES_FILE = "cases.jsonl"

_KEYS = ("row", "answer", "completion", "expect", "why")
_NATURAL_FORMS = {"math": r"\boxed{{{answer}}}", "exact": "{answer}", "choice": "The answer is {answer}"}


@dataclass(frozen=True, slots=True)
class Case:
    """One line of cases.jsonl.

    Attributes:
        problem: Made from `row` as a data row is; or with `answer` alone, and then without a prompt.
        completion: What is judged.
        expect: The outcome that it must have.
        why: What the case is about.
        number: Which case of the file, from 1.
    """

    problem: Problem
    completion: str
    expect: Outcome
    why: str
    number: int


def load_cases(task: Task) -> list[Case]:
    """Reads the cases of a task.

    Raises:
        TaskError: The file is missing or empty, or a case is malformed; names the case.
    """
    if not (task.folder / CASES_FILE).is_file():
        raise TaskError(
            f"{task.folder} has no {CASES_FILE}: every task needs one, with at least one case that passes and one that "
            "fails (docs/tasks.md; `rloo-verify tasks new` writes a first one)"
        )
    own = find_task(task.folder)  # without overrides: cases.jsonl has the columns that task.toml maps
    rows = enumerate(read_rows(CASES_FILE, folder=task.folder, split="cases"), start=1)
    cases = [_case(own, number, row) for number, row in rows]
    if not cases:
        raise TaskError(f"{task.folder / CASES_FILE} has no cases; write at least one that passes and one that fails")
    return cases


def reference_completions(task: Task) -> Callable[[Problem], str | None]:
    r"""How to write a completion that must pass, out of a problem alone.

    `[check] reference_form` if there is one, else the form of the built-in checker (`\boxed{...}` for math), else the
    function `reference(row)` in the file of the task's own checker.

    Returns:
        A function from a problem to the completion, or to None where there is no reference to check.

    Raises:
        TaskError: The checker cannot be loaded; or, from the function, a placeholder of the form has no value.
    """
    check = task.spec.check
    form = check.reference_form or _NATURAL_FORMS.get(check.checker)
    if form is not None:
        return lambda problem: _filled(form, problem)
    function = _reference_function(task)
    return lambda problem: None if function is None else function(problem.row)


def _case(task: Task, number: int, row: Mapping[str, Any]) -> Case:
    where = f"{task.folder / CASES_FILE}, case {number}"
    unknown = [key for key in row if key not in _KEYS]
    if unknown:
        raise TaskError(f"{where}: unknown key `{unknown[0]}`{nearest(unknown[0], _KEYS)}; use {', '.join(_KEYS)}")
    expect = row.get("expect")
    if expect not in list(Outcome):
        raise TaskError(f"{where}: `expect` must be pass, fail or error, not {expect!r}")
    if not isinstance(row.get("completion"), str) or not ("row" in row or "answer" in row):
        raise TaskError(f"{where}: it needs a text `completion`, and a `row` or an `answer`")
    problem = Problem(id=f"{task.name}/cases/{number}", task=task.name, messages=(), plain="", answer=None)
    if "row" in row:
        problem = task.problem(row["row"], problem.id, where)
    if "answer" in row:
        problem = replace(problem, answer=row["answer"])
    return Case(problem, row["completion"], Outcome(expect), str(row.get("why", "")), number)


def _filled(form: str, problem: Problem) -> str | None:
    answer = problem.answer
    if answer is None and "answer" in placeholders(form):
        return None
    if isinstance(answer, list):
        answer = answer[0]
    values: dict[str, Any] = {"answer": answer}
    try:
        values.update({name: pick(problem.row, name) for name in placeholders(form) if name != "answer"})
    except (KeyError, ValueError) as error:
        raise TaskError(f"{problem.id}: [check] reference_form cannot be filled: {error.args[0]}") from error
    return fill(form, values)


def _reference_function(task: Task) -> Callable[[Mapping[str, Any]], str | None] | None:
    checkers.load(task.spec.check.checker, task.folder)  # a check.py that cannot be imported is the user's first news
    file = task.spec.check.checker.partition(":")[0]
    try:
        loaded: Any = checkers.load(f"{file}:reference", task.folder)
    except TaskError:
        return None
    return loaded  # type: ignore[no-any-return]
