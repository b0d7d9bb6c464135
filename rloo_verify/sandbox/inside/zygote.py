"""The process that is forked for every test. It has everything imported and only ever sees file descriptors.

So its memory, which every fork inherits, holds nothing of any request. One fork always waits for its order, which it
takes from the socket itself: forking is over when a request comes. Of each fork the zygote reports
the process id, then the status and the resources used. It ends when the socket closes.
"""

import fcntl
import gc
import importlib
import json
import os
import resource
import signal
import socket
import sys
from typing import Any, NamedTuple, NoReturn

from . import program, seccomp, tests

CHANNEL = 3
_HIGHEST_FD = 250
_TAKEN = b"T"
_MIB = 1 << 20
# Address space beside the memory that counts: stacks of threads and arenas of the allocator are reserved, not used.
_SLACK_MIB = 3072
_STACK = 64 * _MIB


def main(settings: dict[str, Any]) -> None:
    """Serves forks on the socket at descriptor 0.

    Args:
        settings: `preimport` (module names), `uids` (whether each fork gets a user of its own), `seccomp`.
    """
    connection = socket.socket(fileno=os.dup(0))
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    sys.path.extend(settings["packages"])
    warnings = []
    for name in settings["preimport"]:
        try:
            importlib.import_module(name)
        except ImportError as error:
            warnings.append(f"{name}: {error}")
    filter_ = seccomp.Filter()
    if settings["seccomp"] and filter_.code is None:
        connection.sendall(json.dumps({"error": f"no seccomp filter for {os.uname().machine}"}).encode())
        return
    if settings["isolated"] and not settings["uid_base"]:
        filter_.set_dumpable(False)
    gc.collect()
    gc.freeze()
    connection.sendall(json.dumps({"ready": True, "python": sys.version.split()[0], "warnings": warnings}).encode())
    installed = filter_ if settings["seccomp"] else None
    ahead = settings["uid_base"] or not settings["isolated"]
    waiting = fork_ahead(connection, installed)
    while True:
        said = os.read(waiting.reports, 1)
        if said != _TAKEN:  # the controller is gone, or something killed the fork while it waited
            sys.exit(0)
        running = waiting
        connection.sendall(json.dumps({"pid": running.pid}).encode() + b"\n")
        if ahead:
            waiting = fork_ahead(connection, installed)
        connection.sendall(json.dumps(outcome(running)).encode() + b"\n")
        if not ahead:
            signal.pause()


class Fork(NamedTuple):
    """A fork and the pipe on which it says that it took its order, and what went wrong while it was set up."""

    pid: int
    reports: int


def fork_ahead(connection: socket.socket, filter_: seccomp.Filter | None) -> Fork:
    """Forks a test before its order comes."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        become_test(connection, filter_, writing)
    os.close(writing)
    return Fork(pid, reading)


def outcome(fork: Fork) -> dict[str, Any]:
    """Waits for a test: whether it could be set up, how it ended, what it used."""
    # The pipe closes before the program starts, so that no program can pretend that the sandbox failed.
    said = b""
    while part := os.read(fork.reports, 4096):
        said += part
    os.close(fork.reports)
    _, status, used = os.wait4(fork.pid, 0)
    cpu = used.ru_utime + used.ru_stime
    return {"status": status, "cpu": cpu, "peak_kib": used.ru_maxrss, "failure": said.decode("utf-8", "replace")}


def become_test(connection: socket.socket, filter_: seccomp.Filter | None, reports: int) -> NoReturn:
    """Waits for an order, then turns this fork into a locked-down process and runs the job; never returns."""
    try:
        os.setsid()
        reports = fcntl.fcntl(reports, fcntl.F_DUPFD_CLOEXEC, _HIGHEST_FD)
        prepare(filter_)
        data, fds, _, _ = socket.recv_fds(connection, 65536, 8)
        if not data:
            os._exit(1)
        os.write(reports, _TAKEN)
        connection.close()
        order = json.loads(data)
        stdin, stdout, stderr, job_fd, channel = [fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, 10) for fd in fds]
        for target, fd in enumerate((stdin, stdout, stderr)):
            os.dup2(fd, target, inheritable=True)
        with os.fdopen(os.dup(job_fd), "rb") as file:
            job = json.loads(file.read())
        os.dup2(channel, CHANNEL, inheritable=False)
        os.closerange(CHANNEL + 1, _HIGHEST_FD)
        restrict(order, filter_)
        work = order["work"]
        os.mkdir(work, 0o700)
        os.chdir(work)
        os.environ["HOME"] = os.environ["PWD"] = work
        os.close(reports)
    except BaseException as error:
        os.write(reports, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    if job["mode"] == "tests":
        tests.run(job, CHANNEL)
    program.run(job, CHANNEL)


def prepare(filter_: seccomp.Filter | None) -> None:
    """What is the same for every test, done before an order comes."""
    if filter_ is not None:
        filter_.set_dumpable(True)  # else /proc/self belongs to root
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # under memory pressure the test goes, not what runs it
    for what in (resource.RLIMIT_CORE, resource.RLIMIT_MSGQUEUE, resource.RLIMIT_MEMLOCK):
        resource.setrlimit(what, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (_STACK if hard < 0 else min(_STACK, hard), hard))
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.umask(0o077)


def restrict(order: dict[str, Any], filter_: seccomp.Filter | None) -> None:
    """Limits, user and system calls, in this order; what root alone may do comes first."""
    cpu = int(order["cpu_seconds"]) + 1
    memory = (order["memory_mib"] + _SLACK_MIB) * _MIB
    for what, soft, hard in (
        (resource.RLIMIT_CPU, cpu + 1, cpu + 2),
        (resource.RLIMIT_AS, memory, memory),
        (resource.RLIMIT_FSIZE, order["file_mib"] * _MIB, order["file_mib"] * _MIB),
        (resource.RLIMIT_NOFILE, order["open_files"], order["open_files"]),
        (resource.RLIMIT_NPROC, order["processes"], order["processes"]),
    ):
        resource.setrlimit(what, (soft, hard))
    if order["uid"]:
        os.setgroups([])
        os.setresgid(order["uid"], order["uid"], order["uid"])
        os.setresuid(order["uid"], order["uid"], order["uid"])
    if filter_ is not None:
        filter_.set_dumpable(True)  # setuid cleared it
        filter_.install()
