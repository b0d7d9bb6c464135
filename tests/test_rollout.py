"""Drawing and verifying: what overlaps, what is counted, and what stops a run."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from groups import VERDICTS, judged_group
from task_folder import write_task

from rloo_verify.policy.base import Request, Sampling
from rloo_verify.rollout import Sampler, error_share, too_many_errors
from rloo_verify.seeds import derive_seed
from rloo_verify.types import Completion, FinishReason, Problem, Signal, Verdict
from rloo_verify.verify import Verifier

SAMPLING = Sampling(4)


class ScriptedPolicy:
    """Yields one completion a request, its text `sample index`, in an order and at a pace of its own."""

    version = 0

    def __init__(
        self,
        order: Callable[[Sequence[Request]], Sequence[Request]] = list,
        between: Callable[[int], object] = lambda _: None,
    ) -> None:
        self.order, self.between = order, between
        self.seen: list[Request] = []

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Completion]:  # noqa: ARG002
        self.seen += requests
        for place, request in enumerate(self.order(requests)):
            self.between(place)
            yield Completion(
                request.problem.id, request.sample_index, (5,), (-1.0,), str(request.sample_index),
                FinishReason.STOP, 0, request.seed,
            )  # fmt: skip


class ScriptedVerifier:
    """Judges in threads, by a function of problem and text."""

    def __init__(self, judge: Callable[[Problem, str], Verdict]) -> None:
        self.judge = judge
        self.pool = ThreadPoolExecutor(4)
        self.submitted: list[tuple[str, str]] = []

    def submit(self, problem: Problem, text: str) -> Future[Verdict]:
        self.submitted.append((problem.id, text))
        return self.pool.submit(self.judge, problem, text)


def problems(*names: str) -> list[Problem]:
    return [Problem(name, "tiny", (), "", "") for name in names]


def sampler(policy: Any, judge: Callable[[Problem, str], Verdict] | None = None) -> Sampler:
    verifier: Any = ScriptedVerifier(judge or (lambda *_: VERDICTS["p"]))
    return Sampler(policy, verifier, lambda problem: problem)


def outcomes_by(table: dict[str, str]) -> Callable[[Problem, str], Verdict]:
    """Judges sample i of a problem by the i-th letter of its entry."""
    return lambda problem, text: VERDICTS[table[problem.id][int(text)]]


def test_an_answer_is_judged_while_the_others_are_still_being_drawn() -> None:
    judged = threading.Event()

    def judge(*_: object) -> Verdict:
        judged.set()
        return VERDICTS["p"]

    # The second answer is not drawn before the first one is judged: verifying after drawing would wait for ever.
    policy = ScriptedPolicy(between=lambda place: place == 0 or judged.wait(20) or pytest.fail("not judged meanwhile"))
    rollout = sampler(policy, judge).draw(problems("a"), 2, SAMPLING, 0, 1)
    assert rollout.groups[0].signal is Signal.ALL_PASS


def test_a_slow_judge_does_not_hold_up_the_drawing() -> None:
    drawn = threading.Event()

    def judge(*_: object) -> Verdict:
        assert drawn.wait(20)  # no verdict before the last answer is drawn
        return VERDICTS["f"]

    policy = ScriptedPolicy(between=lambda place: drawn.set() if place == 3 else None)
    rollout = sampler(policy, judge).draw(problems("a", "b"), 2, SAMPLING, 0, 1)
    assert [group.signal for group in rollout.groups] == [Signal.ALL_FAIL, Signal.ALL_FAIL]


SLEEPER = """
import time
def check(completion, answer, row):
    time.sleep(0.05)
    return True
