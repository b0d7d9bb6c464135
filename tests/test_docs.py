"""The documentation is true: its commands run, its outputs are what comes out, its links and options exist.

A block in `sh` or `python` is run, all blocks of a page in one fresh folder that holds the demo's run folder. A comment
directly before a block says what else to do with it:

    <!-- file: my.toml -->           the block is the content of this file
    <!-- output -->                  these lines are in the output of the block before
    <!-- exits: 2 -->                the command is refused with this exit code
    <!-- needs: sandbox -->          run where Docker or bubblewrap works
    <!-- not run: why -->            not run, for this reason
"""

import functools
import importlib.util
import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from pages import PAGES, ROOT, Block, anchors, blocks, code_spans, name_of, targets

BLOCK_SECONDS = 240
RUN = ("sh", "python")

# the demo as it stands, shrunk to seconds: the same 80 steps, of 2 x 2 answers of at most 8 tokens
SHRUNK = [
    *("--sample.problems_per_step", "2", "--sample.group_size", "2", "--sample.max_new_tokens", "8"),
    *("--eval.problems", "5", "--eval.every", "40", "--save.every", "80"),
]


@functools.cache
def why_no_sandbox() -> str | None:
    from rloo_verify.errors import SandboxError
    from rloo_verify.sandbox.runner import require_sandbox

    try:
        require_sandbox({})
    except SandboxError as error:
        return str(error)
    return None


def run(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Runs a command as a reader would, with this environment's programs and no network."""
    environment = {key: value for key, value in os.environ.items() if not key.startswith("RLOO_VERIFY_TASKS")}
    environment |= {
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "HF_HUB_OFFLINE": "1",
        "OMP_NUM_THREADS": "1",
        "COLUMNS": "200",
    }
    return subprocess.run(
        command,
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        timeout=BLOCK_SECONDS,
        check=False,
    )


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the demo's run, which the pages speak of as runs/quickstart."""
    folder = tmp_path_factory.mktemp("demo")
    done = run(["rloo-verify", "train", "quickstart", *SHRUNK], folder)
    assert done.returncode == 0, done.stdout
    return folder / "runs/quickstart"


@pytest.fixture
def folder(tmp_path: Path, demo: Path) -> Path:
    """What a reader has after the demo: an empty folder with its run in it."""
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs/quickstart").symlink_to(demo)
    return tmp_path


def run_block(block: Block, folder: Path, where: str) -> str:
    """Runs a block and returns what it printed; fails where its exit code is not the expected one."""
    shell = ["bash", "-euo", "pipefail", "-c"]
    done = run([*(shell if block.language == "sh" else [sys.executable, "-c"]), block.text], folder)
    expected = int(block.value) if block.marker == "exits" else 0
    assert done.returncode == expected, f"{where}: exit code {done.returncode}\n{block.text}\n{done.stdout[-4000:]}"
    assert "Traceback" not in done.stdout, f"{where}: a traceback\n{block.text}\n{done.stdout[-4000:]}"
    return done.stdout


def assert_printed(wanted: str, printed: str, where: str) -> None:
    """All lines that a page shows are in the output, in this order; `...` stands for any number of lines."""
    rest: Iterator[str] = iter(" ".join(line.split()) for line in printed.splitlines())
    for line in (" ".join(line.split()) for line in wanted.splitlines()):
        assert line in ("", "...") or line in rest, f"{where}: no such line (or in another order): {line}\n{printed}"


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_what_a_page_tells_to_type_works_and_prints_what_it_shows(page: Path, folder: Path) -> None:
    printed, missing = "", None
    for block in blocks(page):
        where = f"{name_of(page)}:{block.line}"
        if block.marker == "not run":
            continue
        if block.marker == "needs" and (missing := missing or why_no_sandbox()):
            continue
        if block.marker == "file":
            path = folder / block.value
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, encoding="utf-8")
        elif block.marker == "output":
            if not missing:
                assert_printed(block.text, printed, where)
        elif block.language in RUN:
            printed = run_block(block, folder, where)
        elif block.language == "toml":
            tomllib.loads(block.text)
    if missing and os.environ.get("CI"):
        pytest.fail(f"CI must have a sandbox. {missing}", pytrace=False)
    if missing:
        pytest.skip(f"all but the blocks with programs passed: {missing}")


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_that_is_not_run_says_why(page: Path) -> None:
    for block in blocks(page):
        where = f"{name_of(page)}:{block.line}"
        if block.marker == "not run":
            assert len(block.value.split()) >= 3, f"{where}: `not run` needs a reason"
        if block.marker == "needs":
            assert block.value == "sandbox", f"{where}: only a sandbox can be needed"
        if block.marker == "file":
            before = page.read_text(encoding="utf-8").splitlines()[: block.line - 1]
            assert f"`{block.value}`" in "\n".join(before[-8:]), f"{where}: tell the reader the file's name, too"
        assert block.language != "bash", f"{where}: write sh, which is run"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_relative_links_and_images_exist(page: Path) -> None:
    for target in targets(page):
        path, _, anchor = target.partition("#")
        if "://" in target or target.startswith("mailto:"):
            continue
        other = (page.parent / path) if path else page
        assert other.exists(), f"{name_of(page)} links to {target}"
        assert not anchor or anchor in anchors(other), f"{name_of(page)}: {other.name} has no heading {anchor}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_files_that_a_page_names_exist(page: Path) -> None:
    folders = r"(?:docs|tests|benchmarks|configs|scripts|rloo_verify)"
    text = page.read_text(encoding="utf-8")
    for path in re.findall(rf"(?<![\w./-]){folders}/[\w./-]*\.(?:md|py|toml|sh|png)\b", text):
        assert (ROOT / path).exists(), f"{name_of(page)} names {path}"


