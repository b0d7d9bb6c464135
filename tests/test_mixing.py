"""Which problems a step trains on."""

from collections import Counter

import pytest

from rloo_verify.mixing import ProblemStream
from rloo_verify.types import Problem


def problems(task: str, count: int) -> list[Problem]:
    return [Problem(f"{task}/train/{i}", task, (), "", "") for i in range(count)]


def stream(sizes: dict[str, int], weights: list[float], *, per_step: int = 4, seed: int = 0) -> ProblemStream:
    return ProblemStream([problems(task, n) for task, n in sizes.items()], weights, per_step=per_step, seed=seed)


def ids(some: list[Problem]) -> list[str]:
    return [problem.id for problem in some]


def test_no_problem_comes_again_before_all_others_did() -> None:
    one = stream({"a": 10}, [1])
    drawn = [name for step in range(1, 16) for name in ids(one.for_step(step))]  # 15 * 4 = 60 draws, 6 epochs
    for epoch in range(6):
        assert len(set(drawn[10 * epoch : 10 * epoch + 10])) == 10
    orders = {tuple(drawn[10 * epoch : 10 * epoch + 10]) for epoch in range(6)}
    assert len(orders) == 6  # each epoch has an order of its own


def test_each_task_of_a_mixture_walks_through_its_own_epochs() -> None:
    one = stream({"a": 5, "b": 50}, [1, 1])
    drawn = [name for step in range(1, 26) for name in ids(one.for_step(step))]
    for task, size in (("a", 5), ("b", 50)):
        own = [name for name in drawn if name.startswith(task)]
        for start in range(0, len(own), size):
            part = own[start : start + size]
            assert len(set(part)) == len(part)


def test_weights_are_shares_of_the_problems() -> None:
    one = stream({"a": 100, "b": 100, "c": 100}, [1, 2, 5], per_step=16)
    counts = Counter(problem.task for step in range(1, 251) for problem in one.for_step(step))
    draws = 16 * 250
    for task, share in (("a", 1 / 8), ("b", 2 / 8), ("c", 5 / 8)):
        # a binomial count; four standard deviations
        assert abs(counts[task] - draws * share) < 4 * (draws * share * (1 - share)) ** 0.5


def test_a_step_is_a_pure_function_of_seed_and_step() -> None:
    forward, other_order = stream({"a": 7, "b": 9}, [1, 2]), stream({"a": 7, "b": 9}, [1, 2])
    steps = {step: ids(forward.for_step(step)) for step in range(1, 41)}
    for step in (40, 3, 17, 1, 40, 2):
        assert ids(other_order.for_step(step)) == steps[step]
    assert ids(stream({"a": 7, "b": 9}, [1, 2], seed=1).for_step(1)) != steps[1]


def test_refill_draws_distinct_problems_and_depends_on_step_and_round_alone() -> None:
    one = stream({"a": 40, "b": 40}, [1, 1])
    first = ids(one.refill(3, 1, 12))
    assert len(set(first)) == len(first) == 12
    assert first == ids(stream({"a": 40, "b": 40}, [1, 1]).refill(3, 1, 12))
    assert first != ids(one.refill(3, 2, 12))
    assert first != ids(one.refill(4, 1, 12))


def test_refill_gives_what_there_is_where_a_task_is_too_small() -> None:
    assert sorted(ids(stream({"a": 3}, [1]).refill(1, 1, 10))) == ["a/train/0", "a/train/1", "a/train/2"]


@pytest.mark.parametrize("per_step", [1, 3, 25])
def test_a_step_has_as_many_problems_as_asked_for_even_if_the_task_has_fewer(per_step: int) -> None:
    one = stream({"a": 4}, [1], per_step=per_step)
    assert len(one.for_step(1)) == len(one.for_step(2)) == per_step
