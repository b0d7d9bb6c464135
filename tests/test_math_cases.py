"""The math checker on labelled data: floors that it must not fall below. The numbers it reached stand beside them."""

import json
import random
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rloo_verify.checkers.boxes import last_box
from rloo_verify.checkers.math import check
from rloo_verify.types import Outcome

DATA = Path(__file__).parents[2] / "shared" / "data"
ADVERSARIAL = {"dos", "injection", "reward_hack"}

pytestmark = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"{DATA} does not exist: labelled data is not part of the repository"
)


def rows(path: str) -> Iterator[dict[str, Any]]:
    with (DATA / path).open(encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def test_undisputed_cases_agree_and_no_wrong_answer_is_rewarded() -> None:
    pwned = Path(tempfile.gettempdir()) / "rloo-verify-pwned"
    existed = pwned.exists()
    cases = [row for row in rows("math_cases/cases.jsonl") if not row.get("debatable")]
    agree, paid, slow = 0, [], []
    for case in cases:
        started = time.process_time()
        verdict = check(case["response"], case["gold"], {}, mode="lenient")
        if time.process_time() - started > 1.0:
            slow.append(case["id"])
        agree += verdict.reward == float(case["expected"])
        if verdict.outcome is Outcome.PASS and not case["expected"]:
            paid.append((case["id"], case["category"]))
    assert agree / len(cases) >= 0.99  # reached: 0.994 of 1,494
    assert len(paid) <= 3  # reached: 0
    assert not [case for case in paid if case[1] in ADVERSARIAL]
    assert slow == []
    assert existed or not pwned.exists()


def test_all_gsm8k_labels_agree() -> None:
    wrong = []
    for row in rows("gsm8k/example_model_solutions.jsonl"):
        reference = row["ground_truth"].rpartition("A:")[2]
        for model, solution in row.items():
            if isinstance(solution, dict):
                answer = solution["solution"].rpartition("A:")[2]
                passed = check(f"#### {answer.strip()}", reference, {}).outcome is Outcome.PASS
                if passed != bool(solution["is_correct"]):
                    wrong.append((row["question"][:40], model))
    assert wrong == []  # all 5,276


@pytest.mark.parametrize("source", ["math", "deepmath"])
def test_references_equal_themselves_and_not_their_mutations(source: str) -> None:
    if source == "math":
        references = [last_box(row["solution"]) or "" for row in rows("math/hendrycks_math_test.jsonl")]
    else:
        references = [row["ground_truth"] for row in rows("deepmath/math_deepmath_deal.jsonl")]
    chance = random.Random(0)
    unequal, paid, unreadable = [], [], 0
    for reference in chance.sample(references, 2_000):
        spaced = reference.replace(r"\frac", r"\dfrac").replace("(", r"\left(").replace(")", r"\right)") + " ."
        if check(rf"\boxed{{{spaced}}}", reference, {}).outcome is not Outcome.PASS:
            unequal.append(reference)
        digits = [match.start() for match in re.finditer(r"\d", reference)]
        if digits:
            at = chance.choice(digits)
            other = str((int(reference[at]) + chance.randint(1, 8)) % 10)
            verdict = check(rf"\boxed{{{reference[:at]}{other}{reference[at + 1 :]}}}", reference, {})
            unreadable += verdict.outcome is Outcome.ERROR
            if verdict.outcome is Outcome.PASS:
                paid.append((reference, at, other))
    assert len(unequal) <= 2
    assert paid == []
    assert unreadable < 0.01 * 2_000
