"""Finding task folders, and what is said when a task.toml is wrong."""

import os
import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from task_folder import write_task

import rloo_verify.tasks as tasks_module
from rloo_verify.errors import TaskError
from rloo_verify.tasks import find_task, list_tasks

BUILT_IN = ["aime24", "aime25", "arithmetic", "countdown", "dapo_math", "deepmath", "gsm8k", "math", "math500"]


def test_the_built_in_tasks_are_listed() -> None:
    assert [name for name in list_tasks() if name in BUILT_IN] == BUILT_IN


def test_importing_the_loader_imports_nothing_heavy() -> None:
    code = (
        "import sys, rloo_verify.tasks; print([m for m in ('torch', 'transformers', 'datasets', 'sympy', 'pyarrow')"
        " if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("summary", "sumary"), r"task.toml, line 2: unknown key `sumary` \(did you mean `summary`\?\)"),
        (('checker = "exact"', 'checker = "exact"\ntimeout = 3'), "check.timeout.*did you mean `timeout_seconds`"),
        (('train = "rows.jsonl"', 'trian = "rows.jsonl"'), r"line 6: unknown key `data.trian` \(did you mean `train`"),
        (('answer = "a"', 'anwser = "a"'), "`anwser` is too near to `answer`"),
        (('checker = "exact"', ""), "the key `check.checker` is missing"),
        (('license = "s"', "license = 3"), "license: Input should be a valid string"),
        (('user = "{question}"', 'user = "{question} {a}"'), "would show the model the reference answer, {a}"),
        (('user = "{question}"', 'system = "x"'), "needs `user`"),
        (('question = "q"', 'question = "q"\nmessages = "m"'), "exclude each other"),
        (('question = "q"', 'messages = "m"'), "the chat is the row's own"),
        (('summary = "s"', "summary = "), "is not TOML"),
    ],
)
def test_a_wrong_task_toml_is_explained(tmp_path: Path, change: tuple[str, str], message: str) -> None:
    folder = write_task(tmp_path / "mine", {"q": "1+1", "a": "2"})
    text = (folder / "task.toml").read_text()
    assert change[0] in text
    (folder / "task.toml").write_text(text.replace(*change, 1))
    with pytest.raises(TaskError, match=message) as caught:
        find_task(folder)
    assert str(folder / "task.toml") in str(caught.value)


def test_a_name_that_no_task_has_suggests_the_nearest() -> None:
    with pytest.raises(TaskError, match=r"no task is named `gms8k` \(did you mean `gsm8k`\?\)"):
        find_task("gms8k")


def test_a_path_without_a_task_toml_says_so(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"there is no .*task.toml"):
        find_task(tmp_path / "nothing")


def test_the_environment_variable_adds_task_folders_and_folders_of_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = write_task(tmp_path / "one", {"q": "1+1", "a": "2"})
    two = write_task(tmp_path / "many/two", {"q": "1+1", "a": "2"})
    monkeypatch.setenv("RLOO_VERIFY_TASKS", os.pathsep.join([str(one), str(two.parent)]))
    assert (find_task("one").folder, find_task("two").folder) == (one, two)
    monkeypatch.setenv("RLOO_VERIFY_TASKS", str(tmp_path / "gone"))
    with pytest.raises(TaskError, match=r"RLOO_VERIFY_TASKS names .*gone, which is not a folder"):
        find_task("one")


def test_the_same_name_in_two_places_names_both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = write_task(tmp_path / "gsm8k", {"q": "1+1", "a": "2"})
    monkeypatch.setenv("RLOO_VERIFY_TASKS", str(mine))
    with pytest.raises(TaskError, match="two tasks are named `gsm8k`") as caught:
        find_task("gsm8k")
    assert str(mine) in str(caught.value)
    assert find_task(mine).folder == mine  # a path is never ambiguous


def test_entry_points_give_task_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_task(tmp_path / "theirs", {"q": "1+1", "a": "2"})
    (tmp_path / "their_package.py").write_text(f"FOLDER = {str(folder)!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint("theirs", "their_package:FOLDER", "rloo_verify.tasks")]
    monkeypatch.setattr(tasks_module, "entry_points", lambda group: points if group == "rloo_verify.tasks" else [])
    assert find_task("theirs").folder == folder
    points[0] = EntryPoint("theirs", "their_package:NOTHING", "rloo_verify.tasks")
    with pytest.raises(TaskError, match="entry point `theirs`"):
        find_task("theirs")


def test_the_checker_comes_with_its_options_bound() -> None:
    check = find_task("arithmetic").load_checker()
    assert check("it is 932", "932", {}).outcome == "pass"  # type: ignore[union-attr]
    assert check("it is 931", "932", {}).outcome == "fail"  # type: ignore[union-attr]
