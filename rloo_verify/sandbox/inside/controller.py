"""The first process of a sandbox: reads requests from descriptor 0, has each forked by the zygote, guards it, cleans up.

One request at a time. A request carries one program and the input of one test; expected outputs never come here. What
happens to the fork:

- CPU time, wall time, memory and output are watched from outside; wall time that the program spent waiting for a core
  on a loaded machine does not count, up to `_LOAD_FACTOR` times the limit.
- When its first process ends, every other process of the sandbox is killed, and every file that it left is removed.
- Its user id is never used again.

Replies go to descriptor 1: `data` while a session runs, then one `done`.
"""

import base64
import contextlib
import json
import os
import selectors
import shutil
import signal
import socket
import subprocess
import sys
import time

from . import frames

_TICK = 0.01
_LOAD_FACTOR = 6.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_CLOCK = os.sysconf("SC_CLK_TCK")
_CHUNK = 1 << 16
_KILL_SECONDS = 10.0


def main(settings, boot):
    """Serves requests until descriptor 0 closes.

    Args:
        settings: `preimport`, `seccomp`, `uid_base` (0: no users of their own), `isolated` (whether this process is
            the first of a process namespace of its own), `work` (where scratch folders go).
        boot: The command line that starts the zygote, and what it reads first.
    """
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    for folder in settings["writable"]:
        os.chmod(folder, 0o1777)  # whatever the image and the engine made of it
    zygote, hello = start_zygote(*boot)
    frames.write(1, hello)
    if "error" in hello:
        return
    runs = 0
    while (request := frames.read(0)) is not None:
        if "job" not in request:  # a word to a session that has ended meanwhile
            continue
        runs += 1
        frames.write(1, Run(request, settings, zygote, runs).result())


def start_zygote(command, source):
    """Starts the zygote; returns the socket to it and its greeting."""
    ours, theirs = socket.socketpair()
    process = subprocess.Popen(command, stdin=theirs, stdout=2, close_fds=True, env=environment())
    theirs.close()
    ours.sendall(source)
    reply = ours.recv(65536)
    hello = json.loads(reply) if reply else {"error": "the zygote ended while it started"}
    Run.zygote_pid = process.pid
    return ours, hello


def environment():
    """What programs see: nothing of the host, one thread a numeric library, the same order of sets in every run."""
    one = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    path = os.pathsep.join(("/usr/local/bin", "/usr/bin", "/bin"))
    return {**one, "PATH": path, "LANG": "C.UTF-8", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1", "MALLOC_ARENA_MAX": "2",
            "PYTHONDONTWRITEBYTECODE": "1"}  # fmt: skip


