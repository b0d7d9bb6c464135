"""The first process of a sandbox: reads requests from descriptor 0, has the zygote fork each, guards it, cleans up.

One request at a time; those that come meanwhile wait here. A request carries one program and the input of one test;
expected outputs never come here. What happens to the fork:

- CPU time, wall time, memory and output are watched from outside; wall time that the program spent waiting for a core
  on a loaded machine does not count, up to `_LOAD_FACTOR` times the limit.
- When its first process ends, every other process of the sandbox is killed, and every file that it left is removed.
- Its user id is never used again.

Replies go to descriptor 1: `data` while a session runs, then one `done`.
"""

import base64
import marshal
import os
import selectors
import signal
import socket
import sys
import time
from collections import deque
from typing import Any

from . import frames, seccomp
from .cleanup import clean
from .forks import Zygote
from .processes import Processes, readable_file, waited_for_core

OUTPUTS = ("stdout", "stderr", "channel")

_TICK = 0.01
_LOAD_FACTOR = 6.0
_CHUNK = 1 << 16


def main(settings: dict[str, Any], boot: tuple[list[str], bytes]) -> None:
    """Serves requests until descriptor 0 closes.

    Args:
        settings: `preimport`, `seccomp`, `uid_base` (0: no users of their own), `isolated` (whether this process is
            the first of a process namespace of its own), `scratch`, `work` (the folder of each run in turn),
            `writable`.
        boot: The command line that starts the zygote, and what it reads first.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for folder in settings["writable"]:
        os.chmod(folder, 0o1777)  # whatever the image and the engine made of it
    if settings["isolated"] and not settings["uid_base"]:
        seccomp.Filter().set_dumpable(False)  # the tests are the same user: /proc must not open this process to them
    zygote = Zygote(*boot, settings["scratch"])
    frames.write(1, zygote.hello)
    if "error" in zygote.hello:
        return
    runs = 0
    waiting: deque[dict[str, Any]] = deque()
    while (request := waiting.popleft() if waiting else frames.read(0)) is not None:
        if "job" not in request:  # a word to a run that has ended meanwhile
            continue
        runs += 1
        uid = settings["uid_base"] and settings["uid_base"] + runs
        frames.write(1, Run(request, settings, zygote, uid, waiting).result())


class Run:
    """One fork from request to result.

    Args:
        request: `job`, `stdin` and `channel` (base64), `session`, `limits`.
        settings: As for `main`.
        zygote: What forks it.
        uid: Its own user, or 0.
        waiting: Where requests go that come while it lasts.
    """

    def __init__(
        self,
        request: dict[str, Any],
        settings: dict[str, Any],
        zygote: Zygote,
        uid: int,
        waiting: deque[dict[str, Any]],
    ) -> None:
        self.request = request
        self.settings = settings
        self.zygote = zygote
        self.waiting = waiting
        self.limits = request["limits"]
        self.processes = Processes(zygote, uid, settings["isolated"])
        self.report: dict[str, Any] | None = None
        self.killed: str | None = None
        self.started = 0.0
        self.to_channel = bytearray(base64.b64decode(request["channel"]))
        self.end_channel = not request["session"]
        self.out = {name: bytearray() for name in OUTPUTS}
        self.selector = selectors.DefaultSelector()

    def result(self) -> dict[str, Any]:
        """Forks, watches, cleans up; returns the `done` message."""
        channel = self.start()
        try:
            self.watch(channel)
            leftovers = self.processes.kill_everything()
            self.drain()
        finally:
            for key in list(self.selector.get_map().values()):
                if key.data in OUTPUTS:
                    close(key)
            self.selector.close()
        anomaly = clean(self.settings["writable"], self.settings["work"])
        if leftovers:
            anomaly = anomaly or self.processes.survivors()
        assert self.report is not None
        status = self.report["status"]
        return {
            "event": "done",
            "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "killed": self.killed,
            "failure": self.report["failure"],
            "cpu": self.report["cpu"] + self.processes.cpu,
            "wall": time.monotonic() - self.started,
            "peak_kib": self.report["peak_kib"],
            "leftovers": leftovers,
            "anomaly": anomaly,
            **{name: base64.b64encode(data).decode("ascii") for name, data in self.out.items()},
        }

    def start(self) -> socket.socket:
        """Hands the fork its descriptors: input and job as read-only files, outputs as pipes, the channel."""
        stdin = readable_file(base64.b64decode(self.request["stdin"]))
        job = readable_file(marshal.dumps(self.request["job"]))
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        ours, theirs = socket.socketpair()
        given = [stdin, out_write, err_write, job, theirs.fileno()]
        self.started = time.monotonic()
        self.processes.pid = self.zygote.order({**self.limits, "uid": self.processes.uid}, given)
        for fd in given[:4]:
            os.close(fd)
        theirs.close()
        for fd in (out_read, err_read, ours.fileno()):
            os.set_blocking(fd, False)
        watched: tuple[tuple[Any, str], ...] = ((out_read, "stdout"), (err_read, "stderr"), (ours, "channel"))
        for fd, name in (*watched, (self.zygote.connection, "zygote"), (0, "host")):
            self.selector.register(fd, selectors.EVENT_READ, name)
        return ours

    def watch(self, channel: socket.socket) -> None:
        """Moves bytes and checks limits until the zygote reports the end."""
        next_check = time.monotonic() + _TICK
        while self.report is None:
            self.feed(channel)
            for key, _ in self.selector.select(max(0.0, min(_TICK, next_check - time.monotonic()))):
                self.on_readable(key)
            if time.monotonic() >= next_check:
                if self.killed is None:
                    self.check_limits()
                elif self.report is None:
                    self.processes.kill_everything()
                next_check = time.monotonic() + _TICK

    def feed(self, channel: socket.socket) -> None:
        """Writes what the host sent for the program, as far as the socket takes it."""
        try:
            while self.to_channel:
                sent = channel.send(self.to_channel[:_CHUNK])
                del self.to_channel[:sent]
            if self.end_channel:
                channel.shutdown(socket.SHUT_WR)
                self.end_channel = False
        except BlockingIOError:
            return
        except OSError:  # the program closed its end
            self.to_channel.clear()
            self.end_channel = False

    def on_readable(self, key: selectors.SelectorKey) -> None:
        """Takes what one of the descriptors has."""
        if key.data == "zygote":
            self.report = self.zygote.report()
        elif key.data == "host":
            self.hear(frames.read(0))
        else:
            self.take_output(key)

    def hear(self, message: dict[str, Any] | None) -> None:
        """Takes a message of the host: a word to this run, the next request, or the end."""
        if message is None:  # the owner is gone, or gives up this sandbox
            self.processes.kill_everything()
            sys.exit(0)
        if "job" in message:
            self.waiting.append(message)
            return
        if message.get("kill"):
            self.kill("host")
        self.to_channel += base64.b64decode(message.get("data", ""))
        self.end_channel = message.get("end", False)

    def take_output(self, key: selectors.SelectorKey) -> None:
        """Reads one of the program's outputs; over its cap the program is killed."""
        try:
            data = os.read(key.fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(key.fileobj)
            close(key)
            return
        if key.data == "channel" and self.request["session"]:
            frames.write(1, {"event": "data", "data": base64.b64encode(data).decode("ascii")})
            return
        kept = self.out[key.data]
        cap = self.limits["output_bytes"] if key.data != "channel" else self.limits["value_bytes"]
        if len(kept) + len(data) > cap:
            self.kill("output")
        kept += data[: max(0, cap - len(kept))]

    def drain(self) -> None:
        """Reads what is left in the pipes of a program that has ended."""
        while events := self.selector.select(0):
            readable = [key for key, _ in events if key.data in OUTPUTS]
            if not readable:
                return
            for key in readable:
                self.take_output(key)

    def check_limits(self) -> None:
        """Kills the program over a limit. Only what the kernel counted is asked, so load changes nothing."""
        self.processes.reap_orphans()
        pids = self.processes.pids()
        cpu, resident = self.processes.usage(pids)
        wall = time.monotonic() - self.started
        if cpu > self.limits["cpu_seconds"]:
            self.kill("cpu")
        elif resident > self.limits["memory_mib"] << 20:
            self.kill("memory")
        elif wall > self.limits["wall_seconds"]:
            starved = waited_for_core(pids)
            if wall - starved > self.limits["wall_seconds"] or wall > _LOAD_FACTOR * self.limits["wall_seconds"]:
                self.kill("wall")

    def kill(self, why: str) -> None:
        """Kills the program because of a limit."""
        self.killed = self.killed or why
        self.processes.kill_everything()


def close(key: selectors.SelectorKey) -> None:
    """Closes a descriptor, or the socket that owns it."""
    if isinstance(key.fileobj, int):
        os.close(key.fileobj)
    else:
        key.fileobj.close()  # type: ignore[attr-defined]
