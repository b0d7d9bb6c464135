"""The process that runs checkers: started by `rloo_verify.checkers.process` with a socket's number as argument.

It reads one JSON request at a time from the socket FD and answers each with one JSON reply. What it does to itself:

- CPU time per request is limited by a profiling timer whose signal keeps its default action, which ends the process,
  whatever Python is doing; memory by RLIMIT_AS.
- stdout goes nowhere, so a checker's `print` cannot garble anything; stderr is the trainer's.
- It is a session of its own: Ctrl-C in the terminal does not reach it. It ends when the socket closes or the parent
  dies.

It must not import torch or transformers: it would cost seconds and gigabytes per worker.
"""

import contextlib
import json
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any

from rloo_verify.checkers import Checker, UnusableReferenceError, load
from rloo_verify.sandbox.settings import SandboxSettings, use_settings
from rloo_verify.types import Outcome, Verdict

_LONGEST_TEXT = 1_000
_WATCH_SECONDS = 1.0


class LoadedTask:
    """A task's checker with its options, as a worker keeps it."""

    def __init__(self, folder: str) -> None:
        from rloo_verify.tasks import find_task  # here, because tasks imports checkers

        task = find_task(folder)
        # Not task.load_checker(): it binds the options, which hides the attributes of the function.
        self.checker: Checker = load(task.spec.check.checker, task.folder)
        self.options: Mapping[str, Any] = task.spec.check.options
        own: float | None = getattr(self.checker, "timeout_seconds", None)
        self.timeout_seconds = task.spec.check.timeout_seconds or own
        warm_up = getattr(self.checker, "warm_up", None)
        if warm_up is not None:
            warm_up()


def main() -> None:
    """Serve requests until the socket closes."""
    connection = Connection(int(sys.argv[1]))
    threading.Thread(target=_exit_with_parent, args=(os.getppid(),), daemon=True).start()
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    try:
        setup = json.loads(connection.recv_bytes())
        use_settings(SandboxSettings(**setup["sandbox"]))
        tasks, failures = _load_all(setup["folders"])
        _limit_memory(setup["memory_mib"])
        timeouts = {name: task.timeout_seconds for name, task in tasks.items()}
        _send(connection, {"kind": "ready", "timeouts": timeouts})
        while True:
            request = json.loads(connection.recv_bytes())
            if request["task"] in failures:
                _send(connection, failures[request["task"]])
            else:
                _serve(connection, tasks[request["task"]], request)
    except (EOFError, ConnectionError):
        return  # the trainer closed the socket, or is gone


def _load_all(folders: Mapping[str, str]) -> tuple[dict[str, LoadedTask], dict[str, dict[str, Any]]]:
    """Load every task before the first request, so that imports are billed to nobody's time limit."""
    tasks: dict[str, LoadedTask] = {}
    failures: dict[str, dict[str, Any]] = {}
    for name, folder in folders.items():
        try:
            tasks[name] = LoadedTask(folder)
        except Exception as error:  # noqa: BLE001 - reported with every answer of this task
            failures[name] = _exception(error)
    return tasks, failures


def _serve(connection: Connection, task: LoadedTask, request: Mapping[str, Any]) -> None:
    signal.setitimer(signal.ITIMER_PROF, request["cpu_seconds"])
    try:
        row = request["row"]
        answer = row[request["answer_column"]] if "answer_column" in request else request["answer"]
        prepare = getattr(task.checker, "prepare", None)
        if prepare is not None:
            prepare(answer, **task.options)
            _send(connection, {"kind": "mark", "mark": "reference_ok"})
        reply = _reply(task.checker(request["text"], answer, row, **task.options))
    except BaseException as error:  # noqa: BLE001 - the parent makes an ERROR verdict of it; SystemExit included
        reply = _exception(error)
    signal.setitimer(signal.ITIMER_PROF, 0)
    _send(connection, reply)


def _reply(result: object) -> dict[str, Any]:
    if isinstance(result, bool):
        result = Verdict(Outcome.PASS, "correct") if result else Verdict(Outcome.FAIL, "wrong_answer")
    if not isinstance(result, Verdict):
        return {"kind": "bad_result", "type": type(result).__name__}
    verdict = asdict(result)
    verdict["detail"] = result.detail[:_LONGEST_TEXT]
    verdict["answer"] = None if result.answer is None else result.answer[:_LONGEST_TEXT]
    return {"kind": "verdict", "verdict": verdict}


def _exception(error: BaseException) -> dict[str, Any]:
    with contextlib.suppress(Exception):  # an exception whose __str__ raises is still an exception
        message = str(error)[:_LONGEST_TEXT]
        kind = "unusable_reference" if isinstance(error, UnusableReferenceError) else "exception"
        memory = isinstance(error, MemoryError)
        return {"kind": kind, "type": type(error).__name__, "message": message, "memory": memory}
    return {"kind": "exception", "type": type(error).__name__, "message": "", "memory": False}


def _send(connection: Connection, message: Mapping[str, Any]) -> None:
    # ASCII escapes carry lone surrogates, which UTF-8 cannot.
    connection.send_bytes(json.dumps(message).encode("ascii"))


def _limit_memory(memory_mib: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    size = memory_mib * 1024 * 1024
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    size = size if hard < 0 else min(size, hard)
    # The soft limit alone: bubblewrap's programs are children of this process, get limits of their own, and could not
    # have more than its hard one.
    resource.setrlimit(resource.RLIMIT_AS, (size, hard))


def _exit_with_parent(parent: int) -> None:
    """End this process and whatever a checker started, once the trainer is gone, even in the middle of a check."""
    while os.getppid() == parent:
        time.sleep(_WATCH_SECONDS)
    os.killpg(0, signal.SIGKILL)  # the session that this process leads


if __name__ == "__main__":
    main()