class Run:
    """One fork from request to result."""

    zygote_pid = 0

    def __init__(self, request, settings, zygote, number):
        self.request = request
        self.settings = settings
        self.zygote = zygote
        self.limits = request["limits"]
        self.uid = settings["uid_base"] and settings["uid_base"] + number
        self.work = os.path.join(settings["work"], f"run-{number}")
        self.pid = 0
        self.report = None
        self.killed = None
        self.lost = 0.0  # CPU seconds of processes that were reaped here
        self.out = {"stdout": bytearray(), "stderr": bytearray(), "channel": bytearray()}
        self.selector = selectors.DefaultSelector()

    def result(self):
        """Forks, watches, cleans up; returns the `done` message."""
        channel = self.start()
        try:
            self.watch(channel)
            leftovers = self.kill_everything()
            self.drain()
        finally:
            for key in list(self.selector.get_map().values()):
                if key.data in ("stdout", "stderr", "channel"):
                    os.close(key.fd) if key.data != "channel" else key.fileobj.close()
            self.selector.close()
        anomaly = self.clean()
        status = self.report["status"]
        return {
            "event": "done",
            "exit": os.WEXITSTATUS(status) if os.WIFEXITED(status) else None,
            "signal": os.WTERMSIG(status) if os.WIFSIGNALED(status) else None,
            "killed": self.killed,
            "failure": self.report["failure"],
            "cpu": self.report["cpu"] + self.lost,
            "wall": time.monotonic() - self.started,
            "peak_kib": self.report["peak_kib"],
            "leftovers": leftovers,
            "anomaly": anomaly,
            **{name: base64.b64encode(data).decode("ascii") for name, data in self.out.items()},
        }

    def start(self):
        """Hands the fork its descriptors: input and job as read-only files, outputs as pipes, the channel."""
        stdin = readable_file(base64.b64decode(self.request["stdin"]))
        job = readable_file(base64.b64decode(self.request["job"]))
        out_read, out_write = os.pipe()
        err_read, err_write = os.pipe()
        ours, theirs = socket.socketpair()
        names = ("cpu_seconds", "memory_mib", "file_mib", "open_files", "processes")
        order = {name: self.limits[name] for name in names}
        order |= {"uid": self.uid, "work": self.work, "environment": {**environment(), "TMPDIR": self.settings["tmp"]}}
        given = [stdin, out_write, err_write, job, theirs.fileno()]
        socket.send_fds(self.zygote, [json.dumps(order).encode()], given)
        for fd in given[:4]:
            os.close(fd)
        theirs.close()
        for fd, name in ((out_read, "stdout"), (err_read, "stderr"), (ours, "channel"), (self.zygote, "zygote"), (0, "host")):
            os.set_blocking(fd if isinstance(fd, int) else fd.fileno(), fd == 0 or name == "zygote")
            self.selector.register(fd, selectors.EVENT_READ, name)
        self.started = time.monotonic()
        self.to_channel = bytearray(base64.b64decode(self.request["channel"]))
        self.end_channel = not self.request["session"]
        return ours

    def watch(self, channel):
        """Moves bytes and checks limits until the zygote reports the end."""
        next_check = time.monotonic() + _TICK
        while self.report is None:
            self.feed(channel)
            for key, _ in self.selector.select(max(0.0, min(_TICK, next_check - time.monotonic()))):
                self.on_readable(key, channel)
            if time.monotonic() >= next_check:
                if self.killed is None:
                    self.check_limits()
                elif self.report is None:
                    self.kill_everything()
                next_check = time.monotonic() + _TICK

    def feed(self, channel):
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

    def on_readable(self, key, channel):
        """Takes what one of the descriptors has."""
        if key.data == "zygote":
            data = self.zygote.recv(65536)
            if not data:
                sys.exit("the zygote died")
            for line in data.splitlines():  # a report is far smaller than what a socket delivers at once
                message = json.loads(line)
                self.pid = message.get("pid", self.pid)
                self.report = message if "status" in message else self.report
        elif key.data == "host":
            message = frames.read(0)
            if message is None:  # the owner is gone, or gives up this sandbox
                self.kill_everything()
                sys.exit(0)
            if message.get("kill"):
                self.kill("host")
            self.to_channel += base64.b64decode(message.get("data", ""))
            self.end_channel = message.get("end", False)
        else:
            self.take_output(key)

    def take_output(self, key):
        """Reads one of the program's outputs; over its cap the program is killed."""
        try:
            data = os.read(key.fd, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.selector.unregister(key.fileobj)
            os.close(key.fd) if key.data != "channel" else key.fileobj.close()
            return
        if key.data == "channel" and self.request["session"]:
            frames.write(1, {"event": "data", "data": base64.b64encode(data).decode("ascii")})
            return
        kept = self.out[key.data]
        cap = self.limits["output_bytes"] if key.data != "channel" else self.limits["value_bytes"]
        if len(kept) + len(data) > cap:
            self.kill("output")
        kept += data[: max(0, cap - len(kept))]

    def drain(self):
        """Reads what is left in the pipes of a program that has ended."""
        while events := self.selector.select(0):
            readable = [key for key, _ in events if key.data in ("stdout", "stderr", "channel")]
            if not readable:
                return
            for key in readable:
                self.take_output(key)

    def check_limits(self):
        """Kills the program over a limit. Only what the kernel counted is asked, so load changes nothing."""
        self.reap_orphans()
        pids = self.pids()
        cpu, resident = self.lost, 0
        for pid in pids:
            try:
                fields = read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()
                pages, shared = read_text(f"/proc/{pid}/statm").split()[1:3]
            except (OSError, ValueError):
                continue
            cpu += sum(map(int, fields[11:15])) / _CLOCK
            resident += (int(pages) - int(shared)) * _PAGE
        wall = time.monotonic() - self.started
        if cpu > self.limits["cpu_seconds"]:
            self.kill("cpu")
        elif resident > self.limits["memory_mib"] << 20:
            self.kill("memory")
        elif wall > self.limits["wall_seconds"]:
            starved = waited_for_core(pids)
            if wall - starved > self.limits["wall_seconds"] or wall > _LOAD_FACTOR * self.limits["wall_seconds"]:
                self.kill("wall")

    def kill(self, why):
        """Kills the program because of a limit."""
        self.killed = self.killed or why
        self.kill_everything()

    def pids(self):
        """The living processes of this run: in a namespace of our own all but us and the zygote, else one session."""
        keep = (os.getpid(), self.zygote_pid)
        numbers = [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) not in keep]
        if not self.settings["isolated"]:
            numbers = [number for number in numbers if self.pid and session_of(number) == self.pid]
        return [number for number in numbers if alive(number)]

    def kill_everything(self):
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
            self.reap_orphans()
            if time.monotonic() > deadline:
                break
            time.sleep(0.0005)
        self.reap_orphans()
        return found

    def kill_user(self):
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

    def reap_orphans(self):
        """Waits for orphans that have ended; their CPU time is the program's."""
        while True:
            try:
                pid, _, used = os.wait4(-1, os.WNOHANG)
            except ChildProcessError:
                sys.exit("the zygote is gone")
            if pid == 0:
                return
            if pid == self.zygote_pid:
                sys.exit("the zygote died")
            self.lost += used.ru_utime + used.ru_stime

    def clean(self):
        """Removes every file that the run left; returns what could not be undone."""
        for folder in self.settings["writable"]:
            for name in os.listdir(folder):
                path = os.path.join(folder, name)
                if os.path.isdir(path) and not os.path.islink(path):
                    shutil.rmtree(path, onerror=make_removable)
                else:
                    os.unlink(path)
        if not self.settings["writable"]:
            shutil.rmtree(self.work, ignore_errors=True)
        left = [folder for folder in self.settings["writable"] if os.listdir(folder)]
        living = self.pids()
        return f"left behind: {left} {living}" if left or living else None


