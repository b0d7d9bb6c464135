"""Settings that must precede `import torch`, and what happens to tests whose engine is missing."""

import os
import shutil
import subprocess

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

import functools
from collections.abc import Iterator
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
def why_no_gpu() -> str | None:
    import torch

    return None if torch.cuda.is_available() else "No CUDA device is visible."


NEEDS = {"vllm": why_no_vllm, "docker": why_no_docker, "gpu": why_no_gpu}
ALWAYS_IN_CI = {"vllm", "docker"}


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skips a test whose engine is missing; where the variable CI is set, vLLM and Docker must be there."""
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
