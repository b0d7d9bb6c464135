"""The processes of a run: how they end, what they use, and that none is left; and the files that hold its input."""

import contextlib
import os
import signal
import sys
import time
from typing import NamedTuple

from .forks import Zygote

_KILL_SECONDS = 10.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CLOCK = os.sysconf("SC_CLK_TCK")


class End(NamedTuple):
    """How a run's first process ended: its wait status, and its highest memory in KiB."""

    status: int
    peak_kib: int


class Processes:
    """The processes of one run.

    Args:
        zygote: The zygote.
        uid: The run's own user, or 0.
        isolated: Whether this process is the first of a namespace of its own.

    Attributes:
        pid: The first of them.
        end: How that ended, once `reap` saw it.
        cpu: CPU seconds of those that were reaped here: the first and orphans.
    """

    def __init__(self, zygote: Zygote, uid: int, isolated: bool) -> None:
        self.zygote = zygote
        self.uid = uid
        self.isolated = isolated
        self.pid = 0
        self.end: End | None = None
        self.cpu = 0.0

    def pids(self) -> list[int]:
        """The living processes of this run: all but us, the zygote and its next clone, or one session."""
        numbers = {int(name) for name in os.listdir("/proc") if name.isdigit()}
        numbers -= {os.getpid(), self.zygote.pid, self.zygote.waiting}
        if not self.isolated:
            numbers = {number for number in numbers if session_of(number) == self.pid}
        return [number for number in numbers if alive(number)]

    def usage(self, pids: list[int]) -> tuple[float, int]:
        """CPU seconds of these processes and of what they waited for, and the bytes of memory that are theirs alone."""
        cpu, resident = self.cpu, 0
        for pid in pids:
            try:
                fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
                pages, shared = read_text(f"/proc/{pid}/statm").split()[1:3]
            except (OSError, ValueError):
                continue
            cpu += sum(map(int, fields[11:15])) / _CLOCK
            resident += (int(pages) - int(shared)) * _PAGE
        return cpu, resident

    def survivors(self) -> str | None:
        """What still lives after everything was killed; None is as it should be."""
        pids = self.pids()
        return f"processes {pids} cannot be killed" if pids else None

    def kill_everything(self) -> bool:
        """Kills every process of this run; returns whether there was one."""
        found = False
        deadline = time.monotonic() + _KILL_SECONDS
        while pids := self.pids():
            found = True
            if self.uid:
                self.kill_user()
            for pid in pids:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            self.reap()
            if time.monotonic() > deadline:
                break
            time.sleep(0.0005)
        self.reap()
        return found

    def kill_user(self) -> None:
        """Kills all processes of the run's user in one call, which no fork bomb outruns."""
        helper = os.fork()
        if helper == 0:
            try:
                os.setgroups([])
                os.setresgid(self.uid, self.uid, self.uid)
                os.setresuid(self.uid, self.uid, self.uid)
                os.kill(-1, signal.SIGKILL)
            finally:
                os._exit(0)
        os.waitpid(helper, 0)

    def reap(self) -> None:
        """Waits for what has ended: the run's first process, and orphans, whose CPU time is the program's, too."""
        while True:
            try:
                pid, status, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:  # where programs share the zygote's user, they may kill it
                return
            if pid == 0:
                return
            if self.zygote.ahead and pid in (self.zygote.pid, self.zygote.waiting):
                sys.exit("the zygote or its next clone died")
            self.cpu += used.ru_utime + used.ru_stime
            if pid == self.pid:
                self.end = End(status, used.ru_maxrss)


def readable_file(data: bytes) -> int:
    """A regular file without a name that holds `data`: read-only, can be mapped, seeked and opened again."""
    fd = os.memfd_create("input")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.fchmod(fd, 0o444)
    read_only = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    os.close(fd)
    return read_only


def read_text(path: str) -> str:
    """A small file of /proc."""
    fd = os.open(path, os.O_RDONLY)
    try:
        return os.read(fd, 1 << 16).decode("ascii", "replace")
    finally:
        os.close(fd)


def session_of(pid: int) -> int:
    """The session id of a process, 0 where it is gone."""
    try:
        return int(read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[3])
    except (OSError, ValueError, IndexError):
        return 0


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


def waited_for_core(pids: list[int]) -> float:
    """The longest time, in seconds, that a thread of these processes was ready to run but had no core."""
    longest = 0
    for pid in pids:
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                longest = max(longest, int(read_text(f"/proc/{pid}/task/{thread}/schedstat").split()[1]))
        except (OSError, ValueError, IndexError):
            continue
    return longest / 1e9
