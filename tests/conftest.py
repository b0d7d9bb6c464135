"""Settings that must precede `import torch`, and what happens to tests whose engine is missing."""

import os
import shutil
import signal
import subprocess

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    # Started in the background by a script: Ctrl-C is ignored, and by every program that the tests start, too.
    signal.signal(signal.SIGINT, signal.default_int_handler)

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

import functools
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


@functools.cache
def why_no_vllm() -> str | None:
    from rloo_verify.policy.vllm_start import available

    return available()


@functools.cache
def why_no_docker() -> str | None:
    if shutil.which("docker") is None:
        return "Docker is not installed."
    try:
        done = subprocess.run(["docker", "info"], capture_output=True, text=True, timeout=20, check=False)
    except subprocess.TimeoutExpired:
        return "The Docker engine does not answer."
    return None if done.returncode == 0 else f"No Docker engine answers: {done.stderr.strip()[:200]}"


@functools.cache
def why_no_browser() -> str | None:
    from browser import find_chromium

    return None if find_chromium() else "Chromium is not installed; scripts/install_chromium.sh does it on Debian."


@functools.cache
def why_no_gpu() -> str | None:
    import torch

    return None if torch.cuda.is_available() else "No CUDA device is visible."


NEEDS = {"vllm": why_no_vllm, "docker": why_no_docker, "browser": why_no_browser, "gpu": why_no_gpu}
ALWAYS_IN_CI = {"vllm", "docker", "browser"}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test whose engine is missing; where the variable CI is set, vLLM, Docker and Chromium must be there."""
    for marker, why_missing in NEEDS.items():
        if item.get_closest_marker(marker) is None:
            continue
        reason = why_missing()
        if reason is None:
            continue
        if marker in ALWAYS_IN_CI and os.environ.get("CI"):
            pytest.fail(f"CI must have what the marker '{marker}' needs. {reason}", pytrace=False)
        pytest.skip(reason)


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A vLLM engine of the kind in the parameter (`engines.each`); one at a time, as they share distributed state."""
    import torch
    from engines import CONTEXT, Engine, save_model

    from rloo_verify.policy.vllm import VllmPolicy

    folder = save_model(request.param, tmp_path_factory.mktemp(request.param))
    seeds, preload = torch.get_rng_state(), os.environ.get("LD_PRELOAD")
    dtype = "bfloat16" if request.param == "llama-bfloat16" else "float32"
    policy = VllmPolicy(folder, dtype=dtype, max_model_len=CONTEXT)
    untouched = torch.equal(seeds, torch.get_rng_state()) and preload == os.environ.get("LD_PRELOAD")
    yield Engine(request.param, folder, policy, untouched)
    policy.close()


@pytest.fixture
def engine(running: Any) -> Iterator[Any]:
    """The running engine with the weights of its folder."""
    yield running
    running.restore()


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    """The config of a small run, with its model and task beside it."""
    from runs import write_run

    return write_run(tmp_path)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Iterator[Any]:
    """Runs the command line in this process; returns exit code, standard output, standard error."""
    from rloo_verify.cli import main

    handlers, level = logging.root.handlers[:], logging.root.level

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code: object = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        assert isinstance(code, int)
        return code, captured.out, captured.err

    yield run
    logging.root.handlers[:] = handlers  # the command line's own would write to a stream that is closed by now
    logging.root.setLevel(level)
