"""A Docker engine of a test's own, which may be killed: its data on a small disk, its socket beside it, and on TCP."""

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

DISK_MIB = 700
START_SECONDS = 60.0


class PrivateDocker:
    """An engine below `folder`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.disk = folder / "disk"
        self.unix = f"unix://{folder}/docker.sock"
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.tcp = f"tcp://127.0.0.1:{free.getsockname()[1]}"
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        for name in ("docker.pid", "docker.sock", "exec/containerd/containerd.pid"):
            (self.folder / name).unlink(missing_ok=True)  # of a killed one; a stranger may have its number by now
        flags = [f"--data-root={self.disk}", f"--exec-root={self.folder}/exec", f"--pidfile={self.folder}/docker.pid"]
        flags += [
            "--bridge=none",
            "--iptables=false",
            "--ip6tables=false",
            "--tls=false",
            "-H",
            self.unix,
            "-H",
            self.tcp,
        ]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(["dockerd", *flags], stdout=log, stderr=log, start_new_session=True)
        deadline = time.monotonic() + START_SECONDS
        while self.command("info").returncode:
            if self.process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"dockerd did not start: {(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.1)

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def command(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            ["docker", "-H", self.unix, *words], capture_output=True, text=True, timeout=60, check=False
        )

    def containers(self) -> list[str]:
        return self.command("ps", "-aq").stdout.split()

    def stop(self) -> None:
        assert self.process is not None
        if self.process.poll() is not None:
            self.start()  # it ends the containers that a killed one left
        for container in self.containers():
            self.command("rm", "-f", container)
        self.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(30)
        self.process.kill()
        mounts = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
        for mount in sorted((m for m in mounts if m.startswith(str(self.folder))), reverse=True):
            subprocess.run(["umount", "-l", mount], capture_output=True, check=False)


@pytest.fixture(scope="module")
def private_docker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrivateDocker]:
    """An engine of this module's own; needs root and dockerd."""
    if os.geteuid() != 0 or shutil.which("dockerd") is None:
        pytest.skip("starting an engine of one's own needs root and dockerd")
    engine = PrivateDocker(tmp_path_factory.mktemp("docker"))
    engine.disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MIB}m", "tmpfs", str(engine.disk)]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small disk cannot be mounted here")
    try:
        engine.start()
        yield engine
    finally:
        engine.stop()
