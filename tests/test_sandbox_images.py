"""Images: what they are made from, what is said where they cannot be made, and packages beside the standard library."""

from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from open_sandboxes import BACKENDS, open_sandbox

from rloo_verify.errors import SandboxError
from rloo_verify.grading.audit import audit, read_cases
from rloo_verify.grading.output_checkers import load_checkers
from rloo_verify.sandbox import images
from rloo_verify.sandbox.box import Job
from rloo_verify.sandbox.docker import connect
from rloo_verify.sandbox.host_packages import installed, paths_of
from rloo_verify.sandbox.runner import Sandbox
from rloo_verify.sandbox.self_test import self_test
from rloo_verify.sandbox.settings import Image, find_image

OWN = Path(__file__).parent / "code_cases.jsonl"

SCIENCE = """
import numpy as np, scipy.optimize, sympy
from sortedcontainers import SortedList
n = int(input())
print(SortedList([n, 1])[0], np.arange(n).sum(), round(scipy.optimize.brentq(lambda t: t * t - n, 0, n), 6))
print(sympy.expand((sympy.Symbol("x") + n) ** 2))
"""


@pytest.fixture(scope="module", params=BACKENDS)
def science(request: pytest.FixtureRequest) -> Iterator[Sandbox]:
    """The sandbox python-sci, made from this interpreter where Docker has no image of it."""
    try:
        installed(find_image("python-sci"))
    except SandboxError as error:
        pytest.skip(str(error))
    yield from open_sandbox(request.param, image="python-sci", containers=1)


def test_programs_use_numpy_scipy_sympy_and_sortedcontainers(science: Sandbox) -> None:
    tests = {"type": "stdio", "compare": "tokens", "cases": [{"input": "4", "output": "1 6 2.0 x**2 + 8*x + 16"}]}
    case = {"id": "science", "tests": tests, "solution_code": SCIENCE, "expected_reward": 1}
    scalar = {
        "id": "scalar",
        "entry_point": "f",
        "tests": {"type": "function", "cases": [{"args": [[1, 2, 3]], "expected": 14}]},
        "solution_code": "import numpy as np\ndef f(xs):\n    return np.array(xs) @ np.array(xs)\n",
        "expected_reward": 1,
    }
    report = audit([case, scalar], science, load_checkers(None))
    assert report.agree == 2, report.disagreements


def test_the_protections_hold_with_packages_too(science: Sandbox) -> None:
    assert list(self_test(science)) == []


@pytest.mark.docker
@pytest.mark.slow
def test_gvisor_is_one_line_of_config() -> None:
    if "runsc" not in connect().info().get("Runtimes", {}):
        pytest.skip("this Docker engine has no runtime runsc (gVisor)")
    for sandbox in open_sandbox("docker", runtime="runsc"):
        assert list(self_test(sandbox)) == []
        report = audit(read_cases(OWN)[::6], sandbox, load_checkers(None))
        assert report.agree == report.cases > 15, report.disagreements


def test_a_package_that_is_missing_here_is_named_in_one_sentence() -> None:
    image = Image("odd", Path(), distributions=("no-such-package-at-all",))
    with pytest.raises(SandboxError, match="the sandbox odd needs the package no-such-package-at-all"):
        installed(image)


def test_packages_bring_what_they_require_and_nothing_of_extras() -> None:
    found = installed(Image("odd", Path(), distributions=("sympy",)))
    assert {"sympy", "mpmath"} <= set(found)
    assert "hypothesis" not in found  # sympy's extra `dev`
    names = {path.name for path in paths_of([found["sympy"]])}
    assert "sympy" in names
    assert not any(name.endswith(".dist-info") for name in names)


def test_a_registry_that_cannot_be_reached_is_one_sentence() -> None:
    def build(**_: Any) -> None:
        raise OSError("dial tcp: lookup registry: no such host\nand more")

    client = SimpleNamespace(images=SimpleNamespace(build=build))
    with pytest.raises(SandboxError, match=r"^docker build failed \(dial tcp: lookup registry: no such host\)$"):
        images.build(client, find_image("python-sci"), "registry")


def test_an_edited_folder_is_another_image(tmp_path: Path) -> None:
    for name in ("sandbox.toml", "Dockerfile"):
        (tmp_path / name).write_bytes((find_image("python").folder / name).read_bytes())
    before = images.tag_of(find_image(str(tmp_path)), "registry")
    assert images.tag_of(find_image(str(tmp_path)), "registry") == before
    with (tmp_path / "Dockerfile").open("a") as file:
        file.write("RUN true\n")
    assert images.tag_of(find_image(str(tmp_path)), "registry") != before


def test_programs_see_no_packages_of_the_machine_beside_those_of_their_image() -> None:
    look = "import importlib.util as u; print([n for n in ('numpy', 'pip', 'setuptools', 'docker') if u.find_spec(n)])"
    for sandbox in open_sandbox("bwrap", containers=1):
        assert sandbox.run(Job({"mode": "script", "sources": [look]})).stdout == b"[]\n"
