"""A task with another checker, or other options of its own: what `score --checker` judges with."""

import contextlib
import inspect
import tempfile
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import tomli_w

from rloo_verify import checkers
from rloo_verify.errors import TaskError
from rloo_verify.task_spec import load_spec
from rloo_verify.tasks import Task


def with_checker(task: Task, checker: str | None, options: Mapping[str, Any]) -> Task:
    """The task, judged otherwise.

    Args:
        task: The task.
        checker: `math`, `exact`, `choice`, `code`, or `FILE.py:FUNCTION` relative to the working folder; None keeps the
            task's own with its options.
        options: Options of the checker; they replace the task's by name where its own checker stays.

    Raises:
        TaskError: There is no such checker, or it takes no such option.
    """
    if checker is None and not options:
        return task
    check = task.spec.check
    if checker is None:
        name = check.checker if ":" not in check.checker else f"{task.folder}/{check.checker}"
        changes: dict[str, Any] = {"checker": name, "options": {**check.options, **options}}
    else:
        name = checker if ":" not in checker else f"{Path.cwd()}/{checker}"
        changes = {"checker": name, "options": dict(options), "timeout_seconds": None, "reference_form": None}
    function = checkers.load(name, task.folder)
    try:
        inspect.signature(function).bind("", None, {}, **changes["options"])
    except TypeError as error:
        raise TaskError(f"the checker {name}: {error}") from error
    return Task(task.name, task.folder, task.spec.model_copy(update={"check": check.model_copy(update=changes)}))


@contextlib.contextmanager
def checker_folder(task: Task) -> Iterator[Path]:
    """A folder from which verifier workers load the task's checker: its own, or for a changed check a temporary one."""
    file = task.folder / "task.toml"
    if load_spec(file).check == task.spec.check:
        yield task.folder
        return
    document = tomllib.loads(file.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="rloo-verify-") as place:
        folder = Path(place) / task.name
        folder.mkdir()
        text = tomli_w.dumps({**document, "check": task.spec.check.model_dump(exclude_none=True)})
        (folder / "task.toml").write_text(text, encoding="utf-8")
        yield folder
