"""The host's end of one running sandbox: one attached stream, length-prefixed JSON both ways, one run at a time."""

import base64
import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from rloo_verify.sandbox.settings import Limits

START_SECONDS = 60.0
_LOAD_FACTOR = 6.0  # as in inside/run.py
_PATIENCE_SECONDS = 20.0
_LARGEST_FRAME = 256 << 20
_SENT_AHEAD = 2
_SMALL_REQUEST = 16 << 10  # pipes take so many of them whole


class Stream(Protocol):
    """A duplex byte stream to the first process of a sandbox."""

    def send(self, data: bytes) -> None:
        """Writes all of `data`; raises OSError where the other end is gone."""

    def receive(self, seconds: float) -> bytes:
        """Some bytes, b"" at the end; raises TimeoutError."""

    def close(self) -> None:
        """Ends the sandbox and everything in it. May be called twice; never raises."""

    @property
    def name(self) -> str:
        """What to call this sandbox in messages."""


class BoxError(Exception):
    """The sandbox broke: it ended, does not answer, or answers nonsense. Says nothing of the program."""


@dataclass(frozen=True, slots=True)
class Job:
    """One run of a program.

    Attributes:
        what: The job for `inside/program.py` or `inside/tests.py`.
        stdin: Standard input.
        requests: Messages that the program's channel holds from the start.
        limits: What the run may use.
    """

    what: Mapping[str, Any]
    stdin: bytes = b""
    requests: tuple[Mapping[str, Any], ...] = ()
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended.

    Attributes:
        exit: Exit status, None where a signal ended it.
        signal: The signal that ended it.
        killed: The limit that ended it: `cpu`, `wall`, `memory`, `output`; or None.
        cpu: CPU time in seconds.
        wall: Wall time in seconds.
        peak_mib: Highest resident memory in MiB.
        stdout: Standard output.
        stderr: Standard error.
        replies: What the program sent over its channel, undecoded.
        leftovers: Whether processes of the program had to be killed after its end.
    """

    exit: int | None
    signal: int | None
    killed: str | None
    cpu: float
    wall: float
    peak_mib: float
    stdout: bytes
    stderr: bytes
    replies: bytes
    leftovers: bool


class Box:
    """One sandbox that has started.

    Args:
        stream: To its first process.
        boot: What that process reads first (`bundle.bundle`).

    Attributes:
        runs: How many were started in it.
        born: When it started, on the monotonic clock.
        proved: `runs` when a canary last proved it healthy; None before.
        anomaly: What a run left that cannot be removed; it must not be used again.

    Raises:
        BoxError: It did not start; the message says what it printed.
    """

    def __init__(self, stream: Stream, boot: bytes) -> None:
        self.stream = stream
        self.runs = 0
        self.born = time.monotonic()
        self.proved: int | None = None
        self.anomaly: str | None = None
        self._buffer = bytearray()
        try:
            self._send(boot)
            hello = self.receive(START_SECONDS)
            if "error" in hello:
                raise BoxError(f"{stream.name} cannot start: {hello['error']}")
        except BaseException:
            stream.close()
            raise
        self.python = str(hello.get("python", ""))

    def run(self, job: Job) -> RunResult:
        """Runs a job to its end.

        Raises:
            BoxError: The sandbox broke; it must not be used again.
        """
        self.start(job, session=False)
        return self.finish(job.limits)

    def run_while(self, jobs: Iterator[Job], go_on: Callable[[RunResult], bool]) -> None:
        """Runs jobs one after the other until they end, `go_on` says no, or one leaves an anomaly.

        While one runs, the next wait in the sandbox already: none behind the first, one behind the second, and so on,
        since a program that passed some tests rarely fails the next. Large requests do not go ahead: they might wait
        for the controller to read them, which might wait for this side to read a result.

        Raises:
            BoxError: The sandbox broke; it must not be used again.
        """
        sent: deque[Job] = deque()
        results = 0
        for job in jobs:
            request = self._request(job, session=False)
            window = min(results, _SENT_AHEAD) if len(request) <= _SMALL_REQUEST else 0
            while len(sent) > window:
                results += 1
                if not self._take(sent, go_on):
                    return
            self.runs += 1
            self._send(request)
            sent.append(job)
        while sent and self._take(sent, go_on):
            continue

    def _take(self, sent: "deque[Job]", go_on: Callable[[RunResult], bool]) -> bool:
        """Waits for the first of the jobs that were sent; where that was the last to be judged, ends the others."""
        result = self.finish(sent.popleft().limits)
        if go_on(result) and self.anomaly is None:
            return True
        while sent:
            self.say(kill=True)
            self.finish(sent.popleft().limits)
        return False

    def start(self, job: Job, *, session: bool) -> None:
        """Starts a job. In a session the program's channel stays open: `say`, `receive`, then `finish`."""
        self.runs += 1
        self._send(self._request(job, session=session))

    def _request(self, job: Job, *, session: bool) -> bytes:
        encoded = b"".join(pack(message) for message in job.requests)
        return pack(
            {
                "job": dict(job.what),
                "stdin": _base64(job.stdin),
                "channel": _base64(encoded),
                "session": session,
                "limits": job.limits.as_request(),
            }
        )

    def say(self, data: bytes = b"", *, end: bool = False, kill: bool = False) -> None:
        """Sends bytes to the channel of a session's program, closes the channel, or kills the program."""
        self._send(pack({"data": _base64(data), "end": end, "kill": kill}))

    def finish(self, limits: Limits) -> RunResult:
        """Waits for the end of a job.

        Raises:
            BoxError: The sandbox broke, or could not set the program up.
        """
        patience = patience_seconds(limits)
        while (message := self.receive(patience)).get("event") != "done":
            continue
        return self.result(message)

    def result(self, message: Mapping[str, Any]) -> RunResult:
        """Reads a `done` message."""
        if message["failure"]:
            raise BoxError(f"{self.stream.name} could not set a program up: {message['failure']}")
        self.anomaly = message["anomaly"]
        decoded = {name: base64.b64decode(message[name]) for name in ("stdout", "stderr", "channel")}
        return RunResult(
            exit=message["exit"],
            signal=message["signal"],
            killed=message["killed"],
            cpu=message["cpu"],
            wall=message["wall"],
            peak_mib=message["peak_kib"] / 1024,
            stdout=decoded["stdout"],
            stderr=decoded["stderr"],
            replies=decoded["channel"],
            leftovers=message["leftovers"],
        )

    def receive(self, seconds: float) -> dict[str, Any]:
        """The next message of the controller.

        Raises:
            BoxError: None came in time, or the stream ended.
        """
        deadline = time.monotonic() + seconds
        while True:
            size = int.from_bytes(self._buffer[:4], "big") if len(self._buffer) >= 4 else None
            if size is not None and size > _LARGEST_FRAME:
                raise BoxError(f"{self.stream.name} sent nonsense")
            if size is not None and len(self._buffer) >= 4 + size:
                body = bytes(self._buffer[4 : 4 + size])
                del self._buffer[: 4 + size]
                try:
                    message: dict[str, Any] = json.loads(body)
                except ValueError as error:
                    raise BoxError(f"{self.stream.name} sent nonsense: {error}") from error
                return message
            try:
                data = self.stream.receive(max(0.0, deadline - time.monotonic()))
            except TimeoutError:
                raise BoxError(f"{self.stream.name} did not answer within {seconds:.0f} s") from None
            except OSError as error:
                raise BoxError(f"{self.stream.name} is gone: {error}") from error
            if not data:
                raise BoxError(f"{self.stream.name} ended")
            self._buffer += data

    def close(self) -> None:
        """Ends the sandbox and everything in it."""
        self.stream.close()

    def _send(self, data: bytes) -> None:
        try:
            self.stream.send(data)
        except OSError as error:
            raise BoxError(f"{self.stream.name} is gone: {error}") from error


def patience_seconds(limits: Limits) -> float:
    """How long the host waits for a message of a run before it calls the sandbox broken."""
    wall: float = limits.as_request()["wall_seconds"]
    return _LOAD_FACTOR * wall + _PATIENCE_SECONDS


def pack(message: Mapping[str, Any]) -> bytes:
    """A message as bytes: four bytes of length, big-endian, then ASCII JSON."""
    body = json.dumps(message, separators=(",", ":")).encode("ascii")
    return len(body).to_bytes(4, "big") + body


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")
