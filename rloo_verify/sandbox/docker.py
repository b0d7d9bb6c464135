"""The Docker backend: warm, locked-down containers, each driven over one attached stream; never a `docker exec`."""

import contextlib
import os
import select
import socket
import time
from pathlib import Path
from typing import Any

from rloo_verify.errors import SandboxError
from rloo_verify.sandbox.box import Box, BoxError
from rloo_verify.sandbox.bundle import boot_program, bundle
from rloo_verify.sandbox.bwrap import CAPABILITIES
from rloo_verify.sandbox.images import ensure_image
from rloo_verify.sandbox.settings import MAX_MEMORY_MIB, Image, SandboxSettings
from rloo_verify.sandbox.uids import fresh_range

LABEL_OWNER = "rloo-verify.owner"
LABEL_UIDS = "rloo-verify.uids"

CONTAINER_MEMORY_MIB = MAX_MEMORY_MIB + 512
CONTAINER_PROCESSES = 512
API_SECONDS = 30
_CORES = 2  # of a container: the program's, and that of what makes the next clone

_TMPFS = {
    "/tmp": "rw,nosuid,nodev,size=64m,nr_inodes=16k,mode=1777",
    "/dev/shm": "rw,nosuid,nodev,noexec,size=16m,nr_inodes=1k,mode=1777",
}


def connect() -> Any:
    """A client of the engine that the environment names (`DOCKER_HOST`), or of the local one.

    Raises:
        SandboxError: The SDK is not installed or no engine answers.
    """
    try:
        import docker  # here, because most commands run no programs
    except ImportError:
        raise SandboxError("the Python package `docker` is not installed: pip install docker") from None
    try:
        client = docker.from_env(timeout=API_SECONDS)
        client.ping()
    except Exception as error:  # the SDK, requests and urllib3 share no base class
        raise SandboxError(f"no Docker engine answers ({_first_line(error)}): start one, or set DOCKER_HOST") from error
    return client


