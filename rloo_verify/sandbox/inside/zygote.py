"""The process that is forked for every test. It has everything imported and only ever sees file descriptors.

So its memory, which every fork inherits, holds nothing of any request. One fork always waits for its order, which it
takes from the socket itself: forking is over when a request comes. Whatever is the same for every test (streams,
limits, the system call filter) is done here, once: most of what a fork costs are the pages that it touches.

Of each fork the zygote reports the status, the resources used, and the process id of the fork that waits now. It ends
when the socket closes.
"""

import ctypes
import fcntl
import gc
import importlib
import json
import marshal
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
_ROOM = socket.CMSG_SPACE(5 * 4)  # for five descriptors
_MIB = 1 << 20
# Address space beside the memory that counts: stacks of threads and arenas of the allocator are reserved, not used.
_SLACK_MIB = 3072
_STACK = 64 * _MIB


def main(settings: dict[str, Any]) -> None:
    """Serves forks on the socket at descriptor 0.

    Args:
        settings: `preimport` (module names), `packages` (folders to import from), `work` (the scratch folder of each
            fork in turn), `uid_base` (0: no users of their own), `isolated`, `seccomp`.
    """
    connection = socket.socket(fileno=fcntl.fcntl(0, fcntl.F_DUPFD_CLOEXEC, CHANNEL + 1))
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
    shares_user = settings["isolated"] and not settings["uid_base"]
    if shares_user:
        filter_.set_dumpable(False)
    prepare(settings["work"])
    if settings["seccomp"]:
        filter_.install()
    gc.collect()
    gc.freeze()
    waiting = fork(connection, filter_, settings["work"])
    hello = {"ready": True, "python": sys.version.split()[0], "warnings": warnings, "next": waiting.pid}
    connection.sendall(json.dumps(hello).encode())
    serve(connection, filter_, settings["work"], waiting, ahead=not shares_user)


def serve(connection: socket.socket, filter_: seccomp.Filter, work: str, waiting: "Fork", *, ahead: bool) -> None:
    """Reports on each fork, and forks again; with `ahead`, the next one already waits while one runs."""
    while os.read(waiting.reports, 1) == _TAKEN:  # else the controller is gone, or something killed the fork
        running = waiting
        if ahead:
            waiting = fork(connection, filter_, work)
        connection.sendall(f"{waiting.pid} {outcome(running)}".encode())
        if not ahead:  # of the same user as what ran, so nothing is forked any more
            signal.pause()


class Fork(NamedTuple):
    """A fork and the pipe on which it says that it took its order, and what went wrong while it was set up."""

    pid: int
    reports: int


def fork(connection: socket.socket, filter_: seccomp.Filter, work: str) -> Fork:
    """Forks a test before its order comes.

    With the C library's fork: `os.fork` would rebuild the bookkeeping of threads, of which there are none, and touch
    170 pages for it, half of what a trivial test costs. `random` is not seeded anew either, so that a program does the
    same in every run.
    """
    reading, writing = os.pipe()
    pid: int = _fork()
    if pid == 0:
        become_test(connection, filter_, work, writing)
    if pid < 0:
        raise OSError(ctypes.get_errno(), "fork")
    os.close(writing)
    return Fork(pid, reading)


_fork = ctypes.PyDLL(None, use_errno=True).fork  # PyDLL: the lock of the interpreter stays held on both sides


def outcome(running: Fork) -> str:
    """Waits for a test: how it ended, CPU seconds, highest memory in KiB, and why it could not be set up."""
    # The pipe closes before the program starts, so that no program can pretend that the sandbox failed.
    said = b""
    while part := os.read(running.reports, 4096):
        said += part
    os.close(running.reports)
    _, status, used = os.wait4(running.pid, 0)
    return f"{status} {used.ru_utime + used.ru_stime} {used.ru_maxrss} {said.decode('utf-8', 'replace')}"


def prepare(work: str) -> None:
    """What every fork inherits: fresh text streams, limits that no request changes, and where its folder will be."""
    placeholders = (os.memfd_create("stdin"), *os.pipe())  # of the kinds that the streams will have: a file, pipes
    errors = os.dup(2)
    for target, fd in enumerate((placeholders[0], placeholders[2], placeholders[2])):
        os.dup2(fd, target)
    program.reopen_standard_streams()
    os.dup2(errors, 2)
    os.dup2(1, CHANNEL, inheritable=False)  # taken, so that no descriptor that is received lies below
    for fd in (*placeholders, errors):
        if fd != CHANNEL:
            os.close(fd)
    for what in (resource.RLIMIT_CORE, resource.RLIMIT_MSGQUEUE, resource.RLIMIT_MEMLOCK):
        resource.setrlimit(what, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (_STACK if hard < 0 else min(_STACK, hard), hard))
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # under memory pressure tests go first, the largest of them
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.umask(0o077)
    os.environ["HOME"] = os.environ["PWD"] = work


def become_test(connection: socket.socket, filter_: seccomp.Filter, work: str, reports: int) -> NoReturn:
    """Waits for an order, then turns this fork into a locked-down process and runs the job; never returns."""
    try:
        os.setsid()
        data, ancillary, _, _ = connection.recvmsg(4096, _ROOM)
        if not data:
            os._exit(1)
        os.write(reports, _TAKEN)
        stdin, stdout, stderr, job_file, channel = memoryview(ancillary[0][2]).cast("i")
        # marshal, because it touches fewer pages than json; nothing that a program wrote goes this way.
        order = marshal.loads(data)
        job = marshal.loads(os.pread(job_file, os.fstat(job_file).st_size, 0))
        os.dup2(stdin, 0)
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.dup2(channel, CHANNEL, inheritable=False)
        os.closerange(CHANNEL + 1, reports)
        os.closerange(reports + 1, _HIGHEST_FD)
        restrict(order)
        filter_.set_dumpable(True)  # else /proc/self would belong to root
        os.mkdir(work, 0o700)
        os.chdir(work)
        os.close(reports)
    except BaseException as error:
        os.write(reports, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    if job["mode"] == "tests":
        tests.run(job, CHANNEL)
    program.run(job, work, CHANNEL)


def restrict(order: dict[str, Any]) -> None:
    """Limits, then user: what root alone may do comes first."""
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
