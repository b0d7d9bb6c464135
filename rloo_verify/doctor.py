"""What works on this machine, one line each, with what to do about the rest."""

import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib import metadata
from typing import NamedTuple

from rloo_verify.policy.vllm_start import available as vllm_unavailable

DOCKER_SECONDS = 10


class Finding(NamedTuple):
    """One line of the doctor: whether it works, what it is, and what was found or what to do."""

    ok: bool
    what: str
    detail: str


def examine() -> Iterator[Finding]:
    """Looks at Python, torch, the engines, Docker and bubblewrap; starts nothing."""
    import psutil
    import torch

    supported = (3, 11) <= sys.version_info < (3, 14)
    yield Finding(supported, "python", f"{platform.python_version()} (3.11 to 3.13 are supported)")
    memory = psutil.virtual_memory().total / 2**30
    yield Finding(True, "machine", f"{os.cpu_count()} cores, {memory:.0f} GiB memory, {platform.platform()}")
    yield Finding(True, "torch", f"{torch.__version__}, {torch.get_num_threads()} threads")
    if torch.cuda.is_available():
        for i in range(torch.cuda.device_count()):
            gpu = torch.cuda.get_device_properties(i)
            yield Finding(True, f"gpu {i}", f"{gpu.name}, {gpu.total_memory / 2**30:.0f} GiB")
    else:
        yield Finding(False, "gpu", "none; training runs on the CPU")
    yield Finding(True, "transformers engine", metadata.version("transformers"))
    reason = vllm_unavailable()
    yield Finding(reason is None, "vllm engine", reason or "ready")
    yield _docker()
    bwrap = shutil.which("bwrap")
    yield Finding(bwrap is not None, "bubblewrap", bwrap or "not found; needed for code tasks without Docker only")
    yield Finding(True, "sandboxes", "`rloo-verify sandbox doctor` starts one of each kind")


def _docker() -> Finding:
    if shutil.which("docker") is None:
        return Finding(False, "docker", "not found; needed for code tasks only")
    try:
        done = subprocess.run(
            ["docker", "version", "--format", "{{.Server.Version}}"],
            capture_output=True,
            text=True,
            timeout=DOCKER_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Finding(False, "docker", f"the engine does not answer within {DOCKER_SECONDS} s")
    if done.returncode:
        return Finding(False, "docker", "installed, but no engine answers; needed for code tasks only")
    return Finding(True, "docker", done.stdout.strip())
