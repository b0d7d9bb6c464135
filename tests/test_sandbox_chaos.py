"""Engines and sandboxes that die under a batch, full disks, loaded machines: no reward changes but to none at all."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path

import psutil
import pytest
from open_sandboxes import BACKENDS, eventually, open_sandbox
from private_docker import PrivateDocker, private_docker

from rloo_verify.grading.audit import audit, read_cases
from rloo_verify.grading.output_checkers import load_checkers
from rloo_verify.sandbox.box import BoxError, Job, RunResult
from rloo_verify.sandbox.canary import PROBE, leftovers
from rloo_verify.sandbox.docker import LABEL_OWNER, connect, owner
from rloo_verify.sandbox.runner import Sandbox
from rloo_verify.sandbox.self_test import self_test

__all__ = ["private_docker"]  # a fixture

BUSY_LOOPS = 8
OWN = Path(__file__).parent / "code_cases.jsonl"


@pytest.fixture(scope="module", params=BACKENDS)
def sandbox(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    yield from open_sandbox(request.param)


@pytest.fixture
def own_engine(private_docker: PrivateDocker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sandbox]:
    """A sandbox on the engine of this module, which is reached over TCP as one on another machine would be."""
    monkeypatch.setenv("DOCKER_HOST", private_docker.tcp)
    for sandbox in open_sandbox("docker"):
        sandbox._programs._patience = 3.0
        yield sandbox


def double(number: int, seconds: float = 0.02) -> Job:
    source = f"import time\ntime.sleep({seconds})\nprint(2 * int(input()))"
    return Job({"mode": "script", "sources": [source]}, stdin=b"%d\n" % number)


def outcomes(sandbox: Sandbox, jobs: int, found: "Counter[str] | None" = None) -> "Counter[str]":
    """What single runs give: `right`, `error` (no reward), or `wrong`, which must never be; counted in `found`."""
    found = Counter() if found is None else found
    for number in range(jobs):
        try:
            found["right" if sandbox.run(double(number)).stdout == b"%d\n" % (2 * number) else "wrong"] += 1
        except BoxError:
            found["error"] += 1
    return found


def run_aside(sandbox: Sandbox, jobs: int) -> tuple[threading.Thread, list["Counter[str]"]]:
    found: list[Counter[str]] = []
    thread = threading.Thread(target=lambda: found.append(outcomes(sandbox, jobs)), daemon=True)
    thread.start()
    return thread, found


def inside(sandbox: Sandbox) -> list[int]:
    """Process ids of the first processes and zygotes of this process's sandboxes, as this machine sees them."""
    if sandbox.backend == "bwrap":
        boxes = [child for child in psutil.Process().children() if child.name() == "bwrap"]
    else:
        api = connect().api
        mine = api.containers(filters={"label": f"{LABEL_OWNER}={owner()}"})
        states = [api.inspect_container(container["Id"])["State"]["Pid"] for container in mine]
        boxes = [psutil.Process(pid) for pid in states if pid and psutil.pid_exists(pid)]
    found: list[int] = []
    for box in boxes:
        with contextlib.suppress(psutil.NoSuchProcess):  # it was replaced meanwhile
            found += [box.pid, *(process.pid for process in box.children(recursive=True))]
    return found


def command_of(pid: int) -> list[str]:
    try:
        return psutil.Process(pid).cmdline()
    except psutil.NoSuchProcess:
        return []


@pytest.mark.parametrize("which", ["controller", "zygote"])
def test_killed_processes_of_a_sandbox_change_no_result(sandbox: Sandbox, which: str) -> None:
    found: Counter[str] = Counter()
    thread = threading.Thread(target=outcomes, args=(sandbox, 60, found), daemon=True)
    thread.start()
    for _ in range(4):
        # a run whose sandbox breaks twice is blamed for it, so no run is hit by two kills
        reached = found.total() + 5
        assert eventually(lambda reached=reached: found.total() >= reached)
        parts = [pid for pid in inside(sandbox) if which in command_of(pid)]
        with contextlib.suppress(ProcessLookupError):
            if parts:  # the lowest is the zygote; later ones are its clones
                os.kill(min(parts), signal.SIGKILL)
    thread.join(120)
    assert not thread.is_alive()
    assert found["wrong"] == 0
    assert found["right"] >= 56  # at most the four that were running
    assert found.total() == 60


