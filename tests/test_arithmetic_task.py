"""The generated task: deterministic, disjoint splits, right answers."""

import ast
import operator
from typing import Any

import pytest

from rloo_verify.errors import TaskError
from rloo_verify.tasks import find_task
from rloo_verify.types import Problem

OPERATORS: dict[type[ast.operator], Any] = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul}


def load(split: str, **options: Any) -> list[Problem]:
    return find_task("arithmetic", options=options).problems(split)


def value(node: ast.AST) -> int:
    match node:
        case ast.Expression(body=body):
            return value(body)
        case ast.Constant(value=int(number)):
            return number
        case ast.BinOp(left=left, op=op, right=right):
            return int(OPERATORS[type(op)](value(left), value(right)))
    raise AssertionError(ast.dump(node))


def commuted(question: str) -> tuple[str, ...]:
    for sign in "+*":
        question = question.replace(sign, f" {sign} ")
    return tuple(sorted(question.split()))


@pytest.mark.parametrize("level", range(1, 7))
def test_answers_are_right_and_no_test_problem_is_in_train(level: int) -> None:
    train, test = load("train", level=level, count=2000), load("test", level=level)
    for problem in (*train, *test):
        assert str(value(ast.parse(problem.row["question"], mode="eval"))) == problem.answer
    questions = [problem.row["question"] for problem in train]
    assert len(set(questions)) == len(questions)
    assert not {commuted(question) for question in questions} & {commuted(p.row["question"]) for p in test}


def test_the_rows_are_the_same_on_every_machine() -> None:
    # Recorded once; a change here moves problems between train and test, so old and new runs cannot be compared.
    assert [p.row["question"] for p in load("test", level=3, count=4)] == ["815+941", "346+134", "832+476", "677+297"]
    assert [p.row["question"] for p in load("train", level=4, count=3)] == ["648+649", "750+435", "627-297"]


def test_the_default_counts_are_20000_and_500_where_the_level_has_so_many() -> None:
    assert (len(load("train")), len(load("test"))) == (20_000, 500)
    assert len(load("train", level=1)) + len(load("test", level=1)) == 100  # all pairs of digits: 10 * 10
    assert len(load("train", level=2)) + len(load("test", level=2, count=8100)) == 8100  # 90 * 90


def test_another_seed_gives_other_rows_of_the_same_split() -> None:
    first, second = ([p.row["question"] for p in load("test", seed=seed)] for seed in (0, 1))
    assert first != second
    train = {p.row["question"] for p in load("train", seed=2)}
    assert not train.intersection(first + second)


def test_level_four_never_goes_below_zero() -> None:
    problems = load("train", level=4, count=500)
    assert {"+", "-"} <= set("".join(problem.row["question"] for problem in problems))
    assert min(int(problem.answer) for problem in problems) >= 0


def test_the_prompts_are_those_that_the_tiny_policy_and_chat_models_know() -> None:
    problem = load("test", count=1)[0]
    assert problem.plain == "815+941="
    assert problem.messages[-1]["content"] == "Compute 815+941. End with the result alone."


@pytest.mark.parametrize(
    ("options", "message"),
    [({"level": 7}, "level must be 1 to 6, not 7"), ({"count": 0}, "count"), ({"lvl": 1}, "takes level, count, seed")],
)
def test_wrong_options_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(TaskError, match=message):
        load("train", **options)


def test_options_for_a_task_that_is_read_are_refused() -> None:
    with pytest.raises(TaskError, match="gsm8k takes no data options"):
        find_task("gsm8k", options={"level": 1})
