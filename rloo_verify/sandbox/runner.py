"""Runs jobs: picks the backend, keeps the pools, retries where a sandbox broke, and proves now and then that one works."""

import base64
import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from rloo_verify.errors import SandboxError
from rloo_verify.sandbox.box import Box, BoxError, Job, RunResult, pack, patience_seconds
from rloo_verify.sandbox.bwrap import BwrapBackend, UnsafeBackend
from rloo_verify.sandbox.inside import values
from rloo_verify.sandbox.inside.frames import unpack_all
from rloo_verify.sandbox.pool import Pool
from rloo_verify.sandbox.settings import Image, Limits, SandboxSettings, find_image

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

ATTEMPTS = 3
"""A job is tried on so many sandboxes before it counts as infrastructure trouble."""

CANARY_EVERY = 500
"""Runs of one sandbox between two proofs that it still tells right from wrong."""

_LONGEST_SESSION_MESSAGE = 32 << 20


class Backend(Protocol):
    """What starts sandboxes."""

    name: str
    runs_per_box: int

    def start(self) -> Box:
        """Starts one; raises BoxError."""

    def close(self) -> None:
        """Ends what the backend itself holds."""


class BrokeSandboxError(Exception):
    """A program broke two healthy sandboxes: its fault, not theirs."""


@dataclass(frozen=True, slots=True)
class TestReport:
    """What a test file's process said, and how the program's process ended.

    Attributes:
        report: `passed`, `failed`, `calls`, `detail`, perhaps `needs_live` or `needs_module`; None where the tests'
            process ended without a word.
        tests: How the tests' process ended.
        program: How the program's process ended.
    """

    __test__ = False  # no test for pytest to collect

    report: Mapping[str, Any] | None
    tests: RunResult
    program: RunResult


def choose_backend(settings: SandboxSettings, image: Image) -> tuple[Backend, str]:
    """Opens the backend that the settings name; with `auto`, Docker where it can be used, else bubblewrap.

    Returns:
        The backend, and one sentence that says which it is and why.

    Raises:
        SandboxError: None can be used, and `unsafe` is off.
    """
    from rloo_verify.sandbox.docker import DockerBackend

    openers: dict[str, Callable[[SandboxSettings, Image], Backend]] = {"docker": DockerBackend, "bwrap": BwrapBackend}
    names = ["docker", "bwrap"] if settings.backend == "auto" else [settings.backend]
    reasons: list[str] = []
    for name in names:
        try:
            backend = openers[name](settings, image)
            backend.start().close()
        except (SandboxError, BoxError) as error:
            reasons.append(f"{name}: {error}")
            continue
        why = f" ({'; '.join(reasons)})" if reasons else (" (auto)" if settings.backend == "auto" else "")
        return backend, f"sandbox: {name}{why}"
    if settings.unsafe:
        return UnsafeBackend(settings, image), f"sandbox: UNSAFE, ordinary processes ({'; '.join(reasons)})"
    raise SandboxError(
        f"no sandbox can be started: {'; '.join(reasons)}. Install Docker or bubblewrap; sandbox.unsafe = true runs "
        "programs without protection"
    )


def require_sandbox(fields: Mapping[str, Any]) -> None:
    """Makes sure, before anything expensive, that programs can be run; makes the image where it is missing.

    Args:
        fields: Fields of `SandboxSettings`, as a config has them.

    Raises:
        SandboxError: No sandbox can be started.
    """
    settings = SandboxSettings(**fields)
    backend, why = choose_backend(settings, find_image(settings.image))
    backend.close()
    log.info("%s", why)


class Sandbox:
    """Runs untrusted programs. May be used from any thread; each thread occupies one sandbox at a time.

    Args:
        settings: Backend, image and sizes.

    Raises:
        SandboxError: No sandbox can be started.
        ConfigError: There is no such image.
    """

    def __init__(self, settings: SandboxSettings) -> None:
        self.settings = settings
        self._backend, self.why = choose_backend(settings, find_image(settings.image))
        log.debug("%s", self.why)
        self.backend = self._backend.name
        self._programs = self._pool()
        self._tests: Pool | None = None
        self._lock = threading.Lock()

    def run(self, job: Job) -> RunResult:
        """Runs a job, on another sandbox where one breaks.

        Raises:
            BoxError: Three sandboxes broke or none can be started: infrastructure trouble, says nothing of the program.
            BrokeSandboxError: The program broke two sandboxes that a canary had proved healthy.
        """
        return self._with_retries(lambda box: box.run(job))

    def run_tests(self, tests: Job, program: Job) -> TestReport:
        """Runs a test file in one sandbox against a program in another.

        Raises:
            BoxError: As in `run`.
            BrokeSandboxError: As in `run`.
        """
        with self._lock:
            if self._tests is None:
                self._tests = self._pool()
        pool = self._tests

        def attempt(box: Box) -> TestReport:
            with pool.borrow() as tests_box:
                return _Relay(tests_box, box).run(tests, program)

        return self._with_retries(attempt)

    def close(self) -> None:
        """Ends every sandbox."""
        self._programs.close()
        if self._tests is not None:
            self._tests.close()
        self._backend.close()

    def __enter__(self) -> "Sandbox":
        """Return the sandbox itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close it."""
        self.close()

    def _pool(self) -> Pool:
        return Pool(
            self._backend.start,
            self.settings.containers,
            runs_per_box=self._backend.runs_per_box,
            seconds_per_box=self.settings.seconds_per_container,
        )

    def _with_retries(self, attempt: Callable[[Box], _Result]) -> _Result:
        broken = 0
        for number in range(1, ATTEMPTS + 1):
            healthy = False
            try:
                with self._programs.borrow() as box:
                    if self._backend.runs_per_box > 1 and (number > 1 or box.runs % CANARY_EVERY == 0):
                        prove(box)
                    healthy = True
                    return attempt(box)
            except BoxError as error:
                log.warning("attempt %d of %d: %s", number, ATTEMPTS, error)
                broken += healthy and self._engine_answers()
                if broken >= 2:
                    raise BrokeSandboxError(str(error)) from error
                if number == ATTEMPTS:
                    raise
        raise AssertionError("unreachable")

    def _engine_answers(self) -> bool:
        """Whether a sandbox can be started at this moment: else a broken one is no fault of the program in it."""
        try:
            self._backend.start().close()
        except BoxError:
            return False
        return True


