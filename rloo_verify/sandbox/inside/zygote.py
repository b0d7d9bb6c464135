"""The process that is cloned for every test. It has everything imported and only ever sees file descriptors.

So its memory, which every clone inherits, holds nothing of any request. The clones are children of the controller,
which watches and reaps them; this process only makes them. One always waits for its order, which it takes from a socket
itself: cloning is over when a request comes. Whatever is the same for every test (streams, limits, the system call
filter) is done here, once: most of what a test costs are the pages that it touches.
"""

import contextlib
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
from itertools import cycle
from typing import Any, NoReturn

from . import program, seccomp, tests

CHANNEL = 3
_HIGHEST_FD = 250
_CLONE_PARENT = 0x8000
_libc = ctypes.PyDLL(None, use_errno=True)  # PyDLL: the lock of the interpreter stays held on both sides
_TAKEN = b"T"
_ROOM = socket.CMSG_SPACE(6 * 4)  # for six descriptors
_MIB = 1 << 20
# Address space beside the memory that counts: stacks of threads and arenas of the allocator are reserved, not used.
_SLACK_MIB = 3072
_STACK = 64 * _MIB


def main(settings: dict[str, Any]) -> None:
    """Makes one clone at once and one for each byte on the socket at descriptor 0, until that closes.

    Each time it says the clone's process id.

    Args:
        settings: `preimport` (module names), `packages` (folders to import from), `work` (the scratch folder of each
            clone in turn), `uid_base` (0: no users of their own), `isolated`, `seccomp`.
    """
    control = above_channel(0)
    orders = cycle([above_channel(int(number)) for number in sys.argv[2:]])
    sys.path.extend(settings["packages"])
    warnings = []
    for name in settings["preimport"]:
        try:
            importlib.import_module(name)
        except ImportError as error:
            warnings.append(f"{name}: {error}")
    filter_ = seccomp.Filter()
    if settings["seccomp"] and filter_.code is None:
        control.sendall(json.dumps({"error": f"no seccomp filter for {os.uname().machine}"}).encode())
        return
    if settings["isolated"] and not settings["uid_base"]:
        filter_.set_dumpable(False)
    prepare(settings["work"])
    if settings["seccomp"]:
        filter_.install()
    gc.collect()
    gc.freeze()
    hello = {"ready": True, "python": sys.version.split()[0], "warnings": warnings}
    control.sendall(json.dumps(hello).encode())
    middle = not clones_are_siblings()
    with contextlib.suppress(ConnectionError):  # the controller is gone
        while control.recv(1):
            order = next(orders)  # not that of the clone before, which may not have taken its order yet
            if middle and (pid := clone()):  # its own clone is an orphan at once, and so the controller's
                os.waitpid(pid, 0)
                continue
            if (pid := clone()) == 0:
                become_test(order, filter_, settings["work"])
            control.sendall(b"%d" % pid)
            if middle:
                os._exit(0)


def above_channel(fd: int) -> socket.socket:
    """A socket that was inherited, moved out of the way."""
    moved = socket.socket(fileno=fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, CHANNEL + 1))
    os.close(fd)
    return moved


def clone() -> int:
    """Forks a child of the controller; returns 0 in the child.

    Not `os.fork`, which would make it a child of this process, and would rebuild in it the bookkeeping of threads, of
    which there are none: 170 pages, half of what a trivial test touches. `random` is not seeded anew either, so that a
    program does the same in every run.

    Raises:
        OSError: There is no memory, or no number for a process.
    """
    pid: int = _libc.syscall(seccomp.number_of_clone(), _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0)
    if pid < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return pid


def clones_are_siblings() -> bool:
    """Whether clones are children of this process's parent. gVisor (2022) makes them its own."""
    if (pid := clone()) == 0:
        os._exit(0)
    try:
        os.waitpid(pid, 0)
    except ChildProcessError:
        return True
    return False


def prepare(work: str) -> None:
    """What every fork inherits: fresh text streams, limits that no request changes, and where its folder will be."""
    placeholders = (os.memfd_create("stdin"), *os.pipe())  # of the kinds that the streams will have: a file, pipes
    errors = os.dup(2)
    for target, fd in enumerate((placeholders[0], placeholders[2], placeholders[2])):
        os.dup2(fd, target)
    program.reopen_standard_streams()
    os.dup2(errors, 2)
    for fd in (*placeholders, errors):
        os.close(fd)
    os.dup2(1, CHANNEL, inheritable=False)  # taken, so that no descriptor that is received lies below
    for what in (resource.RLIMIT_CORE, resource.RLIMIT_MEMLOCK):
        resource.setrlimit(what, (0, 0))
    _, hard = resource.getrlimit(resource.RLIMIT_STACK)
    resource.setrlimit(resource.RLIMIT_STACK, (_STACK if hard < 0 else min(_STACK, hard), hard))
    with open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")  # under memory pressure tests go first, the largest of them
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    os.umask(0o077)
    os.environ["HOME"] = os.environ["PWD"] = work


def become_test(orders: socket.socket, filter_: seccomp.Filter, work: str) -> NoReturn:
    """Waits for an order, then turns this process into a locked-down one and runs the job; never returns.

    On its last descriptor it says that it took the order, and what went wrong. That pipe closes before the program
    starts, so that no program can pretend that the sandbox failed.
    """
    os.setsid()
    data, ancillary, _, _ = orders.recvmsg(4096, _ROOM)
    if not data:  # the controller is gone
        os._exit(1)
    stdin, stdout, stderr, job_file, channel, setup = memoryview(ancillary[0][2]).cast("i")
    try:
        os.write(setup, _TAKEN)
        # marshal, because it touches fewer pages than json; nothing that a program wrote goes this way.
        order = marshal.loads(data)
        job = marshal.loads(os.pread(job_file, os.fstat(job_file).st_size, 0))
        for target, fd in enumerate((stdin, stdout, stderr)):
            os.dup2(fd, target)
        os.dup2(channel, CHANNEL, inheritable=False)
        os.closerange(CHANNEL + 1, setup)
        os.closerange(setup + 1, _HIGHEST_FD)
        restrict(order)
        filter_.set_dumpable(True)  # else /proc/self would belong to root
        os.mkdir(work, 0o700)
        os.chdir(work)
        os.close(setup)
    except BaseException as error:
        os.write(setup, f"{type(error).__name__}: {error}".encode())
        os._exit(1)
    if job["mode"] == "tests":
        tests.run(job, work, CHANNEL)
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
