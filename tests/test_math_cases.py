"""The math checker on labelled data: floors that it must not fall below. The numbers it reached stand beside them."""

import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rloo_verify.checkers.boxes import last_box
from rloo_verify.checkers.math import check, warm_up
from rloo_verify.checkers.mutations import PROBE, variants
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
    warm_up()
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


def references(source: str) -> list[str]:
    if source == "math":
        return [last_box(row["solution"]) or "" for row in rows("math/hendrycks_math_test.jsonl")]
    if source == "math500":
        return [str(row["answer"]) for row in json.loads((DATA / "math/math500_rllm.json").read_text(encoding="utf-8"))]
    if source == "gsm8k":
        return [row["answer"].rpartition("####")[2].strip() for row in rows("gsm8k/test.jsonl")]
    return [row["ground_truth"] for row in rows("deepmath/math_deepmath_deal.jsonl")]


@pytest.mark.parametrize(
    ("source", "count"),
    [
        ("gsm8k", 300),
        ("math500", 500),
        ("math", 1_000),
        ("deepmath", 1_000),
        pytest.param("math", 5_000, marks=pytest.mark.slow),
        pytest.param("deepmath", 4_994, marks=pytest.mark.slow),
    ],
)
def test_references_equal_themselves_and_their_rewritings_and_not_their_mutations(source: str, count: int) -> None:
    unequal, paid, unreadable, mutations = [], [], 0, 0
    for reference in random.Random(0).sample(references(source), count):
        if check(rf"\boxed{{{reference}}}", reference, {}).outcome is not Outcome.PASS:
            unequal.append((reference, reference))
        for variant in variants(reference):
            verdict = check(rf"\boxed{{{variant.text}}}", reference, {})
            mutations += not variant.equal
            if verdict.outcome is Outcome.ERROR:
                unreadable += variant.text == PROBE
            elif variant.equal and verdict.outcome is not Outcome.PASS:
                unequal.append((reference, variant.text))
            elif not variant.equal and verdict.outcome is Outcome.PASS:
                paid.append((reference, variant.text))
    assert (unequal, paid) == ([], [])  # of 40,077 mutations of all references, none
    assert mutations > 2 * count
    assert unreadable <= (6 if source == "deepmath" else 0)


@pytest.mark.slow
def test_the_benchmark_runs_and_leaves_out_a_peer_that_is_not_installed() -> None:
    script = Path(__file__).parents[1] / "benchmarks" / "math_checker.py"
    command = [sys.executable, str(script), "--pairs", "30", "--peer-python", "/bin/false"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    result = json.loads(done.stdout)
    assert all(result[kind]["rloo_verify"]["median_ms"] < 5 for kind in ("gsm8k", "math"))
    assert "without a peer: /bin/false cannot run Math-Verify" in done.stderr


def test_the_fast_path_takes_less_than_a_twentieth_of_a_millisecond() -> None:
    pairs = [(reference, rf"So it is \boxed{{{reference}}}.") for reference in references("gsm8k")]
    seconds = []
    for reference, completion in pairs:
        started = time.process_time()
        check(completion, reference, {})
        seconds.append(time.process_time() - started)
    assert statistics.median(seconds) < 0.05e-3  # reached: 0.016 ms
