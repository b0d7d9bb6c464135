"""`tasks check` tries rewritings and mutations of references: which ones, and what it says of those that go wrong."""

import json
from pathlib import Path

import pytest

from rloo_verify.checkers.mutations import variants
from rloo_verify.task_check import check_task
from rloo_verify.tasks import find_task

SPEC = """
summary = "-"
source = "-"
license = "-"
[data]
sample = "rows.jsonl"
[data.columns]
question = "question"
answer = "answer"
[prompt]
user = "{question}"
[check]
checker = "math"
"""


@pytest.mark.parametrize(
    ("reference", "expected"),
    [
        ("42", {"layout", "grouped", "digit", "off by one", "sign", "probe"}),
        ("0", {"layout", "grouped", "digit", "off by one", "probe"}),  # -0 is 0
        ("(3,4)", {"layout", "digit", "swapped coordinates", "probe"}),
        ("(3,3)", {"layout", "digit", "probe"}),
        ("1^5", {"layout", "off by one", "sign", "probe"}),  # 1^6 is 1^5
        (r"\pm 3", {"layout", "probe"}),
        (r"\text{east}", {"layout", "probe"}),
        (r"\oint z", {"probe"}),
    ],
)
def test_variants_are_those_that_surely_pass_or_surely_fail(reference: str, expected: set[str]) -> None:
    assert {variant.kind for variant in variants(reference)} == expected


def audit(folder: Path, references: list[str]) -> list[str]:
    (folder / "task.toml").write_text(SPEC)
    rows = [{"question": "?", "answer": reference} for reference in references]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    case = {"answer": "1", "completion": r"\boxed{1}", "expect": "pass", "why": "-"}
    (folder / "cases.jsonl").write_text(json.dumps(case) + "\n")
    report = check_task(find_task(folder))
    assert sum(report.mutations.values()) + sum(report.rewritings.values()) > len(references)
    assert report.unjudgeable == sum("cannot be judged" in finding for finding in report.findings)
    return report.findings


def test_sound_references_pass_the_audit(tmp_path: Path) -> None:
    assert audit(tmp_path, ["42", r"\frac{\sqrt{3}}{2}", "(3,4)", "x^2+1", r"(-\infty, 2]", "C", r"\text{east}"]) == []


def test_a_reference_that_only_passes_itself_is_listed_with_the_reason(tmp_path: Path) -> None:
    findings = audit(tmp_path, ["42", r"\oint z"])
    assert len(findings) == 1
    assert r"cannot be judged: error (unusable_reference: the reference '\\oint z'" in findings[0]


def test_a_checker_that_rewards_a_mutation_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from rloo_verify import task_check
    from rloo_verify.checkers.mutations import Variant

    monkeypatch.setattr(task_check, "variants", lambda _: [Variant("digit", "42.0", equal=False)] * 3)
    findings = audit(tmp_path, ["42"])
    assert findings[0].endswith(
        "'42.0' (digit) should fail, as a mutation of '42', but got pass (correct: exact numbers)"
    )
