"""Runs jobs: picks the backend, keeps the pools, retries where a sandbox broke, proves now and then that one works."""

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol, TypeVar

from rloo_verify.errors import SandboxError
from rloo_verify.sandbox.batch import Batch
from rloo_verify.sandbox.box import Box, BoxError, Job, RunResult
from rloo_verify.sandbox.bwrap import BwrapBackend, UnsafeBackend
from rloo_verify.sandbox.canary import prove
from rloo_verify.sandbox.pool import Pool
from rloo_verify.sandbox.relay import Relay, TestReport
from rloo_verify.sandbox.settings import Image, SandboxSettings, find_image

log = logging.getLogger(__name__)

_Result = TypeVar("_Result")

ATTEMPTS = 3
"""A job is tried on so many sandboxes before it counts as infrastructure trouble."""

CANARY_EVERY = 500
"""Runs of one sandbox between two proofs that it still tells right from wrong."""


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

    def run_while(self, jobs: Iterable[Job], go_on: Callable[[RunResult], bool]) -> None:
        """Runs jobs in their order until `go_on`, which is called with each result, says no.

        The next one is sent to the sandbox while one runs, which is faster than `run` one by one. Where a sandbox
        breaks, it goes on with another.

        Raises:
            BoxError: As in `run`.
            BrokeSandboxError: As in `run`.
        """
        batch = Batch(jobs, go_on)
        if self._backend.runs_per_box == 1:  # nothing can be sent ahead
            while not batch.ended and (job := next(batch.issue(), None)):
                batch.judge(self.run(job))
            return
        while not batch.ended:
            try:
                with self._programs.borrow() as box:
                    self._prove_if_due(box)
                    box.run_while(batch.issue(), batch.judge)
                    if box.anomaly is None:
                        return
            except BoxError as error:
                log.warning("the tests go on in another sandbox: %s", error)
                job = next(batch.issue(), None)
                if job is None:
                    return
                batch.judge(self.run(job))

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
                return Relay(tests_box, box).run(tests, program)

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
                    self._prove_if_due(box, again=number > 1)
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

    def _prove_if_due(self, box: Box, *, again: bool = False) -> None:
        """Runs the canaries in a sandbox that is fresh, or has run much since, or after trouble (`again`)."""
        due = box.proved is None or box.runs - box.proved >= CANARY_EVERY
        if self._backend.runs_per_box > 1 and (due or again):
            prove(box)

    def _engine_answers(self) -> bool:
        """Whether a sandbox can be started at this moment: else a broken one is no fault of the program in it."""
        try:
            self._backend.start().close()
        except BoxError:
            return False
        return True
