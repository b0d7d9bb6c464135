"""Sandboxes that break, owners that die, engines that are missing: what is retried, what is an error, what is left."""

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from open_sandboxes import eventually, need_bwrap, open_sandbox

from rloo_verify.errors import SandboxError
from rloo_verify.sandbox import runner
from rloo_verify.sandbox.box import Box, BoxError, Job, RunResult
from rloo_verify.sandbox.bwrap import BwrapBackend
from rloo_verify.sandbox.docker import connect, sweep
from rloo_verify.sandbox.runner import BrokeSandboxError, Sandbox, choose_backend
from rloo_verify.sandbox.settings import SandboxSettings, find_image

ANSWER = Job({"mode": "script", "sources": ["print(42)"]})
SLOW = Job({"mode": "script", "sources": ["import time; time.sleep(0.6); print(42)"]})


@pytest.fixture
def bwrap() -> Iterator[Sandbox]:
    yield from open_sandbox("bwrap")


@pytest.fixture
def docker() -> Iterator[Sandbox]:
    yield from open_sandbox("docker")


def owned_by(pid: int, *filters: str) -> list[str]:
    form = '{{.ID}} {{.Label "rloo-verify.owner"}}'
    command = ["docker", "ps", "-a", "--format", form, *(f"--filter={filter_}" for filter_ in filters)]
    listed = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line for line in listed.stdout.splitlines() if f":{pid}:" in line]


def test_a_sandbox_that_is_killed_costs_no_answer(bwrap: Sandbox) -> None:
    results: list[bytes] = []
    thread = threading.Thread(target=lambda: results.append(bwrap.run(SLOW).stdout))
    thread.start()
    time.sleep(0.3)
    boxes = _children(os.getpid())
    assert boxes
    for box in boxes:
        os.kill(box, signal.SIGKILL)
    thread.join(30)
    assert results == [b"42\n"]


@pytest.mark.docker
def test_a_container_that_is_killed_costs_no_answer(docker: Sandbox) -> None:
    results: list[bytes] = []
    thread = threading.Thread(target=lambda: results.append(docker.run(SLOW).stdout))
    thread.start()
    time.sleep(0.3)
    mine = [line.split()[0] for line in owned_by(os.getpid())]
    subprocess.run(["docker", "kill", *mine], capture_output=True, check=False)
    thread.join(60)
    assert results == [b"42\n"]


def test_a_batch_whose_sandbox_is_killed_goes_on_in_another(bwrap: Sandbox) -> None:
    printed: list[bytes] = []

    def go_on(result: RunResult) -> bool:
        printed.append(result.stdout)
        if len(printed) == 3:
            for box in _children(os.getpid()):
                os.kill(box, signal.SIGKILL)
        return True

    numbers = range(8)
    bwrap.run_while((Job({"mode": "script", "sources": [f"print({number})"]}) for number in numbers), go_on)
    assert printed == [b"%d\n" % number for number in numbers]


class Breaking:
    """A backend whose sandboxes start but break on the program, or do not start at all any more."""

    name, runs_per_box = "breaking", 100

    def __init__(self, real: BwrapBackend, *, starts: bool) -> None:
        self.real, self.starts, self.started = real, starts, 0

    def start(self) -> Box:
        self.started += 1
        if self.started > 2 and not self.starts:
            raise BoxError("the engine is gone")
        return self.real.start()

    def close(self) -> None:
        pass


def breaking_sandbox(monkeypatch: pytest.MonkeyPatch, *, starts: bool) -> Sandbox:
    need_bwrap()
    settings = SandboxSettings(backend="bwrap")
    backend = Breaking(BwrapBackend(settings, find_image("python")), starts=starts)
    monkeypatch.setattr(runner, "choose_backend", lambda *_: (backend, "for this test"))
    whole = Box.run

    def run(self: Box, job: Job) -> Any:
        if job is not ANSWER:
            return whole(self, job)
        self.close()
        raise BoxError("it broke")

    monkeypatch.setattr(Box, "run", run)
    sandbox = Sandbox(settings)
    sandbox._programs._patience = 1.0
    return sandbox


def test_a_program_that_breaks_two_healthy_sandboxes_is_at_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with breaking_sandbox(monkeypatch, starts=True) as sandbox, pytest.raises(BrokeSandboxError):
        sandbox.run(ANSWER)


def test_an_engine_that_is_gone_is_not_the_programs_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    with breaking_sandbox(monkeypatch, starts=False) as sandbox, pytest.raises(BoxError):
        sandbox.run(ANSWER)


def test_auto_takes_bubblewrap_where_no_docker_engine_answers_and_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    need_bwrap()
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    backend, why = choose_backend(SandboxSettings(), find_image("python"))
    assert backend.name == "bwrap"
    assert "no Docker engine answers" in why


def test_without_any_sandbox_one_sentence_says_what_to_do_and_unsafe_is_marked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxError, match="Install Docker or bubblewrap"):
        choose_backend(SandboxSettings(), find_image("python"))
    with Sandbox(SandboxSettings(unsafe=True)) as sandbox:
        assert "UNSAFE" in sandbox.why
        assert sandbox.run(ANSWER).stdout == b"42\n"
        late = Job({"mode": "script", "sources": ["import os\nos.fork()\nwhile True: pass"]})
        assert sandbox.run(late).killed == "cpu"


def test_a_sandbox_is_replaced_after_so_many_runs() -> None:
    # Five runs: the two canaries of a fresh sandbox and three programs.
    for sandbox in open_sandbox("bwrap", containers=1, runs_per_container=5):
        where = Job({"mode": "script", "sources": ["import os; print(os.getuid() // 100_000)"]})
        ranges = [sandbox.run(where).stdout for _ in range(9)]
    assert len(set(ranges)) == (3 if os.geteuid() == 0 else 1)


OWNER = """
import sys, time
from rloo_verify.sandbox.runner import Sandbox
from rloo_verify.sandbox.settings import SandboxSettings
sandbox = Sandbox(SandboxSettings(backend=sys.argv[1]))
from rloo_verify.sandbox.box import Job
sandbox.run(Job({"mode": "script", "sources": ["print(1)"]}))
print("ready", flush=True)
time.sleep(60)
"""


def start_owner(backend: str) -> "subprocess.Popen[str]":
    owner = subprocess.Popen([sys.executable, "-c", OWNER, backend], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    assert owner.stdout.readline() == "ready\n"
    return owner


@pytest.mark.docker
def test_no_container_outlives_an_owner_that_is_killed() -> None:
    owner = start_owner("docker")
    assert owned_by(owner.pid)
    owner.kill()
    owner.wait()
    # A container that was created and not started yet has no stream whose end could stop it: the next start sweeps it.
    assert eventually(lambda: not owned_by(owner.pid, "status=running"))
    sweep(connect())
    assert eventually(lambda: not owned_by(owner.pid))


def test_no_process_outlives_an_owner_that_is_killed() -> None:
    need_bwrap()
    owner = start_owner("bwrap")
    inside = [pid for child in _children(owner.pid) for pid in [child, *_children(child)]]
    assert inside
    owner.kill()
    owner.wait()
    assert eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in inside))


def _children(pid: int) -> list[int]:
    children = []
    for entry in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(entry.read_text().rpartition(")")[2].split()[1]) == pid:
                children.append(int(entry.parent.name))
    return children
