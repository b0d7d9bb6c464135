"""One run in a sandbox: what a program sees, what limits it, and what is left of it."""

import time
from collections.abc import Iterator
from typing import Any

import pytest
from open_sandboxes import BACKENDS, open_sandbox

from rloo_verify.sandbox.box import Job, RunResult
from rloo_verify.sandbox.canary import PROBE, leftovers
from rloo_verify.sandbox.runner import Sandbox
from rloo_verify.sandbox.self_test import self_test
from rloo_verify.sandbox.settings import Limits


@pytest.fixture(scope="module", params=BACKENDS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    yield from open_sandbox(request.param)


def run(sandbox: Sandbox, source: str, stdin: bytes = b"", **limits: Any) -> RunResult:
    return sandbox.run(Job({"mode": "script", "sources": [source]}, stdin=stdin, limits=Limits(**limits)))


def test_a_program_reads_its_input_and_prints(sandbox: Sandbox) -> None:
    result = run(sandbox, "print(int(input()) + 1)", b"41\n")
    assert (result.stdout, result.exit, result.killed) == (b"42\n", 0, None)


def test_every_protection_that_the_documentation_names_holds(sandbox: Sandbox) -> None:
    assert list(self_test(sandbox)) == []


@pytest.mark.parametrize(
    ("source", "limits", "killed"),
    [
        ("while True: pass", {"cpu_seconds": 0.3}, "cpu"),
        ("import os\nfor _ in range(4): os.fork()\nwhile True: pass", {"cpu_seconds": 0.3}, "cpu"),
        ("import time; time.sleep(60)", {"wall_seconds": 0.3}, "wall"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSTOP)", {"wall_seconds": 0.3}, "wall"),
        ("a = []\nwhile True: a.append(bytearray(1 << 20))", {"memory_mib": 64}, "memory"),
        ("while True: print('x' * 10000)", {"output_bytes": 100_000}, "output"),
        ("import os\nwhile True: os.write(3, b'x' * 10000)", {"value_bytes": 100_000}, "output"),
    ],
)
def test_a_limit_ends_the_program(sandbox: Sandbox, source: str, limits: dict[str, Any], killed: str) -> None:
    assert run(sandbox, source, **limits).killed == killed


def test_a_fork_bomb_that_ignores_signals_is_gone_afterwards(sandbox: Sandbox) -> None:
    bomb = "import os\nwhile True:\n    try: os.fork()\n    except OSError: pass"
    assert run(sandbox, bomb, cpu_seconds=0.5, processes=32).killed == "cpu"
    assert leftovers(sandbox.run(PROBE)) == ""


def test_processes_and_files_do_not_outlive_a_run(sandbox: Sandbox) -> None:
    source = """
import os, time
for folder in (".", "/tmp", "/dev/shm"):
    os.makedirs(folder + "/a/b"); open(folder + "/a/b/c", "w"); os.chmod(folder + "/a/b", 0); os.mkfifo(folder + "/q")
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0: time.sleep(60)
    os._exit(0)
"""
    assert run(sandbox, source).exit == 0
    assert leftovers(sandbox.run(PROBE)) == ""


def test_each_run_has_a_user_of_its_own_and_the_same_order_of_sets(sandbox: Sandbox) -> None:
    results = [run(sandbox, "import os; print(os.getuid()); print({'a', 'b', 'c', 'd'})").stdout for _ in range(3)]
    users, orders = zip(*(result.split(b"\n", 1) for result in results), strict=True)
    assert len(set(users)) == 3
    assert len(set(orders)) == 1


def test_waiting_for_a_core_does_not_count_as_wall_time(sandbox: Sandbox) -> None:
    busy = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\nprint('done')"
    job = Job({"mode": "script", "sources": [busy]}, limits=Limits(cpu_seconds=2.0, wall_seconds=1.0))
    assert sandbox.run(job).stdout == b"done\n"


def test_a_program_cannot_pretend_that_the_sandbox_failed(sandbox: Sandbox) -> None:
    source = """
import os
for fd in range(3, 256):
    try: os.write(fd, b"PermissionError: the sandbox could not be set up")
    except OSError: pass
os._exit(99)
"""
    result = run(sandbox, source)
    assert (result.exit, result.killed) == (99, None)


def test_a_run_costs_milliseconds(sandbox: Sandbox) -> None:
    run(sandbox, "pass")
    started = time.monotonic()
    for _ in range(40):
        run(sandbox, "pass")
    assert time.monotonic() - started < 40 * 0.05


def printing(number: int, seconds: float = 0.0) -> Job:
    source = f"import time; time.sleep({seconds}); print({number})"
    return Job({"mode": "script", "sources": [source]})


def test_a_batch_runs_in_its_order_and_ends_where_it_is_told_to(sandbox: Sandbox) -> None:
    asked: list[int] = []
    printed: list[bytes] = []

    def jobs() -> Iterator[Job]:
        for number in range(10):
            asked.append(number)
            yield printing(number)

    def go_on(result: RunResult) -> bool:
        printed.append(result.stdout)
        return len(printed) < 4

    sandbox.run_while(jobs(), go_on)
    assert printed == [b"0\n", b"1\n", b"2\n", b"3\n"]
    assert len(asked) <= 7  # two are sent ahead, one is made
    assert run(sandbox, "print('next')").stdout == b"next\n"  # and what was sent ahead says nothing to the next


def test_nothing_is_sent_ahead_of_the_first_result(sandbox: Sandbox) -> None:
    asked: list[int] = []

    def jobs() -> Iterator[Job]:
        for number in range(3):
            asked.append(number)
            yield printing(number)

    sandbox.run_while(jobs(), lambda _: False)
    assert len(asked) <= 2  # the second was made, not sent


def test_what_was_sent_ahead_of_an_end_is_killed_at_once(sandbox: Sandbox) -> None:
    started = time.monotonic()
    answers = iter([True, True, False])
    slow = Limits(cpu_seconds=2.0, wall_seconds=60.0)
    sleeper = Job({"mode": "script", "sources": ["import time; time.sleep(50)"]}, limits=slow)
    sandbox.run_while(iter([printing(1), printing(2), printing(3), sleeper, sleeper]), lambda _: next(answers))
    assert time.monotonic() - started < 30


def test_a_batch_of_large_inputs_and_outputs_does_not_lock_up(sandbox: Sandbox) -> None:
    data = b"x" * 900_000
    echo = Job({"mode": "script", "sources": ["import sys; print(sys.stdin.read(), end='')"]}, stdin=data)
    sizes: list[int] = []

    def go_on(result: RunResult) -> bool:
        sizes.append(len(result.stdout))
        return True

    sandbox.run_while(iter([printing(1), echo, echo, printing(2), echo]), go_on)
    assert sizes == [2, 900_000, 900_000, 2, 900_000]


def test_random_numbers_are_the_same_in_every_run(sandbox: Sandbox) -> None:
    first, second = (run(sandbox, "import random; print(random.random())").stdout for _ in range(2))
    assert first == second


def test_a_program_that_starts_threads_and_exit_functions_ends_as_an_interpreter_would(sandbox: Sandbox) -> None:
    source = """
import atexit, threading, time
atexit.register(lambda: print("exit"))
threading.Thread(target=lambda: (time.sleep(0.1), print("thread"))).start()
print("main")
"""
    assert run(sandbox, source).stdout == b"main\nthread\nexit\n"