@pytest.mark.docker
@pytest.mark.slow
def test_an_engine_that_is_reached_over_tcp_makes_its_image_and_holds_every_protection(own_engine: Sandbox) -> None:
    assert own_engine.why == "sandbox: docker"
    assert list(self_test(own_engine)) == []


@pytest.mark.docker
@pytest.mark.slow
def test_an_engine_that_is_killed_in_mid_batch_costs_verdicts_but_changes_none(
    own_engine: Sandbox, private_docker: PrivateDocker
) -> None:
    thread, found = run_aside(own_engine, 100)
    time.sleep(1.0)
    private_docker.kill()
    time.sleep(1.0)
    private_docker.start()
    thread.join(240)
    assert found
    assert found[0]["wrong"] == 0
    assert found[0]["right"] >= 50
    assert own_engine.run(double(21)).stdout == b"42\n"
    own_engine.close()
    assert eventually(lambda: private_docker.containers() == [])


@pytest.mark.docker
@pytest.mark.slow
def test_an_engine_that_stays_dead_is_an_error_within_seconds(
    own_engine: Sandbox, private_docker: PrivateDocker
) -> None:
    private_docker.kill()
    try:
        started = time.monotonic()
        with pytest.raises(BoxError):
            own_engine.run(double(21))
        assert time.monotonic() - started < 60
    finally:
        private_docker.start()


@pytest.mark.docker
@pytest.mark.slow
def test_a_full_disk_of_the_engine_changes_no_result(own_engine: Sandbox, private_docker: PrivateDocker) -> None:
    filler = private_docker.disk / "filler"
    try:
        with pytest.raises(OSError, match="No space"):
            fill(filler)
        for box in inside(own_engine):
            with contextlib.suppress(ProcessLookupError):
                os.kill(box, signal.SIGKILL)
        assert outcomes(own_engine, 5)["wrong"] == 0
    finally:
        filler.unlink()
    assert own_engine.run(double(21)).stdout == b"42\n"


def fill(path: Path) -> None:
    with path.open("wb", buffering=0) as file:
        while True:
            file.write(b"x" * (1 << 20))


FILL = """
import os, sys
def fill(folder):
    try:
        with open(folder + "/big", "wb") as file:
            while True: file.write(b"x" * (1 << 20)); file.flush()
    except OSError: pass
    try:
        for i in range(40_000): open(f"{folder}/{i}", "w").close()
    except OSError: pass
fill("/tmp"); fill("/dev/shm"); fill(".")
print(42)
"""


def test_a_program_that_fills_its_disks_changes_nothing_for_the_next(sandbox: Sandbox) -> None:
    assert sandbox.run(Job({"mode": "script", "sources": [FILL]})).stdout == b"42\n"
    assert leftovers(sandbox.run(PROBE)) == ""
    assert sandbox.run(double(21)).stdout == b"42\n"


def measured() -> tuple[int, int, int]:
    """Descriptors, threads and child processes of this process."""
    me = psutil.Process()
    return me.num_fds(), me.num_threads(), len(me.children(recursive=True))


def test_a_thousand_runs_leak_nothing(sandbox: Sandbox) -> None:
    sandbox.run(double(1))
    here, there = measured(), rss(sandbox)
    printed: list[bytes] = []

    def take(result: RunResult) -> bool:
        printed.append(result.stdout)
        return True

    sandbox.run_while(repeat(double(21, 0), 1000), take)
    assert set(printed) == {b"42\n"}
    assert measured() == here
    assert rss(sandbox) - there < 4 << 20  # of all processes inside together
    looks = Job({"mode": "script", "sources": ["import os; print(len(os.listdir('/proc/self/fd')))"]})
    assert int(sandbox.run(looks).stdout) <= 5  # 0, 1, 2, the channel, and the listing's own
    assert leftovers(sandbox.run(PROBE)) == ""


def rss(sandbox: Sandbox) -> int:
    return sum(psutil.Process(pid).memory_info().rss for pid in sorted(inside(sandbox))[:64] if psutil.pid_exists(pid))


@pytest.mark.slow
def test_eight_busy_loops_change_no_verdict_of_an_honest_program(sandbox: Sandbox) -> None:
    honest = [case for case in read_cases(OWN) if case["expected_reward"] == 1]
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(BUSY_LOOPS)]
    try:
        report = audit(honest, sandbox, load_checkers(None))
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
    assert report.agree == report.cases > 30, report.disagreements