def command_tree() -> Any:
    """The whole command line; a group has `commands`."""
    from rloo_verify.cli import app

    return typer.main.get_command(app)


def options_of(command: Any) -> set[str]:
    """The options of a command."""
    return {"--help", "--debug", *(option for parameter in command.params for option in parameter.opts)}


@functools.cache
def config_reference() -> ModuleType:
    """The script that writes docs/config.md."""
    spec = importlib.util.spec_from_file_location("config_reference", ROOT / "scripts/config_reference.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def config_keys() -> set[str]:
    """Every dotted key of a config, as the command line takes it."""
    reference = config_reference()
    return {f"{name}.{key}" for name, model in reference.tables() for key in reference.keys(model)}


def commands_in(text: str) -> Iterator[list[str]]:
    """The words of each `rloo-verify` command in a text, without comments, brackets and alternatives."""
    for line in text.replace("\\\n", " ").splitlines():
        for command in re.findall(r"rloo-verify [^#`]*", line):
            yield re.sub(r"[\[\]|()]", " ", command).split()[1:]


def wrong_options(words: list[str], command: Any) -> list[str]:
    """Options among the words of a command that it does not have."""
    keys = config_keys()
    wrong = []
    for word in words:
        if word in getattr(command, "commands", ()):
            command = command.commands[word]
        elif re.match(r"--?[A-Za-z]", word):
            option = word.partition("=")[0]
            dotted = re.sub(r"\.\d+\.", ".", option.removeprefix("--"))
            key = command.name == "train" and "." in option and (dotted in keys or dotted.startswith("tasks.options."))
            if not key and option not in options_of(command):
                wrong.append(f"{command.name} {option}")
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_every_option_in_a_command_exists(page: Path) -> None:
    tree = command_tree()
    texts = [*code_spans(page), *(block.text for block in blocks(page) if block.marker != "exits")]
    for text in texts:
        for words in commands_in(text):
            assert not wrong_options(words, tree), f"{name_of(page)}: rloo-verify {' '.join(words)}"


def test_a_wrong_option_in_a_command_is_noticed() -> None:
    tree = command_tree()
    (words,) = commands_in("rloo-verify eval gsm8k --modle x --k 1 [--json]  # --comment")
    assert wrong_options(words, tree) == ["eval --modle"]
    (words,) = commands_in("rloo-verify train quickstart --run.steps=5 --tasks.0.weight 2 --learner.rate 1")
    assert wrong_options(words, tree) == ["train --learner.rate"]
    (words,) = commands_in("`rloo-verify tasks show gsm8k -n 2 --count 3 -x`")
    assert wrong_options(words, tree) == ["show -x"]


def test_the_configuration_reference_is_up_to_date() -> None:
    reference = config_reference()
    same = reference.render() == reference.PAGE.read_text(encoding="utf-8")
    assert same, "the keys have changed; write the page again with: python scripts/config_reference.py"