def make_removable(function, path, _):
    """Removes what a first attempt could not: permissions were taken away."""
    try:
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700)
    except OSError:
        return
    shutil.rmtree(path, ignore_errors=True) if function is not os.unlink else os.unlink(path)


def readable_file(data):
    """A regular file without a name that holds `data`: read-only, can be mapped, seeked and opened again."""
    fd = os.memfd_create("input")
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
    os.fchmod(fd, 0o444)
    read_only = os.open(f"/proc/self/fd/{fd}", os.O_RDONLY)
    os.close(fd)
    return read_only


def read_text(path):
    """A small file of /proc."""
    with open(path, encoding="ascii", errors="replace") as file:
        return file.read()


def session_of(pid):
    """The session id of a process, 0 where it is gone."""
    try:
        return int(read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[3])
    except (OSError, ValueError, IndexError):
        return 0


def alive(pid):
    """Whether a process runs; a zombie does not."""
    try:
        return read_text(f"/proc/{pid}/stat").rpartition(")")[2].split()[0] not in ("Z", "X")
    except (OSError, IndexError):
        return False


def waited_for_core(pids):
    """The longest time, in seconds, that a thread of these processes was ready to run but had no core."""
    longest = 0
    for pid in pids:
        try:
            for thread in os.listdir(f"/proc/{pid}/task"):
                longest = max(longest, int(read_text(f"/proc/{pid}/task/{thread}/schedstat").split()[1]))
        except (OSError, ValueError, IndexError):
            continue
    return longest / 1e9