class AttachedStream:
    """The attached standard streams of a container, demultiplexed."""

    def __init__(self, client: Any, container_id: str, attached: Any) -> None:
        self.name = f"the container {container_id[:12]}"
        self.container_id = container_id
        self._client = client
        self._attached = attached
        self._socket: socket.socket = getattr(attached, "_sock", attached)
        self._raw = bytearray()
        self._closed = False
        self.errors = bytearray()

    def send(self, data: bytes) -> None:
        """Writes all of `data`."""
        self._socket.sendall(data)

    def receive(self, seconds: float) -> bytes:
        """Some bytes of the container's standard output, b"" at the end."""
        deadline = time.monotonic() + seconds
        while True:
            out = self._demultiplex()
            if out:
                return out
            left = deadline - time.monotonic()
            if not self._pending() and not select.select([self._socket], [], [], max(0.0, left))[0]:
                raise TimeoutError
            data = self._socket.recv(1 << 16)
            if not data:
                return b""
            self._raw += data

    def close(self) -> None:
        """Closes the stream, at whose end the controller leaves, and removes the container."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(Exception):
            self._attached.close()
            self._socket.close()
        with contextlib.suppress(Exception):  # it may be gone, or the engine
            self._client.api.remove_container(self.container_id, force=True, v=True)

    def _pending(self) -> bool:
        pending = getattr(self._socket, "pending", None)  # TLS: bytes that were read but not asked for
        return bool(pending and pending())

    def _demultiplex(self) -> bytes:
        """What of the raw bytes is standard output; standard error is kept for messages."""
        out = b""
        while len(self._raw) >= 8:
            size = int.from_bytes(self._raw[4:8], "big")
            if len(self._raw) < 8 + size:
                break
            body = bytes(self._raw[8 : 8 + size])
            if self._raw[0] == 2:
                self.errors += body
                del self.errors[:-4000]
            else:
                out += body
            del self._raw[: 8 + size]
        return out


class DockerBackend:
    """Starts containers.

    Raises:
        SandboxError: No engine answers, the runtime is unknown, or the image is missing and cannot be made.
    """

    name = "docker"

    def __init__(self, settings: SandboxSettings, image: Image) -> None:
        self._settings = settings
        self._image = image
        self._client = connect()
        self.runs_per_box = settings.runs_per_container
        runtimes = self._client.info().get("Runtimes", {})
        if settings.runtime not in runtimes:
            known = ", ".join(sorted(runtimes)) or "none"
            raise SandboxError(f"sandbox.runtime = {settings.runtime!r}: this Docker engine has the runtimes {known}")
        self.tag = ensure_image(self._client, image)
        sweep(self._client)

    def start(self) -> Box:
        """Starts a container.

        Raises:
            BoxError: It did not start.
        """
        uid_base = fresh_range(_uid_ranges_in_use(self._client))
        api = self._client.api
        container_id = None
        try:
            container_id = api.create_container(**self._creation(uid_base))["Id"]
            attached = api.attach_socket(container_id, params={"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1})
            stream = AttachedStream(self._client, container_id, attached)
            api.start(container_id)
        except Exception as error:  # the SDK, requests and urllib3 share no base class
            with contextlib.suppress(Exception):
                if container_id is not None:
                    api.remove_container(container_id, force=True)
            raise BoxError(f"a container cannot be started: {_first_line(error)}") from error
        try:
            return Box(stream, bundle(self._image, uid_base=uid_base, isolated=True))
        except BoxError as error:
            said = stream.errors.decode("utf-8", "replace").strip()
            raise BoxError(f"{error}{': ' + said if said else ''}") from error

    def close(self) -> None:
        """Closes the connection to the engine."""
        self._client.close()

    def _creation(self, uid_base: int) -> dict[str, Any]:
        cores = min(_CORES, self._client.info().get("NCPU", 1))
        host = self._client.api.create_host_config(
            network_mode="none",
            read_only=True,
            cap_drop=["ALL"],
            cap_add=list(CAPABILITIES),
            security_opt=["no-new-privileges"],
            pids_limit=CONTAINER_PROCESSES,
            mem_limit=CONTAINER_MEMORY_MIB << 20,
            memswap_limit=CONTAINER_MEMORY_MIB << 20,
            nano_cpus=int(1e9 * cores),
            cpu_shares=1024 * cores,  # on each core the weight of an ordinary process; else 1024 are shared by all
            ipc_mode="none",
            tmpfs=_TMPFS,
            auto_remove=True,
            runtime=self._settings.runtime,
            log_config={"Type": "none"},
        )
        return {
            "image": self.tag,
            "command": [self._image.python, "-I", "-c", boot_program(), "controller"],
            "stdin_open": True,
            "host_config": host,
            "labels": {LABEL_OWNER: owner(), LABEL_UIDS: str(uid_base)},
            "working_dir": "/",
            "user": "0:0",
            "environment": {"LANG": "C.UTF-8", "PATH": "/usr/local/bin:/usr/bin:/bin"},
            "hostname": "sandbox",
        }


def owner() -> str:
    """This process: host, process id, and the time of its start, so that a reused id is not mistaken for it."""
    return f"{socket.gethostname()}:{os.getpid()}:{_start_time(os.getpid())}"


def sweep(client: Any) -> int:
    """Removes the containers whose owner, a process of this host, is dead; returns how many.

    With `auto_remove` and a controller that leaves when its stream closes, only a killed engine leaves any.
    """
    removed = 0
    for container in client.api.containers(all=True, filters={"label": LABEL_OWNER}):
        host, pid, started = container["Labels"][LABEL_OWNER].rsplit(":", 2)
        if host == socket.gethostname() and _start_time(int(pid)) != started:
            with contextlib.suppress(Exception):  # another sweep was faster
                client.api.remove_container(container["Id"], force=True, v=True)
                removed += 1
    return removed


def _uid_ranges_in_use(client: Any) -> set[int]:
    try:
        containers = client.api.containers(filters={"label": LABEL_UIDS})
    except Exception as error:  # the SDK, requests and urllib3 share no base class
        raise BoxError(f"the Docker engine does not answer: {_first_line(error)}") from error
    return {int(container["Labels"][LABEL_UIDS]) for container in containers}


def _start_time(pid: int) -> str:
    """Clock ticks between boot and the start of a process; empty where there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return ""


def _first_line(error: Exception) -> str:
    return (str(error).strip() or type(error).__name__).splitlines()[0][:300]
