"""Checkers: text -> verdict.

A checker is one function. It is handed the completion, the reference answer of the row, the row, and the options of the
task's `[check]` table; it returns a `Verdict`, or a bool where PASS and FAIL say everything. It raises where it cannot
judge: `rloo_verify.verify` turns that into an ERROR verdict, so no checker needs a try/except around itself.

This module imports nothing heavy: verifier workers load it.
"""

import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol, cast

from rloo_verify.errors import TaskError
from rloo_verify.types import Verdict

BUILT_IN = ("math", "exact", "choice", "code")


class UnusableReferenceError(Exception):
    """The reference of a row cannot be judged against; the message says why. Makes an ERROR verdict."""


class Checker(Protocol):
    """What judges one completion. Plain functions qualify.

    Three attributes are optional. `prepare(answer, **options)` reads the reference alone: a verifier worker calls it
    first, so that time lost on an absurd reference (ERROR) is told apart from time lost on an absurd answer (FAIL).
    `warm_up()` is called once in every worker before its first request, so that imports are billed to no time limit.
    `timeout_seconds` is its CPU time limit where the task states none.
    """

    def __call__(self, completion: str, answer: Any, row: Mapping[str, Any], **options: Any) -> Verdict | bool:
        """Judge `completion` against the reference `answer`.

        Args:
            completion: The text of the completion, reasoning included.
            answer: The reference, in the form that the task's loader gave it.
            row: The columns of the row that checkers may use.
            **options: The options of the task's `[check]` table.

        Returns:
            A verdict, or True for PASS and False for FAIL.
        """
        ...


def load(name: str, folder: Path) -> Checker:
    """Load a checker by its name in `task.toml`.

    Args:
        name: A built-in (`math`, `exact`, `choice`, `code`) or `FILE:FUNCTION`, for instance `check.py:check`.
        folder: The task's folder, which FILE is relative to.

    Returns:
        The checker.

    Raises:
        TaskError: No built-in has this name, or the file or the function is missing or cannot be imported.
    """
    if name in BUILT_IN:
        return cast(Checker, importlib.import_module(f"rloo_verify.checkers.{name}").check)
    file, colon, function = name.partition(":")
    if not colon or not file or not function:
        raise TaskError(
            f"{folder}: no checker is called {name!r}; use one of {', '.join(BUILT_IN)}, or FILE.py:FUNCTION "
            "for a function in the task's own folder"
        )
    return _load_from_file(folder / file, function)


def _load_from_file(path: Path, function: str) -> Checker:
    if not path.is_file():
        raise TaskError(f"{path}: this file, named by the task's checker, does not exist")
    # The folder is part of the name: two tasks may both have a check.py.
    unique = f"rloo_verify_check_{path.stem}_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    module = sys.modules.get(unique)
    if module is None:
        spec = importlib.util.spec_from_file_location(unique, path)
        if spec is None or spec.loader is None:
            raise TaskError(f"{path}: not a Python file that can be imported; its name must end in .py")
        module = importlib.util.module_from_spec(spec)
        sys.modules[unique] = module
        try:
            spec.loader.exec_module(module)
        except BaseException as error:
            del sys.modules[unique]
            if isinstance(error, Exception):
                raise TaskError(f"{path}: importing it failed with {type(error).__name__}: {error}") from error
            raise
    checker = getattr(module, function, None)
    if not callable(checker):
        known = sorted(key for key, value in vars(module).items() if callable(value) and not key.startswith("_"))
        raise TaskError(f"{path}: it defines no function {function!r}; it defines {', '.join(known) or 'none'}")
    return cast(Checker, checker)
