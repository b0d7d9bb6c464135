"""Finds task folders and loads their rows into Problems.

Search order: an explicit path, the folders in `$RLOO_VERIFY_TASKS`, entry points of the group `rloo_verify.tasks`, and
the built-in tasks. The same name in two places is an error that names both.

This module imports nothing heavy: verifier workers load it to find a task's checker.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rloo_verify.columns import pick, problem_from_row
from rloo_verify.errors import TaskError
from rloo_verify.folders import data_folder
from rloo_verify.rows import Row, read_rows
from rloo_verify.task_spec import SPLITS, TaskSpec, load_spec, nearest
from rloo_verify.types import Problem, Verdict

ENVIRONMENT_VARIABLE = "RLOO_VERIFY_TASKS"
ENTRY_POINT_GROUP = "rloo_verify.tasks"

BoundChecker = Callable[[str, Any, Mapping[str, Any]], Verdict | bool]


@dataclass(frozen=True)
class Task:
    """One task folder.

    Attributes:
        name: The folder's name.
        folder: The folder that holds task.toml.
        spec: What task.toml says, overrides applied.
        options: Overrides of `[data.options]`, for generated data.
    """

    name: str
    folder: Path
    spec: TaskSpec
    options: Mapping[str, Any] = field(default_factory=dict)

    def problems(self, split: str, *, limit: int | None = None, data: str | Path | None = None) -> list[Problem]:
        """Loads the problems of a split, in the order of the source; nothing is read twice.

        Args:
            split: `train`, `validation`, `test` or `sample`.
            limit: Stop after so many problems; None for all of them.
            data: A file (relative to the working folder) or an `hf:` source to read instead of the split's own source.

        Returns:
            At least one problem. Ids are `task/split/row`, where row counts from 0 in the source, duplicates included.

        Raises:
            TaskError: The split does not exist, its source cannot be read, a row cannot be used, or there are no rows.
        """
        if limit is not None and limit < 1:
            raise TaskError(f"{self.name}: the number of problems must be at least 1, not {limit}")
        stream = (self.problem(row, problem_id, origin) for problem_id, origin, row in self.rows(split, data=data))
        problems: list[Problem] = []
        ids: set[str] = set()
        for problem in self._distinct(stream):
            if problem.id in ids:
                raise TaskError(f"two rows have the id {problem.id}; map `id` to a column without repeats, or to none")
            ids.add(problem.id)
            problems.append(problem)
            if len(problems) == limit:
                break
        if not problems:
            raise TaskError(f"{self.name}/{split}: {data or self._source(split)} has no rows")
        return problems

    def rows(self, split: str, *, data: str | Path | None = None) -> Iterator[tuple[str, str, Row]]:
        """Yields `(problem id, where the row comes from, row)` for the rows of a split, duplicates included.

        Args:
            split: As in `problems`.
            data: As in `problems`.

        Raises:
            TaskError: The split does not exist, its source cannot be read, or a row lacks the mapped `id`.
        """
        source = _outside_source(data) if data is not None else self._source(split)
        spec = self.spec.data
        options = {**spec.options, **self.options} if source.startswith("py:") else {}
        rows = read_rows(source, folder=self.folder, split=split, options=options, drop=spec.drop)
        for index, row in enumerate(rows):
            problem_id = f"{self.name}/{split}/{index}"
            if spec.columns.id:
                try:
                    problem_id = f"{self.name}/{split}/{pick(row, spec.columns.id)}"
                except (KeyError, ValueError) as error:
                    raise TaskError(f"{problem_id} ({source}): {error.args[0]}") from error
            yield problem_id, source, row

    def problem(self, row: Mapping[str, Any], problem_id: str, origin: str) -> Problem:
        """Builds a problem from a row that is at hand, for instance from cases.jsonl.

        Raises:
            TaskError: The row lacks what the column map and the templates ask for.
        """
        return problem_from_row(row, self.spec, task=self.name, problem_id=problem_id, origin=origin)

    def load_checker(self) -> BoundChecker:
        """The task's checker with `[check] options` bound: `check(completion, answer, row)`.

        Raises:
            TaskError: There is no such checker, or the task's check.py cannot be loaded.
        """
        from rloo_verify import checkers  # checkers may load tasks; sympy is imported by the math checker only

        checker = checkers.load(self.spec.check.checker, self.folder)
        return partial(checker, **self.spec.check.options)

    def _source(self, split: str) -> str:
        splits = self.spec.data.splits
        if split not in splits:
            raise TaskError(f"task {self.name} has no split `{split}`; it has {', '.join(splits)}")
        return splits[split]

    def _distinct(self, problems: Iterator[Problem]) -> Iterator[Problem]:
        if not self.spec.data.dedupe:
            yield from problems
            return
        seen: set[bytes] = set()  # digests, because a hub data set may hold millions of copies of long prompts
        for problem in problems:
            digest = blake2b(json.dumps(problem.messages).encode(), digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                yield problem


def find_task(
    name_or_path: str | Path,
    data: Mapping[str, str | Path] | None = None,
    *,
    options: Mapping[str, Any] | None = None,
    columns: Mapping[str, str] | None = None,
    gold: str | None = None,
) -> Task:
    """Finds a task by name or by the path of its folder.

    Args:
        name_or_path: A name, or a path (it contains a separator, or is a folder with a task.toml).
        data: Sources that replace those of task.toml, by split; files are relative to the working folder.
        options: Overrides of `[data.options]`, for instance `{"level": 2}` for arithmetic.
        columns: Overrides of `[data.columns]`, for a local file with other column names.
        gold: Overrides `[data] gold`.

    Raises:
        TaskError: There is no such task, its name is taken twice, its task.toml is wrong, or an override is.
    """
    folder = _folder_of(name_or_path)
    spec = load_spec(folder / "task.toml")
    unknown = [split for split in data or {} if split not in SPLITS]
    if unknown:
        raise TaskError(f"data.{unknown[0]}: no such split{nearest(unknown[0], SPLITS)}; use {', '.join(SPLITS)}")
    changes: dict[str, Any] = {split: _outside_source(source) for split, source in (data or {}).items()}
    try:
        if gold is not None:
            changes["gold"] = gold
        merged = {**spec.data.model_dump(exclude={"columns"}), **changes}
        replaced = spec.data.columns.replaced(columns or {})
        spec = spec.model_copy(update={"data": type(spec.data).model_validate({**merged, "columns": replaced})})
    except ValidationError as error:
        first = error.errors()[0]
        raise TaskError(f"task {folder.name}: {first.get('ctx', {}).get('error', first['msg'])}") from error
    if options and not any(source.startswith("py:") for source in spec.data.splits.values()):
        raise TaskError(f"task {folder.name} takes no data options: its rows are read, not generated")
    return Task(name=folder.name, folder=folder, spec=spec, options=dict(options or {}))


def list_tasks() -> dict[str, Path]:
    """Every task that a name can find, in alphabetical order, with its folder.

    Raises:
        TaskError: Two different folders have the same name, or a place that was named does not exist.
    """
    found: dict[str, Path] = {}
    for place in _places():
        for folder in _task_folders(place):
            other = found.setdefault(folder.name, folder)
            if other != folder:
                raise TaskError(f"two tasks are named `{folder.name}`: {other} and {folder}; rename one of them")
    return dict(sorted(found.items()))


def _folder_of(name_or_path: str | Path) -> Path:
    text = str(name_or_path)
    path = Path(text).expanduser()
    separators = [separator for separator in (os.sep, os.altsep) if separator]
    if any(separator in text for separator in separators) or (path / "task.toml").is_file():
        if not (path / "task.toml").is_file():
            raise TaskError(f"no task at {text}: there is no {path / 'task.toml'}")
        return path.resolve()
    tasks = list_tasks()
    if text not in tasks:
        raise TaskError(f"no task is named `{text}`{nearest(text, tasks)}; the tasks are: {', '.join(tasks)}")
    return tasks[text]


def _places() -> Iterator[Path]:
    for entry in filter(None, os.environ.get(ENVIRONMENT_VARIABLE, "").split(os.pathsep)):
        if not Path(entry).is_dir():
            raise TaskError(f"${ENVIRONMENT_VARIABLE} names {entry}, which is not a folder")
        yield Path(entry)
    for point in entry_points(group=ENTRY_POINT_GROUP):
        try:
            loaded = point.load()
            yield Path(loaded if isinstance(loaded, str | Path) else next(iter(loaded.__path__)))
        except Exception as error:  # another project's code may fail in any way
            raise TaskError(f"entry point `{point.name}` ({point.value}) gives no task folder: {error}") from error
    yield data_folder("tasks")


def _task_folders(place: Path) -> list[Path]:
    """The place itself where it is a task, else the tasks in it."""
    place = place.resolve()
    if (place / "task.toml").is_file():
        return [place]
    return sorted(path.parent.resolve() for path in place.glob("*/task.toml"))


def _outside_source(source: str | Path) -> str:
    """A source given from outside the task folder, where a relative path means the working folder."""
    text = str(source)
    return text if text.startswith(("hf:", "py:")) else str(Path(text).expanduser().resolve())