"""


@pytest.mark.slow
def test_drawing_and_checks_of_50_ms_take_as_long_as_the_slower_of_the_two(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "tiny", {"q": "1", "a": "1"})
    (folder / "check.py").write_text(SLEEPER)
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace('"exact"', '"check.py:check"'))
    # 120 answers, one every 25 ms: drawing takes 3.0 s. Judging takes 120 * 50 ms / 3 workers = 2.0 s.
    policy: Any = ScriptedPolicy(between=lambda _: time.sleep(0.025))
    with Verifier({"tiny": folder}, workers=3, timeout_seconds=5) as verifier:
        for future in [verifier.submit(problems("warm")[0], "") for _ in range(3)]:
            future.result(60)
        started = time.perf_counter()
        rollout = Sampler(policy, verifier, lambda problem: problem).draw(
            problems(*map(str, range(30))), 4, SAMPLING, 0, 1
        )
        wall = time.perf_counter() - started
    assert wall < 1.15 * max(rollout.sample_seconds, 2.0)
    assert rollout.sample_seconds + rollout.verify_wait_seconds == pytest.approx(wall, abs=0.05)


def test_groups_come_in_the_order_of_the_problems_whatever_finishes_first() -> None:
    policy = ScriptedPolicy(order=lambda requests: requests[::-1])
    judge = outcomes_by({"a": "pf", "b": "ff", "c": "ep"})
    rollout = sampler(policy, judge).draw(problems("c", "a", "b"), 2, SAMPLING, 0, 1)
    assert [group.problem.id for group in rollout.groups] == ["c", "a", "b"]
    assert [group.rewards_G for group in rollout.groups] == [[None, 1.0], [1.0, 0.0], [0.0, 0.0]]
    assert all([c.sample_index for c in group.completions_G] == [0, 1] for group in rollout.groups)


def test_seeds_come_from_run_seed_step_problem_and_sample() -> None:
    policy = ScriptedPolicy()
    sampler(policy).draw(problems("a", "b"), 2, SAMPLING, 7, 3)
    assert [request.seed for request in policy.seen] == [derive_seed(7, 3, name, i) for name in "ab" for i in (0, 1)]


def test_a_problem_that_comes_twice_in_a_step_is_drawn_anew() -> None:
    policy = ScriptedPolicy(order=lambda requests: requests[::-1])
    rollout = sampler(policy, outcomes_by({"a": "pfff", "b": "pp"})).draw(problems("a", "b", "a"), 2, SAMPLING, 0, 1)
    assert [group.rewards_G for group in rollout.groups] == [[1.0, 0.0], [1.0, 1.0], [0.0, 0.0]]
    assert [c.sample_index for c in rollout.groups[2].completions_G] == [2, 3]
    assert len({request.seed for request in policy.seen}) == 6


REFILL = {"a": "pf", "b": "pp", "c": "ff", "d": "fp", "e": "pp", "f": "ee", "g": "pf"}


def refilling(rounds: dict[int, str], asked: list[tuple[int, int]]) -> Callable[[int, int], Sequence[Problem]]:
    """`more` that gives the problems named for each round and notes what was asked for."""

    def more(round_number: int, count: int) -> Sequence[Problem]:
        asked.append((round_number, count))
        return problems(*rounds.get(round_number, "")[:count])

    return more


def test_refill_draws_until_as_many_groups_are_mixed_and_returns_every_group() -> None:
    asked: list[tuple[int, int]] = []
    rollout = sampler(ScriptedPolicy(), outcomes_by(REFILL)).draw_until_mixed(
        problems("a", "b", "c"), 2, SAMPLING, refilling({1: "de", 2: "g"}, asked), 9, 0, 1
    )
    # a of three is mixed: two more, of which d is; one more, which is
    assert asked == [(1, 2), (2, 1)]
    assert [group.problem.id for group in rollout.groups] == ["a", "b", "c", "d", "e", "g"]
    assert sum(group.signal is Signal.MIXED for group in rollout.groups) == 3


def test_refill_stops_at_the_bound_without_an_error() -> None:
    asked: list[tuple[int, int]] = []
    rollout = sampler(ScriptedPolicy(), outcomes_by(REFILL)).draw_until_mixed(
        problems("b", "c"), 2, SAMPLING, refilling({1: "ef"}, asked), 3, 0, 1
    )
    assert asked == [(1, 1)]  # two are missing, but the bound leaves room for one
    assert [group.problem.id for group in rollout.groups] == ["b", "c", "e"]


def test_refill_that_finds_no_new_problem_ends_without_an_error() -> None:
    asked: list[tuple[int, int]] = []
    rollout = sampler(ScriptedPolicy(), outcomes_by(REFILL)).draw_until_mixed(
        problems("b", "c"), 2, SAMPLING, refilling({1: "b", 2: "c", 3: "b"}, asked), 6, 0, 1
    )
    assert [group.problem.id for group in rollout.groups] == ["b", "c"]
    assert len(asked) == 6


def test_enough_mixed_groups_ask_for_nothing_more() -> None:
    asked: list[tuple[int, int]] = []
    sampler(ScriptedPolicy(), outcomes_by(REFILL)).draw_until_mixed(
        problems("a", "d"), 2, SAMPLING, refilling({}, asked), 6, 0, 1
    )
    assert asked == []


def test_the_share_of_errors_is_over_completions_and_stops_a_run_with_one_sentence() -> None:
    groups = [judged_group("a", "pfe"), judged_group("b", "pfffe")]
    assert error_share(groups) == pytest.approx(2 / 8)
    assert error_share([]) == 0
    message = str(too_many_errors(groups, 0.2, "runs/x/rollouts/step-000001.jsonl"))
    assert message == (
        "25% of the completions could not be judged, above verify.max_error_share = 20%; the first reason: "
        "checker_crashed (exit code 7); all are in runs/x/rollouts/step-000001.jsonl"
    )
