"""The controller's hold on the zygote: starts it, hands it orders, takes its reports."""

import json
import marshal
import os
import socket
import subprocess
import sys
from typing import Any


class Zygote:
    """The zygote's process.

    Args:
        command: The command line that starts it.
        source: What it reads first.
        scratch: Where programs put temporary files.

    Attributes:
        pid: Its process id.
        waiting: Process id of the fork that takes the next order; 0 while one runs.
        hello: Its greeting: `ready`, `python` and `warnings`, or `error`.
    """

    def __init__(self, command: list[str], source: bytes, scratch: str) -> None:
        self.connection, theirs = socket.socketpair()
        process = subprocess.Popen(
            command, stdin=theirs.fileno(), stdout=2, close_fds=True, env={**environment(), "TMPDIR": scratch}
        )
        theirs.close()
        self.pid = process.pid
        self.connection.sendall(source)
        reply = self.connection.recv(65536)
        self.hello: dict[str, Any] = json.loads(reply) if reply else {"error": "the zygote ended while it started"}
        self.waiting: int = self.hello.pop("next", 0)

    def order(self, limits: dict[str, Any], descriptors: list[int]) -> int:
        """Has the waiting fork run a job; returns its process id."""
        socket.send_fds(self.connection, [marshal.dumps(limits)], descriptors)
        pid, self.waiting = self.waiting, 0
        return pid

    def report(self) -> dict[str, Any]:
        """How the fork ended: `status`, `cpu`, `peak_kib`, `failure`; there is one report an order."""
        data = self.connection.recv(65536)
        if not data:
            sys.exit("the zygote died")
        waiting, status, cpu, peak_kib, failure = data.decode().split(" ", 4)
        self.waiting = int(waiting)
        return {"status": int(status), "cpu": float(cpu), "peak_kib": int(peak_kib), "failure": failure}

    def known(self) -> set[int]:
        """The processes that are no run's: the controller, the zygote, and the fork that waits."""
        return {os.getpid(), self.pid, self.waiting}


def environment() -> dict[str, str]:
    """What programs see: nothing of the host, one thread a numeric library, the same order of sets in every run."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin"))
    return {**one, "PATH": path, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "MALLOC_ARENA_MAX": "2",
            "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
