"""Completions -> verdicts, in worker processes that may be killed; the one place where an exception becomes ERROR.

    submit --> one queue --> one dispatcher thread per worker process --> Future[Verdict]

What a verdict says of a failure:

| what happened | verdict |
|---|---|
| the checker raised, or returned neither a Verdict nor a bool | ERROR `checker_error` |
| the reference cannot be judged against | ERROR `unusable_reference` |
| the worker process died, twice | ERROR `checker_crashed` |
| CPU or memory limit reached | ERROR `checker_timeout`, `checker_memory` |
| the same, after the checker's `prepare` had read the reference: the answer's fault | FAIL `too_slow`, `too_large` |
| wall-clock limit reached | ERROR `checker_timeout` |

Limits are in CPU time: a loaded machine changes no verdict. The wall-clock limit (`process.wall_limit`) only ends a
checker that waits for something. A limit costs its worker: the process is killed and a fresh one takes its place.
"""

import contextlib
import queue
import threading
import time
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rloo_verify.checkers.process import ClosedError, WorkerDiedError, WorkerProcess, wall_limit
from rloo_verify.errors import VerifyError
from rloo_verify.types import Outcome, Problem, Verdict

MAX_FAILED_STARTS = 3
"""So many failed starts of worker processes in a row end verification."""

_JOIN_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class _Job:
    future: "Future[Verdict]"
    problem: Problem
    text: str


class Verifier:
    """Judges completions in persistent worker processes. May be used from any thread.

    Args:
        folders: Task name, as in `Problem.task`, to the task's folder.
        workers: Worker processes, at least 1; with 2 or more, an answer that hangs does not delay the next one.
        timeout_seconds: CPU time limit of a check, where the task's `[check]` table sets none.
        memory_mib: Address space of a worker process, in MiB.
        sandbox: Where the programs of code tasks run, as fields of `sandbox.settings.SandboxSettings`.

    Raises:
        ValueError: A number is not positive.
    """

    def __init__(
        self,
        folders: Mapping[str, Path],
        *,
        workers: int,
        timeout_seconds: float,
        memory_mib: int = 2048,
        sandbox: Mapping[str, Any] | None = None,
    ) -> None:
        if workers < 1 or timeout_seconds <= 0 or memory_mib < 1:
            raise ValueError("workers, timeout_seconds and memory_mib must be positive")
        self._folders = dict(folders)
        self._timeout_seconds = timeout_seconds
        self._memory_mib = memory_mib
        self._sandbox = dict(sandbox or {})
        self._jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        self._closed = threading.Event()
        self._lock = threading.Lock()
        self._broken: str | None = None
        self._failed_starts = 0
        self._pids: dict[int, int] = {}
        numbers = range(workers)
        self._threads = [threading.Thread(target=self._dispatch, args=(number,), daemon=True) for number in numbers]
        for thread in self._threads:
            thread.start()

    def submit(self, problem: Problem, text: str) -> "Future[Verdict]":
        """Have one completion judged.

        Args:
            problem: The problem; its `task` names the folder and so the checker.
            text: The text of the completion.

        Returns:
            A future of the verdict. It raises VerifyError where the verifier breaks down or is closed, nothing else.

        Raises:
            VerifyError: The task is unknown, the verifier is closed, or workers cannot be started.
        """
        if problem.task not in self._folders:
            known = ", ".join(sorted(self._folders)) or "none"
            raise VerifyError(f"{problem.id}: no checker was given for the task {problem.task!r}; known tasks: {known}")
        job = _Job(Future(), problem, text)
        with self._lock:  # so that no job enters the queue after `close` or a breakdown emptied it
            if self._broken is not None:
                raise VerifyError(self._broken)
            if self._closed.is_set():
                raise VerifyError(f"{problem.id}: the verifier is closed")
            self._jobs.put(job)
        return job.future

    @property
    def worker_pids(self) -> tuple[int, ...]:
        """Process ids of the workers that are up at this moment."""
        with self._lock:
            return tuple(self._pids.values())

    def close(self) -> None:
        """Cancel what is queued, end the workers, and return once they are gone. May be called twice."""
        with self._lock:
            self._closed.set()
            self._empty_queue()
            for _ in self._threads:
                self._jobs.put(None)
        for thread in self._threads:
            thread.join(_JOIN_SECONDS)

    def __enter__(self) -> "Verifier":
        """Return the verifier itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the verifier."""
        self.close()

    def _dispatch(self, index: int) -> None:
        """Keep one worker process busy; runs in a thread of its own."""
        worker: WorkerProcess | None = None
        try:
            while True:
                if worker is None and (worker := self._start(index)) is None:
                    return
                job = self._jobs.get()
                if job is None:
                    return
                if not job.future.set_running_or_notify_cancel():
                    continue
                worker = self._judge_somewhere(index, worker, job)
        finally:
            if worker is not None:
                self._retire(index, worker)

    def _judge_somewhere(self, index: int, worker: WorkerProcess, job: _Job) -> WorkerProcess | None:
        """Fulfil a job's future, on a second worker where the first dies; return the worker to use next, if any."""
        current: WorkerProcess | None = worker if worker.alive else None
        if current is None:  # killed from outside while idle: no fault of this answer
            self._retire(index, worker)
        for last in (False, True):
            if current is None and (current := self._start(index)) is None:
                self._refuse(job)
                return None
            if self._judge(current, job, last=last):
                return current
            self._retire(index, current)
            current = None
            if job.future.done():
                break
        return None

    def _retire(self, index: int, worker: WorkerProcess) -> None:
        with self._lock:
            self._pids.pop(index, None)
        worker.kill()

    def _start(self, index: int) -> WorkerProcess | None:
        """Start a worker process, again where it fails; None where the verifier is closed or has broken down."""
        while not self._closed.is_set() and self._broken is None:
            try:
                worker = WorkerProcess(self._folders, self._memory_mib, self._closed.is_set, self._sandbox)
            except ClosedError:
                return None
            except (WorkerDiedError, OSError) as error:
                self._count_failed_start(error)
                continue
            with self._lock:
                self._failed_starts = 0
                self._pids[index] = worker.pid
            return worker
        return None

    def _count_failed_start(self, error: Exception) -> None:
        with self._lock:
            self._failed_starts += 1
            if self._failed_starts < MAX_FAILED_STARTS or self._broken is not None:
                return
            self._broken = (
                f"verifier workers cannot be started, {self._failed_starts} times in a row: {error}; "
                "what they printed above says why"
            )
            self._empty_queue()
            for _ in self._threads:
                self._jobs.put(None)

    def _empty_queue(self) -> None:
        """Cancel the queued jobs, or fail them where verification broke down. The lock is held."""
        with contextlib.suppress(queue.Empty):
            while True:
                job = self._jobs.get_nowait()
                if job is not None and self._broken is None:
                    job.future.cancel()
                elif job is not None and job.future.set_running_or_notify_cancel():
                    self._refuse(job)

    def _refuse(self, job: _Job) -> None:
        """Fail a running job that nobody will judge."""
        job.future.set_exception(
            VerifyError(self._broken or f"{job.problem.id}: the verifier was closed before this answer was judged")
        )

    def _judge(self, worker: WorkerProcess, job: _Job, *, last: bool) -> bool:
        """Fulfil a job's future; return whether the worker may be used again.

        A death that no limit explains leaves the future open unless this is the `last` try: whether something outside
        killed the worker or the checker crashed on this answer shows on a second worker.
        """
        started = time.monotonic()
        problem = job.problem
        cpu_seconds = worker.timeouts.get(problem.task) or self._timeout_seconds
        request = {"task": problem.task, "text": job.text, "row": problem.row, **_answer_of(problem)}
        alive = True
        try:
            reply, marks = worker.ask(request, cpu_seconds)
            verdict = _verdict_of_reply(reply, marks)
            alive = not reply.get("memory") and not worker.used_up
        except ClosedError:
            self._refuse(job)
            return False
        except WorkerDiedError as death:
            if not (last or death.cpu_limit or death.wall_limit):
                return False
            verdict, alive = _verdict_of_death(death, cpu_seconds), False
        except Exception as error:  # noqa: BLE001 - the one place: whatever else goes wrong is an ERROR verdict
            verdict = Verdict(Outcome.ERROR, "checker_error", f"{type(error).__name__}: {error}")
        job.future.set_result(replace(verdict, seconds=time.monotonic() - started))
        return alive