def prove(box: Box) -> None:
    """Runs a known-good and a known-bad program.

    Raises:
        BoxError: One of them did not do what it must.
    """
    call = {"op": "call", "name": "f", "args": [values.encode(20)]}
    for source, expected in (("def f(x): return 2 * x + 2", 42), ("def f(x): return x", 20)):
        result = box.run(Job({"mode": "serve", "sources": [source]}, requests=(call,)))
        found = [json.loads(reply) for reply in unpack_all(result.replies)]
        if [reply.get("value") for reply in found] != [None, values.encode(expected)]:
            raise BoxError(f"{box.stream.name} failed its canary: {found} {result.stderr[-300:]!r}")


class _Relay:
    """Carries calls between the process of a test file and the process of the program."""

    def __init__(self, tests: Box, program: Box) -> None:
        self._tests = tests
        self._program = program
        self._from_tests = bytearray()
        self._from_program = bytearray()
        self._program_end: RunResult | None = None
        self._tests_end: RunResult | None = None

    def run(self, tests: Job, program: Job) -> TestReport:
        """Starts both, relays until the tests report or end, and ends both."""
        self._program.start(program, session=True)
        self._tests.start(tests, session=True)
        deadline = time.monotonic() + patience_seconds(tests.limits) + patience_seconds(program.limits)
        report = None
        loaded = self._next(program=True, limits=program.limits)  # its stage: loaded, or a compile error
        gone = loaded is None or loaded.get("stage") != "loaded"
        while time.monotonic() < deadline:
            request = self._next(program=False, limits=tests.limits)
            if request is None:
                break
            if "report" in request:
                report = request["report"]
                break
            reply = None if gone else self._forward(request, program.limits)
            gone = reply is None
            self._tests.say(pack({"gone": True} if reply is None else reply))
        return self._end(report, tests.limits, program.limits, loaded or {})

    def _forward(self, request: Mapping[str, Any], limits: Limits) -> dict[str, Any] | None:
        """One request to the program and its reply; None where the program is gone."""
        self._program.say(pack(request))
        return self._next(program=True, limits=limits)

    def _next(self, *, program: bool, limits: Limits) -> dict[str, Any] | None:
        """The next message of one of the processes; None where it ended or sent what is no message."""
        box, buffer = (self._program, self._from_program) if program else (self._tests, self._from_tests)
        while not (messages := unpack_all(buffer)):
            if len(buffer) > _LONGEST_SESSION_MESSAGE:
                return None
            event = box.receive(patience_seconds(limits))
            if event.get("event") == "done":
                end = box.result(event)
                if program:
                    self._program_end = end
                else:
                    self._tests_end = end
                return None
            buffer += _bytes_of(event)
        del buffer[: 4 + len(messages[0])]
        try:
            message = json.loads(messages[0])
        except (ValueError, RecursionError):
            return None
        return message if isinstance(message, dict) else None

    def _end(
        self, report: Mapping[str, Any] | None, tests: Limits, program: Limits, loaded: Mapping[str, Any]
    ) -> TestReport:
        if self._tests_end is None:
            self._tests.say(end=True)
            self._tests_end = self._tests.finish(tests)
        if self._program_end is None:
            self._program.say(kill=True)
            self._program_end = self._program.finish(program)
        if loaded.get("stage") == "compile_error":
            report = {"passed": 0, "failed": 1, "compile_error": str(loaded.get("message"))}
        return TestReport(report, self._tests_end, self._program_end)


def _bytes_of(event: Mapping[str, Any]) -> bytes:
    return base64.b64decode(event.get("data", ""))


_PROBE = """\
import os
print(*sorted(int(name) for name in os.listdir("/proc") if name.isdigit()))
print(os.getpid(), os.getppid(), os.getcwd())
print(*os.listdir("/tmp"), *os.listdir("/dev/shm"))
"""


def prove_alive(sandbox: Sandbox) -> str:
    """Looks around inside a sandbox after a run; returns what is there but should not be, or nothing.

    Raises:
        BoxError: No sandbox answers.
    """
    if sandbox.backend == "unsafe":
        return ""
    result = sandbox.run(Job({"mode": "script", "sources": [_PROBE]}))
    try:
        processes, own, files = result.stdout.decode().split("\n")[:3]
        pid, parent, folder = own.split()
    except ValueError:
        return f"the probe said {result.stdout[-200:]!r} {result.stderr[-200:]!r}"
    strangers = set(processes.split()) - {"1", pid, parent}
    left = set(files.split()) - {folder.rpartition("/")[2]}
    findings = [f"processes {sorted(strangers)}"] * bool(strangers) + [f"files {sorted(left)}"] * bool(left)
    return " and ".join(findings)
