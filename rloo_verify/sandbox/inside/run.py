"""One run from request to result: gives a clone of the zygote its order, moves bytes, checks limits, cleans up.

- CPU time, wall time, memory and output are watched from outside. Wall time that the program spent waiting for a core
  on a loaded machine does not count, up to `_LOAD_FACTOR` times the limit, nor does that of a session whose next word
  is the host's.
- When the first process ends, every other process of the sandbox is killed, and every file that it left is removed.
"""

import base64
import marshal
import os
import selectors
import socket
import sys
import time
from collections import deque
from typing import Any

from . import frames
from .cleanup import clean
from .forks import Zygote
from .processes import End, Processes, readable_file, waited_for_core

OUTPUTS = ("stdout", "stderr", "channel")

_TICK = 0.01
_LOAD_FACTOR = 6.0
_CHUNK = 1 << 16


class Run:
    """One run from request to result.

    Args:
        request: `job`, `stdin` and `channel` (base64), `session`, `limits`.
        settings: As for `main`.
        zygote: Whose clone it is.
        uid: Its own user, or 0.
        children: A descriptor that has something to read when a child of this process has ended.
        waiting: Where requests go that come while it lasts.
    """

    def __init__(
        self,
        request: dict[str, Any],
        settings: dict[str, Any],
        zygote: Zygote,
        uid: int,
        children: int,
        waiting: deque[dict[str, Any]],
    ) -> None:
        self.request = request
        self.settings = settings
        self.zygote = zygote
        self.children = children
        self.waiting = waiting
        self.limits = request["limits"]
        self.processes = Processes(zygote, uid, settings["isolated"])
        self.setup = 0
        self.said = b""
        self.killed: str | None = None
        self.started = self.checked = self.wall = 0.0
        self.asked, self.answered = frames.Counter(), frames.Counter()
        self.to_channel = bytearray(base64.b64decode(request["channel"]))
        self.end_channel = not request["session"]
        self.out = {name: bytearray() for name in OUTPUTS}
        self.selector = selectors.DefaultSelector()

    def result(self) -> dict[str, Any]:
        """Starts it, watches, cleans up; returns the `done` message."""
        channel = self.start()
        try:
            end = self.watch(channel)
            leftovers = self.processes.kill_everything()
            self.drain()
        finally:
            for key in list(self.selector.get_map().values()):
                if key.data in OUTPUTS:
                    close(key)
            self.selector.close()
        failure = self.setup_failure()
        anomaly = clean(self.settings["writable"], self.settings["work"])
        if leftovers:
            anomaly = anomaly or self.processes.survivors()
        return {
            "event": "done",
            "exit": os.WEXITSTATUS(end.status) if os.WIFEXITED(end.status) else None,
            "signal": os.WTERMSIG(end.status) if os.WIFSIGNALED(end.status) else None,
            "killed": self.killed,
            "failure": failure,
            "cpu": self.processes.cpu,
            "wall": time.monotonic() - self.started,
            "peak_kib": end.peak_kib,
            "leftovers": leftovers,
            "anomaly": anomaly,
            **{name: base64.b64encode(data).decode("ascii") for name, data in self.out.items()},
        }

    def start(self) -> socket.socket:
        """Hands over the descriptors: input and job as read-only files, pipes for output, the channel, and a pipe.

        That last one says that the order was taken, and what went wrong before the program started.
        """
        stdin = readable_file(base64.b64decode(self.request["stdin"]))
        job = readable_file(marshal.dumps(self.request["job"]))
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        self.setup, setup_write = os.pipe()
        ours, theirs = socket.socketpair()
        given = [stdin, out_write, err_write, job, theirs.fileno(), setup_write]
        self.started = self.checked = time.monotonic()
        self.processes.pid = self.zygote.order({**self.limits, "uid": self.processes.uid}, given)
        for fd in (stdin, out_write, err_write, job, setup_write):
            os.close(fd)
        theirs.close()
        for fd in (out_read, err_read, ours.fileno()):
            os.set_blocking(fd, False)
        watched: tuple[tuple[Any, str], ...] = ((out_read, "stdout"), (err_read, "stderr"), (ours, "channel"))
        for fd, name in (*watched, (self.children, "children"), (0, "host")):
            self.selector.register(fd, selectors.EVENT_READ, name)
        return ours

    def setup_failure(self) -> str:
        """What went wrong before the program started; empty where nothing did."""
        while part := os.read(self.setup, 4096):
            self.said += part
        os.close(self.setup)
        if not self.said:
            sys.exit("the clone died before it took its order")
        return self.said[1:].decode("utf-8", "replace")

    def watch(self, channel: socket.socket) -> End:
        """Moves bytes and checks limits until the first process has ended."""
        next_check = time.monotonic() + _TICK
        while self.processes.end is None:
            self.feed(channel)
            for key, _ in self.selector.select(max(0.0, min(_TICK, next_check - time.monotonic()))):
                self.on_readable(key)
            if time.monotonic() >= next_check:
                if self.killed is None:
                    self.check_limits()
                elif self.processes.end is None:
                    self.processes.kill_everything()
                next_check = time.monotonic() + _TICK
        return self.processes.end

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
        if key.data == "children":
            os.read(self.children, _CHUNK)
            self.processes.reap()
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
            self.said += os.read(self.setup, 4096)  # an order that nobody took would be the next clone's
            self.kill("host")
        data = base64.b64decode(message.get("data", ""))
        self.asked.feed(data)
        self.to_channel += data
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
            self.answered.feed(data)
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
        self.processes.reap()
        pids = self.processes.pids()
        cpu, resident = self.processes.usage(pids)
        now = time.monotonic()
        # A session starts with a word of the program, and then each side waits for the other.
        if not self.request["session"] or self.answered.complete <= self.asked.complete:
            self.wall += now - self.checked
        self.checked = now
        if cpu > self.limits["cpu_seconds"]:
            self.kill("cpu")
        elif resident > self.limits["memory_mib"] << 20:
            self.kill("memory")
        elif self.wall > self.limits["wall_seconds"]:
            least = max(self.wall - waited_for_core(pids), self.wall / _LOAD_FACTOR)
            if least > self.limits["wall_seconds"]:
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