def _answer_of(problem: Problem) -> dict[str, Any]:
    """The answer, or the name of the column that is the answer: tests of code rows are megabytes, sent once."""
    columns = (name for name, value in problem.row.items() if value is problem.answer)
    column = next(columns, None)
    return {"answer": problem.answer} if column is None else {"answer_column": column}


def _verdict_of_reply(reply: Mapping[str, Any], marks: tuple[str, ...]) -> Verdict:
    match reply["kind"]:
        case "verdict":
            fields = reply["verdict"]
            return Verdict(**{**fields, "outcome": Outcome(fields["outcome"])})
        case "bad_result":
            what = f"the checker returned a value of type {reply['type']}; it must return a Verdict or a bool"
            return Verdict(Outcome.ERROR, "checker_error", what)
        case "unusable_reference":
            return Verdict(Outcome.ERROR, "unusable_reference", reply["message"])
    if reply["memory"]:
        if "reference_ok" in marks:
            return Verdict(Outcome.FAIL, "too_large", "judging this answer took more memory than a worker may use")
        return Verdict(Outcome.ERROR, "checker_memory", "the checker took more memory than a worker may use")
    return Verdict(Outcome.ERROR, "checker_error", f"{reply['type']}: {reply['message']}")


def _verdict_of_death(death: WorkerDiedError, cpu_seconds: float) -> Verdict:
    if death.cpu_limit and "reference_ok" in death.marks:
        return Verdict(Outcome.FAIL, "too_slow", f"judging this answer took more than {cpu_seconds:g} s of CPU time")
    if death.cpu_limit:
        return Verdict(Outcome.ERROR, "checker_timeout", f"the checker took more than {cpu_seconds:g} s of CPU time")
    if death.wall_limit:
        waited = wall_limit(cpu_seconds)
        return Verdict(Outcome.ERROR, "checker_timeout", f"the checker gave no verdict within {waited:g} s")
    return Verdict(Outcome.ERROR, "checker_crashed", str(death))
