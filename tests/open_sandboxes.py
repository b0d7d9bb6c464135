"""Sandboxes for tests: one for each backend and module, and what is missing where a backend is."""

import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rloo_verify.sandbox.runner import Sandbox
from rloo_verify.sandbox.settings import SandboxSettings

BACKENDS = [pytest.param("docker", marks=pytest.mark.docker), "bwrap"]

SHARED = Path(os.environ.get("RLOO_VERIFY_SHARED", Path(__file__).parents[2] / "shared")) / "data"


def shared(name: str) -> Path:
    if not (SHARED / name).is_file():
        pytest.skip(f"shared/data/{name} is not beside this checkout")
    return SHARED / name


def need_bwrap() -> None:
    if shutil.which("bwrap") is None:
        if os.environ.get("CI"):
            pytest.fail("CI must have bubblewrap.", pytrace=False)
        pytest.skip("bubblewrap is not installed")


def open_sandbox(backend: Any, **settings: Any) -> Iterator[Sandbox]:
    if backend == "bwrap":
        need_bwrap()
    with Sandbox(SandboxSettings(backend=backend, **settings)) as sandbox:
        yield sandbox


def eventually(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not condition():
        time.sleep(0.05)
    return condition()
