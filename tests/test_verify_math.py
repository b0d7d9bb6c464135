"""The math checker in worker processes: many checks leak nothing, and none is lost or delayed."""

import asyncio
import time

import psutil
import pytest

from rloo_verify.tasks import find_task
from rloo_verify.types import Outcome, Problem
from rloo_verify.verify import Verifier

HOSTILE = ["9^9^9^9", "(" * 10_000, r"\binom{10^9}{5e8}", r"\int_0^1\int_0^1 x dx dy", "9" * 100_000, "((((9!)!)!)!)"]


def problem(reference: str) -> Problem:
    return Problem("math/test/0", "math", (), "", reference)


@pytest.mark.slow
def test_ten_thousand_checks_lose_nothing_and_leak_nothing() -> None:
    me = psutil.Process()
    before = set(me.children())  # other tests of this session may keep a server of theirs
    with Verifier({"math": find_task("math").folder}, workers=2, timeout_seconds=5.0) as verifier:
        verifier.submit(problem("1"), r"\boxed{1}").result()
        files = me.num_fds()
        answers = [HOSTILE[i % 6] if i % 50 == 0 else str(i % 3) for i in range(10_000)]
        futures = [verifier.submit(problem("1"), rf"\boxed{{{answer}}}") for answer in answers]
        verdicts = [future.result(timeout=120) for future in futures]
        workers = [psutil.Process(pid) for pid in verifier.worker_pids]
        assert len(set(me.children()) - before) <= 2  # one may just be replaced
        assert all(worker.memory_info().rss < 400 * 2**20 for worker in workers)
        assert me.num_fds() <= files + 2
    right = [Outcome.PASS if answer == "1" else Outcome.FAIL for answer in answers]
    assert [verdict.outcome for verdict in verdicts] == right
    assert set(me.children()) <= before


def test_an_event_loop_may_wait_for_verdicts() -> None:
    async def judged() -> list[Outcome]:
        with Verifier({"math": find_task("math").folder}, workers=1, timeout_seconds=5.0) as verifier:
            futures = [verifier.submit(problem("2"), rf"\boxed{{{answer}}}") for answer in ("2", "3", "4/2")]
            return [verdict.outcome for verdict in await asyncio.gather(*map(asyncio.wrap_future, futures))]

    assert asyncio.run(judged()) == [Outcome.PASS, Outcome.FAIL, Outcome.PASS]


def test_hostile_answers_do_not_delay_the_next_one() -> None:
    with Verifier({"math": find_task("math").folder}, workers=1, timeout_seconds=5.0) as verifier:
        verifier.submit(problem("1"), r"\boxed{1}").result()
        started = time.monotonic()
        hostile = [verifier.submit(problem(r"\sqrt{2}"), rf"\boxed{{{text}}}") for text in HOSTILE]
        after = verifier.submit(problem("1"), r"\boxed{1}").result(timeout=60)
        assert after.outcome is Outcome.PASS
        assert time.monotonic() - started < 5.0
        assert {future.result().outcome for future in hostile} == {Outcome.FAIL}
