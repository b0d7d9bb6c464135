"""The programs that run inside, as the bytes that a fresh sandbox is sent: image and program can never disagree."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from rloo_verify.sandbox.settings import Image

_PARTS = {
    "controller": ("frames", "seccomp", "forks", "processes", "cleanup", "run", "controller"),
    "zygote": ("frames", "values", "seccomp", "server", "program", "stub", "shared", "tests", "zygote"),
}
"""The modules of the two processes inside, in the order in which they import each other."""


@cache
def boot_program() -> str:
    """The program of the interpreter's `-c`."""
    return _source("boot")


def bundle(image: Image, *, uid_base: int, isolated: bool, scratch: str = "/tmp", packages: str = "") -> bytes:
    """What a fresh interpreter reads first.

    Args:
        image: Which modules the zygote imports.
        uid_base: User ids above this one are the sandbox's to use, each once; 0: everything runs as one user.
        isolated: Whether the controller is the first process of a namespace of its own, so that every other process
            there is a test's.
        scratch: Where the folder of each run in turn goes.
        packages: A further folder of packages inside.
    """
    settings: dict[str, Any] = {
        "preimport": list(image.preimport),
        "seccomp": isolated,
        "uid_base": uid_base,
        "isolated": isolated,
        "packages": [packages] if packages else [],
        "scratch": scratch,
        "work": f"{scratch}/run",
        "writable": ["/tmp", "/dev/shm"] if isolated else [],
    }
    sources = {part: [[name, _source(name)] for name in names] for part, names in _PARTS.items()}
    data = json.dumps({"settings": settings, "sources": sources}).encode("ascii")
    return len(data).to_bytes(4, "big") + data


@cache
def _source(name: str) -> str:
    return (files("rloo_verify.sandbox.inside") / f"{name}.py").read_text(encoding="utf-8")
