"""`tasks check`: runs the cases of a task and audits its references, in worker processes as in training.

The audit judges every reference against itself, against nothing and, where the checker is `math`, against other
spellings of itself, which must pass, and mutations of itself (a digit, the sign, off by one, swapped coordinates),
which must fail. A reference that cannot be told from an answer that nobody gives cannot be judged against.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any

from rloo_verify.checkers.mutations import Variant, variants
from rloo_verify.errors import TaskError
from rloo_verify.task_cases import Case, load_cases, reference_completions
from rloo_verify.tasks import Task
from rloo_verify.types import Outcome, Problem, Verdict
from rloo_verify.verify import Verifier

TIMEOUT_SECONDS = 10.0


@dataclass
class Report:
    """What a check found.

    Attributes:
        cases: How many cases were run.
        rows: How many rows were read.
        references: How many references passed.
        without_reference: How many rows have no reference from which a right completion can be written.
        unjudgeable: How many references cannot be judged against.
        rewritings: How many other spellings of references were tried, by kind; all must pass.
        mutations: How many mutations of references were tried, by kind; all must fail.
        findings: One sentence for each thing that is wrong.
    """

    cases: int = 0
    rows: int = 0
    references: int = 0
    without_reference: int = 0
    unjudgeable: int = 0
    rewritings: Counter[str] = field(default_factory=Counter)
    mutations: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)


def check_task(
    task: Task,
    split: str = "sample",
    *,
    limit: int | None = None,
    data: str | Path | None = None,
    workers: int = 1,
    sandbox: Mapping[str, Any] | None = None,
) -> Report:
    """Checks a task: every case has the outcome it expects, every reference passes, every empty answer fails.

    Args:
        task: The task.
        split: Whose rows are checked.
        limit: At most so many rows; None for all.
        data: A file to read instead of the split's own source.
        workers: Worker processes.
        sandbox: Where the programs of code tasks run, as fields of `sandbox.settings.SandboxSettings`.

    Returns:
        The counts and the findings. Rows that cannot be read or judged are findings.

    Raises:
        TaskError: The cases or the rows cannot be read at all, or there are none.
        VerifyError: Worker processes cannot be started.
    """
    report = Report()
    cases = load_cases(task)
    folders = {task.name: task.folder}
    with Verifier(folders, workers=workers, timeout_seconds=TIMEOUT_SECONDS, sandbox=sandbox) as verifier:
        pending = [(case, verifier.submit(case.problem, case.completion)) for case in cases]
        for case, future in pending:
            report.cases += 1
            report.findings += _case_findings(case, future.result())
        for row in _submit_rows(task, split, limit, data, verifier, report):
            report.findings += _row_findings(row, report)
    if not report.rows:
        raise TaskError(f"{task.name}/{split}: there are no rows to check")
    return report


@dataclass(frozen=True, slots=True)
class _Row:
    """A row whose verdicts are awaited: of the reference itself, of an empty answer, and of variants."""

    problem: Problem
    reference: "tuple[str, Future[Verdict]] | None"
    empty: "Future[Verdict]"
    variants: "list[tuple[Variant, Future[Verdict]]]"


def _submit_rows(
    task: Task, split: str, limit: int | None, data: str | Path | None, verifier: Verifier, report: Report
) -> list[_Row]:
    write_reference = reference_completions(task)
    pending: list[_Row] = []
    for problem in _readable(task, split, limit, data, report):
        text = write_reference(problem)
        reference = None if text is None else (text, verifier.submit(problem, text))
        changed: list[tuple[Variant, Future[Verdict]]] = []
        if task.spec.check.checker == "math" and isinstance(problem.answer, str | int | float):
            for variant in variants(str(problem.answer)):
                written = write_reference(replace(problem, answer=variant.text))
                if written is not None and written != text:
                    changed.append((variant, verifier.submit(problem, written)))
        pending.append(_Row(problem, reference, verifier.submit(problem, ""), changed))
    return pending


def _readable(task: Task, split: str, limit: int | None, data: str | Path | None, report: Report) -> Iterator[Problem]:
    for problem_id, origin, row in islice(task.rows(split, data=data), limit):
        report.rows += 1
        try:
            yield task.problem(row, problem_id, origin)
        except TaskError as error:
            report.findings.append(str(error))


def _case_findings(case: Case, verdict: Verdict) -> list[str]:
    if verdict.outcome == case.expect:
        return []
    return [f"case {case.number} ({case.why}): expected {case.expect}, got {_said(verdict)}"]


def _row_findings(row: _Row, report: Report) -> list[str]:
    findings = []
    problem, empty = row.problem, row.empty.result()
    if row.reference is None:
        report.without_reference += 1
    else:
        text, future = row.reference
        verdict = future.result()
        report.references += verdict.outcome == Outcome.PASS
        if verdict.outcome == Outcome.ERROR:
            report.unjudgeable += 1
            return [f"{problem.id} cannot be judged: {_said(verdict)}"]
        if verdict.outcome == Outcome.FAIL:
            findings.append(
                f"{problem.id}: the reference itself, written as {text[:80]!r}, got {_said(verdict)};"
                " is `gold` right, or does [check] need a `reference_form`?"
            )
    if empty.outcome != Outcome.FAIL:
        findings.append(f"{problem.id}: an empty answer should fail, but got {_said(empty)}")
    return findings + _variant_findings(row, report)


def _variant_findings(row: _Row, report: Report) -> list[str]:
    findings = []
    for variant, future in row.variants:
        verdict = future.result()
        if verdict.outcome == Outcome.ERROR:
            report.unjudgeable += 1
            return [f"{row.problem.id} cannot be judged: {_said(verdict)}"]
        (report.rewritings if variant.equal else report.mutations)[variant.kind] += 1
        if verdict.outcome != (Outcome.PASS if variant.equal else Outcome.FAIL):
            should = "pass, as another spelling of" if variant.equal else "fail, as a mutation of"
            findings.append(
                f"{row.problem.id}: {variant.text[:80]!r} ({variant.kind}) should {should}"
                f" {str(row.problem.answer)[:80]!r}, but got {_said(verdict)}"
            )
    return findings


def _said(verdict: Verdict) -> str:
    return f"{verdict.outcome} ({verdict.reason}{': ' + verdict.detail if verdict.detail else ''})"
