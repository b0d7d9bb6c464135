"""Grades the math checker itself on labelled cases: `rloo-verify check math --cases FILE`.

A case is `{"gold", "response", "expected"}` with optional `id`, `category` and `debatable`: `expected` is 1 where the
response deserves the reward. Verdicts come from worker processes, as in training; times from a second pass in this
process, over the cases that the workers showed to be quick.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rloo_verify.checkers import math as math_checker
from rloo_verify.errors import TaskError
from rloo_verify.types import Outcome, Problem, Verdict
from rloo_verify.verify import Verifier

TIMEOUT_SECONDS = 5.0
SLOW_SECONDS = 1.0
_QUICK_SECONDS = 0.5
_TASK = """
summary = "the math checker on labelled cases"
source = "-"
license = "-"
[data.columns]
question = "question"
[prompt]
user = "{question}"
[check]
checker = "math"
options = { mode = "%s" }
"""


@dataclass(frozen=True, slots=True)
class LabelledCase:
    """One line of a file of labelled cases."""

    id: str
    gold: Any
    response: str
    expected: bool
    category: str
    debatable: bool


@dataclass(frozen=True, slots=True)
class Graded:
    """A case, what a checker said of it, and how long that took; `reward` is None for ERROR."""

    case: LabelledCase
    reward: float | None
    seconds: float
    why: str
    answer: str | None

    @property
    def verdict(self) -> str:
        """`agree`, `false_pass`, `false_fail` or `errors`."""
        if self.reward is None:
            return "errors"
        if bool(self.reward) == self.case.expected:
            return "agree"
        return "false_pass" if self.reward else "false_fail"


def load_labelled(path: Path) -> list[LabelledCase]:
    """Read a file of labelled cases, one JSON object a line.

    Raises:
        TaskError: The file cannot be read, is empty, or a line is no case; names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise TaskError(f"{path} cannot be read: {error}") from error
    cases = [_case(f"{path}, line {number}", line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not cases:
        raise TaskError(f"{path} has no cases")
    return cases


def grade(cases: Sequence[LabelledCase], mode: str) -> list[Graded]:
    """Grade every case with the math checker.

    Raises:
        TaskError: The mode is unknown.
        VerifyError: Worker processes cannot be started.
    """
    math_checker.rules(mode)
    with tempfile.TemporaryDirectory(prefix="rloo-verify-cases-") as folder:
        (Path(folder) / "task.toml").write_text(_TASK % mode, encoding="utf-8")
        with Verifier({"cases": Path(folder)}, workers=1, timeout_seconds=TIMEOUT_SECONDS) as verifier:
            futures = [verifier.submit(Problem(case.id, "cases", (), "", case.gold), case.response) for case in cases]
            verdicts = [future.result() for future in futures]
    math_checker.warm_up()
    return [
        Graded(case, verdict.reward, _seconds(case, verdict, mode), _why(verdict), verdict.answer)
        for case, verdict in zip(cases, verdicts, strict=True)
    ]


def grade_with(cases: Iterable[LabelledCase], judge: Callable[[LabelledCase], bool | None]) -> list[Graded]:
    """Grade every case with another checker, in this process."""
    graded = []
    for case in cases:
        started = time.perf_counter()
        right = judge(case)
        seconds = time.perf_counter() - started
        graded.append(Graded(case, None if right is None else float(right), seconds, "", None))
    return graded


def summary(graded: Sequence[Graded]) -> dict[str, Any]:
    """Counts, times and disagreements of the undisputed cases; under `debatable`, the counts of the others."""
    undisputed = [one for one in graded if not one.case.debatable]
    debatable = [one for one in graded if one.case.debatable]
    seconds = sum(one.seconds for one in undisputed)
    categories = sorted({one.case.category for one in undisputed})
    return {
        **_counts(undisputed),
        "over_1s": sum(one.seconds > SLOW_SECONDS for one in undisputed),
        "seconds": round(seconds, 4),
        "median_ms": round(1000 * statistics.median([one.seconds for one in undisputed]), 4) if undisputed else 0.0,
        "per_category": {
            name: _counts([one for one in undisputed if one.case.category == name]) for name in categories
        },
        "disagreements": [_disagreement(one) for one in undisputed if one.verdict != "agree"],
        "debatable": {**_counts(debatable), "ids": [one.case.id for one in debatable if one.verdict != "agree"]},
    }


def _counts(graded: Sequence[Graded]) -> dict[str, int]:
    verdicts = [one.verdict for one in graded]
    return {"cases": len(graded), **{name: verdicts.count(name) for name in _VERDICTS}}


_VERDICTS = ("agree", "false_pass", "false_fail", "errors")


def _case(where: str, line: str) -> LabelledCase:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise TaskError(f"{where}: not JSON: {error}") from error
    if not isinstance(row, Mapping) or not {"gold", "response", "expected"} <= row.keys():
        raise TaskError(f"{where}: a case needs `gold`, `response` and `expected`")
    if not isinstance(row["response"], str) or row["expected"] not in (0, 1):
        raise TaskError(f"{where}: `response` must be text and `expected` 0 or 1")
    name = str(row.get("id", where.rpartition(" ")[2]))
    category = str(row.get("category", "none"))
    return LabelledCase(name, row["gold"], row["response"], bool(row["expected"]), category, bool(row.get("debatable")))


def _seconds(case: LabelledCase, verdict: Verdict, mode: str) -> float:
    if verdict.seconds > _QUICK_SECONDS:
        return verdict.seconds
    started = time.perf_counter()
    math_checker.check(case.response, case.gold, {}, mode=mode)
    return time.perf_counter() - started


def _why(verdict: Verdict) -> str:
    said = f"{verdict.reason}: {verdict.detail}" if verdict.detail else verdict.reason
    return "" if verdict.outcome is Outcome.PASS else said


def _disagreement(one: Graded) -> dict[str, Any]:
    case = one.case
    return {
        "id": case.id, "category": case.category, "verdict": one.verdict, "expected": int(case.expected),
        "gold": case.gold, "answer": one.answer, "why": one.why,
    }  # fmt: skip
