"""The trainer's end of one worker process: start it, ask it, end it. One thread at a time uses one `WorkerProcess`."""

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from datetime import date
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

START_SECONDS = 120.0
"""A worker that is not ready by then failed to start (importing sympy takes about a second on a quiet machine)."""

CHECKS_PER_WORKER = 5_000
"""A worker is replaced after so many checks: what checkers leak, caches included, stays bounded."""

_POLL_SECONDS = 0.25
_DYING_SECONDS = 5.0
_PACKAGE_PARENT = str(Path(__file__).resolve().parents[2])
# Like `-m rloo_verify.checkers.worker`, but a random.py in the current folder shadows nothing (-P), and a package that
# is not installed, only imported from where it lies, is found.
_BOOT = "import sys; sys.path.append(sys.argv[2]); from rloo_verify.checkers.worker import main; main()"


def wall_limit(cpu_seconds: float) -> float:
    """The wall-clock limit of a check in seconds: four times its CPU limit, and two seconds for a loaded machine."""
    return 4.0 * cpu_seconds + 2.0


class WorkerDiedError(Exception):
    """A worker process ended or was ended; `how` says which way, `marks` what it had reported before."""

    def __init__(
        self, how: str, *, cpu_limit: bool = False, wall_limit: bool = False, marks: tuple[str, ...] = ()
    ) -> None:
        super().__init__(how)
        self.cpu_limit = cpu_limit
        self.wall_limit = wall_limit
        self.marks = marks


class ClosedError(Exception):
    """The verifier was closed while a worker was being waited for."""


class WorkerProcess:
    """A started and warmed-up worker.

    Args:
        folders: Task name to task folder; the worker loads all of them before it is ready.
        memory_mib: Address space of the worker.
        is_closed: Asked several times a second while waiting.
        sandbox: Fields of `sandbox.settings.SandboxSettings`, for tasks that run programs.

    Raises:
        WorkerDiedError: The process could not be started or did not get ready.
        ClosedError: `is_closed` said so first.
    """

    def __init__(
        self,
        folders: Mapping[str, Path],
        memory_mib: int,
        is_closed: Callable[[], bool],
        sandbox: Mapping[str, Any] | None = None,
    ) -> None:
        self._is_closed = is_closed
        self._checks = 0
        ours, theirs = socket.socketpair()
        self._connection = Connection(ours.detach())
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-c", _BOOT, str(theirs.fileno()), _PACKAGE_PARENT],
                pass_fds=(theirs.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                env=_environment(),
            )
        except OSError as error:
            self._connection.close()
            raise WorkerDiedError(f"{sys.executable} cannot be started: {error}") from error
        finally:
            theirs.close()
        try:
            places = {name: str(folder) for name, folder in folders.items()}
            self._send({"folders": places, "memory_mib": memory_mib, "sandbox": dict(sandbox or {})})
            ready = self._receive(time.monotonic() + START_SECONDS, ())
        except BaseException:
            self.kill()
            raise
        self.timeouts: dict[str, float | None] = ready["timeouts"]

    @property
    def alive(self) -> bool:
        """Whether the process still runs. Does not reap it, so `kill` may still address its session."""
        if self._process.returncode is not None:
            return False
        return os.waitid(os.P_PID, self._process.pid, os.WEXITED | os.WNOWAIT | os.WNOHANG) is None

    @property
    def used_up(self) -> bool:
        """Whether it is time to replace this worker."""
        return self._checks >= CHECKS_PER_WORKER

    @property
    def pid(self) -> int:
        """Process id, which is also the id of the session that the worker leads."""
        return self._process.pid

    def ask(self, request: Mapping[str, Any], cpu_seconds: float) -> tuple[dict[str, Any], tuple[str, ...]]:
        """Have one answer checked.

        Args:
            request: `task`, `text`, `row`, and `answer` or the name of its column, `answer_column`.
            cpu_seconds: The CPU time limit; `wall_limit` follows from it.

        Returns:
            The worker's reply and the marks it reported on the way.

        Raises:
            WorkerDiedError: The worker ended. Its process is reaped; this object is of no further use.
            ClosedError: The verifier was closed meanwhile.
            TypeError, ValueError: The request cannot be written as JSON.
        """
        payload = _to_json({**request, "cpu_seconds": cpu_seconds})
        deadline = time.monotonic() + wall_limit(cpu_seconds)
        marks: tuple[str, ...] = ()
        self._checks += 1
        try:
            self._connection.send_bytes(payload)
        except OSError:
            raise self._death(marks) from None
        while True:
            reply = self._receive(deadline, marks)
            if reply["kind"] != "mark":
                return reply, marks
            marks = (*marks, reply["mark"])

    def kill(self) -> None:
        """End the process, and whatever a checker started in its session; returns once it is reaped."""
        if self._process.returncode is None:  # not reaped yet: the id cannot belong to anybody else
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._connection.close()

    def _send(self, message: Mapping[str, Any]) -> None:
        try:
            self._connection.send_bytes(_to_json(message))
        except OSError:
            raise self._death(()) from None

    def _receive(self, deadline: float, marks: tuple[str, ...]) -> dict[str, Any]:
        while not self._poll(deadline):
            if self._is_closed():
                raise ClosedError
            if time.monotonic() >= deadline:
                self.kill()
                raise WorkerDiedError("no reply within the wall-clock limit", wall_limit=True, marks=marks)
        try:
            reply: dict[str, Any] = json.loads(self._connection.recv_bytes())
        except (EOFError, OSError, ValueError):
            raise self._death(marks) from None
        return reply

    def _poll(self, deadline: float) -> bool:
        return self._connection.poll(max(0.0, min(_POLL_SECONDS, deadline - time.monotonic())))

    def _death(self, marks: tuple[str, ...]) -> WorkerDiedError:
        """Reap a worker whose socket closed and say how it ended."""
        patience = time.monotonic() + _DYING_SECONDS
        while self.alive and time.monotonic() < patience:  # the socket closes a moment before the process ends
            time.sleep(0.005)
        self.kill()
        code = self._process.returncode
        if code == -signal.SIGPROF:
            return WorkerDiedError("the CPU time limit was reached", cpu_limit=True, marks=marks)
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit code {code}"
        return WorkerDiedError(f"the worker process ended with {how}", marks=marks)


def _environment() -> dict[str, str]:
    one_thread = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    # A fixed hash seed: the order of sets, and so what sympy does, is the same in every worker.
    return {**os.environ, **one_thread, "PYTHONHASHSEED": "0"}


def _to_json(message: Mapping[str, Any]) -> bytes:
    return json.dumps(message, default=_plain).encode("ascii")


def _plain(value: Any) -> Any:
    """What JSON lacks: dates become text, sets lists, numpy scalars numbers and arrays lists."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("utf-8", "surrogateescape")
    if isinstance(value, set | frozenset):
        return sorted(value)
    if isinstance(value, Mapping):
        return dict(value)
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"a value of type {type(value).__name__} cannot be sent to a checker: {str(value)[:80]!r}")
