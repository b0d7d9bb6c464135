"""The controller's hold on the zygote: starts it, has it make clones, and hands each its order."""

import json
import marshal
import os
import socket
import subprocess
import sys
from itertools import cycle
from typing import Any

_CLONE = b"1"


class Zygote:
    """The zygote's process, and the clone of it that waits for the next order.

    Args:
        command: The command line that starts it.
        source: What it reads first.
        scratch: Where programs put temporary files.
        ahead: Whether the next clone waits while one runs: not where programs share the user of all processes inside.

    Attributes:
        pid: Its process id.
        ahead: Whether there is a run after this one.
        hello: Its greeting: `ready`, `python` and `warnings`, or `error`.
    """

    def __init__(self, command: list[str], source: bytes, scratch: str, *, ahead: bool) -> None:
        self._control, control = socket.socketpair()
        pairs = [socket.socketpair(), socket.socketpair()]  # clones take turns, so that none takes the next one's order
        self._orders = cycle([pair[0] for pair in pairs])
        orders = [pair[1] for pair in pairs]
        process = subprocess.Popen(
            [*command, *(str(end.fileno()) for end in orders)],
            stdin=control.fileno(),
            stdout=2,
            pass_fds=[end.fileno() for end in orders],
            env={**environment(), "TMPDIR": scratch},
        )
        for end in (control, *orders):
            end.close()
        self.pid = process.pid
        self.ahead = ahead
        self._waiting: int | None = None
        self._control.sendall(source)
        reply = self._control.recv(65536)
        self.hello: dict[str, Any] = json.loads(reply) if reply else {"error": "the zygote ended while it started"}
        if "error" not in self.hello:
            self._control.sendall(_CLONE)

    @property
    def waiting(self) -> int:
        """Process id of the clone that waits for an order; 0 where there is none."""
        if self._waiting is None:
            reply = self._control.recv(64)
            if not reply:
                sys.exit("the zygote died")
            self._waiting = int(reply)
        return self._waiting

    def order(self, limits: dict[str, Any], descriptors: list[int]) -> int:
        """Has the waiting clone run a job, and the next one made meanwhile; returns the process id of the first."""
        pid = self.waiting
        socket.send_fds(next(self._orders), [marshal.dumps(limits)], descriptors)
        self._waiting = 0
        if self.ahead:
            self._control.sendall(_CLONE)
            self._waiting = None  # not known before it is asked for
        return pid


def environment() -> dict[str, str]:
    """What programs see: nothing of the host, one thread a numeric library, the same order of sets in every run."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin"))
    return {**one, "PATH": path, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "MALLOC_ARENA_MAX": "2",
            "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip
