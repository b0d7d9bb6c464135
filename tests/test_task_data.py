"""Real data sets, where the folder of shared data lies beside the checkout."""

from pathlib import Path

import pytest

from rloo_verify.errors import TaskError
from rloo_verify.tasks import find_task

SHARED = Path(__file__).parents[2] / "shared" / "data"


def shared(name: str) -> Path:
    if not (SHARED / name).is_file():
        pytest.skip(f"shared/data/{name} is not beside this checkout")
    return SHARED / name


def test_real_gsm8k_rows_load() -> None:
    problems = find_task("gsm8k").problems("test", data=shared("gsm8k/test.jsonl"))
    assert (len(problems), problems[0].answer, problems[-1].id) == (1319, "18", "gsm8k/test/1318")


def test_real_math_rows_load_and_every_solution_has_a_box() -> None:
    problems = find_task("math").problems("test", data=shared("math/hendrycks_math_test.jsonl"))
    assert (len(problems), problems[0].answer) == (5000, "2")
    answers = {problem.row["problem"]: problem.answer for problem in problems}
    math500 = find_task("math500").problems("test", data=shared("math/math500_rllm.json"))
    assert len(math500) == 500
    assert all(answers[problem.row["problem"]] == problem.answer for problem in math500)


def test_real_deepmath_rows_in_another_schema_load_by_a_column_override() -> None:
    path = shared("deepmath/math_deepmath_deal.jsonl")
    with pytest.raises(TaskError, match=r"no column `question`; the columns are: id, source, difficulty, prompt"):
        find_task("deepmath").problems("train", data=path)
    task = find_task("deepmath", columns={"messages": "messages", "answer": "ground_truth"})
    problems = task.problems("train", data=path)
    assert (len(problems), problems[0].answer) == (4994, "1")
    assert [message["role"] for message in problems[0].messages] == ["system", "user"]


def test_real_countdown_rows_in_another_schema_are_judged() -> None:
    path = shared("reasoning_gym/countdown.jsonl")
    columns = {"nums": "metadata.numbers", "target": "metadata.target"}
    task = find_task("countdown", columns=columns)
    problems = task.problems("train", data=path)
    check = task.load_checker()
    assert "[36, 29, 95, 32, 4, 15]" in problems[0].plain
    verdicts = [check(f"<answer>{problem.row['answer']}</answer>", None, problem.row) for problem in problems]
    assert [verdict.outcome for verdict in verdicts] == ["pass"] * 100  # type: ignore[union-attr]
