"""The bubblewrap backend: the same controller in a namespace of its own, over the host's interpreter, read-only.

As root every test has a user of its own. Without root there is one user inside, so each sandbox serves one run.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from rloo_verify.errors import SandboxError
from rloo_verify.sandbox.box import Box
from rloo_verify.sandbox.bundle import boot_program, bundle
from rloo_verify.sandbox.host_packages import installed, paths_of
from rloo_verify.sandbox.settings import Image, SandboxSettings
from rloo_verify.sandbox.uids import fresh_range

CAPABILITIES = ("SETUID", "SETGID", "KILL", "DAC_OVERRIDE", "FOWNER")
"""What the controller keeps; the tests, as users of their own, have none."""

_SCRATCH_BYTES = 64 << 20
_SHARED_MEMORY_BYTES = 16 << 20
_SYSTEM_FOLDERS = ("/usr", "/bin", "/lib", "/lib64", "/lib32", "/etc/alternatives", "/etc/ld.so.cache")
_PACKAGES = "/opt/packages"
_KILL_SECONDS = 5.0


class PipeStream:
    """A child process's standard input and output as a stream."""

    def __init__(self, command: list[str], name: str) -> None:
        self.name = name
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=None, start_new_session=False, bufsize=0
        )

    def send(self, data: bytes) -> None:
        """Writes all of `data`."""
        assert self._process.stdin is not None
        view = memoryview(data)
        while view:
            view = view[self._process.stdin.write(view) :]

    def receive(self, seconds: float) -> bytes:
        """Some bytes, b"" at the end."""
        assert self._process.stdout is not None
        poll = select.poll()
        poll.register(self._process.stdout, select.POLLIN)
        if not poll.poll(seconds * 1000):
            raise TimeoutError
        return os.read(self._process.stdout.fileno(), 1 << 16)

    def close(self) -> None:
        """Ends the process; its namespace ends with it."""
        for pipe in (self._process.stdin, self._process.stdout):
            with contextlib.suppress(OSError):
                assert pipe is not None
                pipe.close()
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_KILL_SECONDS)

    @property
    def pid(self) -> int:
        """Process id on the host."""
        return self._process.pid


class BwrapBackend:
    """Starts sandboxes with bubblewrap.

    Raises:
        SandboxError: bubblewrap is not installed, or packages are missing that the image names.
    """

    name = "bwrap"

    def __init__(self, settings: SandboxSettings, image: Image) -> None:
        found = shutil.which("bwrap")
        if found is None:
            raise SandboxError("bubblewrap is not installed: install the package `bubblewrap`, or Docker")
        self._bwrap = found
        self._image = image
        self._packages = paths_of(installed(image).values())
        self.runs_per_box = settings.runs_per_container if os.geteuid() == 0 else 1

    def start(self) -> Box:
        """Starts a sandbox.

        Raises:
            BoxError: It did not start.
        """
        root = os.geteuid() == 0
        python = host_python()
        arguments = [
            self._bwrap,
            *_namespaces(root),
            *_mounts(self._packages),
            "--",
            python,
            "-I",
            "-c",
            boot_program(),
            "controller",
        ]
        boot = bundle(self._image, uid_base=fresh_range() if root else 0, isolated=True, packages=_PACKAGES)
        return Box(PipeStream(arguments, "the bubblewrap sandbox"), boot)

    def close(self) -> None:
        """Nothing outlives its sandboxes."""


class UnsafeBackend:
    """Runs programs as ordinary processes of this user: time and memory limits, and no other protection."""

    name = "unsafe"

    def __init__(self, settings: SandboxSettings, image: Image) -> None:
        self._image = image
        self.runs_per_box = settings.runs_per_container
        self._work = tempfile.mkdtemp(prefix="rloo-verify-unsafe-")

    def start(self) -> Box:
        """Starts a controller without any isolation."""
        command = [host_python(), "-I", "-c", boot_program(), "controller"]
        boot = bundle(self._image, uid_base=0, isolated=False, scratch=tempfile.mkdtemp(dir=self._work))
        return Box(PipeStream(command, "the unsafe runner"), boot)

    def close(self) -> None:
        """Removes the scratch folder."""
        shutil.rmtree(self._work, ignore_errors=True)


def host_python() -> str:
    """The interpreter that this one is based on: a virtual environment is not visible inside."""
    return os.path.realpath(getattr(sys, "_base_executable", sys.executable))


def system_folders() -> list[Path]:
    """What of the host's file system an interpreter needs, and nothing else."""
    prefix = Path(sys.base_prefix).resolve()
    folders = [Path(name) for name in _SYSTEM_FOLDERS if os.path.lexists(name)]
    return folders if prefix.is_relative_to("/usr") else [*folders, prefix]


def _folders_of_packages() -> list[Path]:
    """Where the interpreter that programs see has packages of its own."""
    base = {"base": sys.base_prefix, "platbase": sys.base_prefix}
    named = {sysconfig.get_path(kind, vars=base) for kind in ("purelib", "platlib")}
    named.add("/usr/lib/python3/dist-packages")  # Debian's
    return sorted(Path(name) for name in named if Path(name).is_dir())


def _namespaces(root: bool) -> list[str]:
    arguments = ["--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try"]
    arguments += ["--die-with-parent", "--as-pid-1", "--new-session", "--hostname", "sandbox", "--clearenv"]
    arguments += ["--setenv", "LANG", "C.UTF-8", "--setenv", "PATH", "/usr/local/bin:/usr/bin:/bin"]
    if not root:
        return [*arguments, "--unshare-user"]
    for capability in CAPABILITIES:
        arguments += ["--cap-add", f"CAP_{capability}"]
    return arguments


def _mounts(packages: list[Path]) -> list[str]:
    arguments: list[str] = []
    for folder in reversed(Path(sys.base_prefix).resolve().parents[:-1]):  # else they are as closed as the host's
        arguments += ["--perms", "0755", "--dir", str(folder)]
    for folder in system_folders():
        if folder.is_symlink():
            arguments += ["--symlink", os.readlink(folder), str(folder)]
        else:
            arguments += ["--ro-bind", str(folder), str(folder)]
    for folder in _folders_of_packages():  # the host's packages are not the program's
        arguments += ["--tmpfs", str(folder), "--remount-ro", str(folder)]
    for package in packages:
        arguments += ["--ro-bind", str(package), f"{_PACKAGES}/{package.name}"]
    arguments += ["--proc", "/proc", "--dev", "/dev"]
    arguments += ["--perms", "1777", "--size", str(_SHARED_MEMORY_BYTES), "--tmpfs", "/dev/shm"]
    arguments += ["--perms", "1777", "--size", str(_SCRATCH_BYTES), "--tmpfs", "/tmp"]
    return [*arguments, "--remount-ro", "/dev", "--remount-ro", "/", "--chdir", "/"]
