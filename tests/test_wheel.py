"""The wheel holds everything that a user needs, under one package, and works outside the checkout."""

import json
import os
import site
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

from rloo_verify.configfile import find_config
from rloo_verify.tasks import list_tasks

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from the checkout, with the build tools that are installed here."""
    out = tmp_path_factory.mktemp("dist")
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(ROOT)]
    done = subprocess.run(build, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    (path,) = out.glob("*.whl")
    return path


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The `rloo-verify` of a clean environment that has the wheel, and the dependencies of this one."""
    folder = tmp_path_factory.mktemp("clean")
    venv.create(folder, with_pip=False, symlinks=True)
    python = folder / "bin" / "python"
    ours = [path for path in site.getsitepackages() if Path(path).is_dir()]
    (packages,) = folder.glob("lib/python*/site-packages")
    # A path alone: .pth files found there, such as the one of the editable install, are not read.
    (packages / "dependencies.pth").write_text("\n".join(ours) + "\n")
    install = [sys.executable, "-m", "pip", "--python", str(python), "install", "--no-deps", "--no-index", str(wheel)]
    done = subprocess.run([*install, "--ignore-installed"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "bin" / "rloo-verify"


def run(program: Path, *arguments: str, cwd: Path) -> str:
    """Standard output of a command outside the checkout."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "RLOO"))}
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False, cwd=cwd, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_the_only_top_level_package_is_rloo_verify_and_all_data_is_inside(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    tops = {name.split("/")[0] for name in names}
    assert {top for top in tops if not top.endswith(".dist-info")} == {"rloo_verify"}
    for folder in ("tasks", "configs", "sandboxes"):
        source = [path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts]
        packed = {name for name in names if name.startswith(f"rloo_verify/_{folder}/")}
        assert {f"rloo_verify/_{path.relative_to(ROOT)}" for path in source} <= packed
    for part in (
        "templates/report.css",
        "report/vendor/uplot/uPlot.iife.min.js",
        "policy/vllm_worker.py",
        "checkers/worker.py",
        "__main__.py",
    ):
        assert f"rloo_verify/{part}" in names
    assert not [name for name in names if name.endswith((".pyc", ".tmp")) or "/tests/" in name]


def test_the_built_in_model_is_inside_and_at_most_4_mb(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        sizes = {name: archive.getinfo(name).file_size for name in archive.namelist() if "/_models/" in name}
    assert "rloo_verify/_models/tiny-arithmetic/config.json" in sizes
    assert sum(sizes.values()) <= 4_000_000
    assert wheel.stat().st_size < 5_000_000


def test_outside_the_checkout_tasks_and_configs_are_those_of_the_wheel(installed: Path, tmp_path: Path) -> None:
    out = run(installed, "tasks", "list", cwd=tmp_path)
    for task in list_tasks():
        assert task in out
    code = "import json, rloo_verify.folders as f; print(json.dumps([f.__file__, str(f.data_folder('tasks'))]))"
    module, tasks = json.loads(run(installed.with_name("python"), "-c", code, cwd=tmp_path))
    clean = str(installed.parents[1])
    assert module.startswith(clean)
    assert tasks.startswith(clean)


def test_outside_the_checkout_a_dry_run_of_the_quickstart_works(installed: Path, tmp_path: Path) -> None:
    out = run(installed, "train", "quickstart", "--dry-run", cwd=tmp_path)
    assert tomllib.loads(out)["run"]["name"] == tomllib.loads(find_config("quickstart").read_text())["run"]["name"]
