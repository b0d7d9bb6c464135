"""The tests of a problem, in one of four shapes, and how programs for them are put together."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

OutputChecker = Callable[[str, str, str], bool]
"""A task's own judgement of an output, on the host: `(input, expected output, found output) -> bool`."""


@dataclass(frozen=True, slots=True)
class Expectation:
    """What a literal assert says of a call's value.

    Attributes:
        kind: `equals` (under the suite's comparison), `true`, `false` (truth value), `is` (the very constant), `near`
            (absolute difference below `tolerance`), `differs` (Python's `!=`).
        value: The literal.
        tolerance: For `near`.
    """

    kind: Literal["equals", "true", "false", "is", "near", "differs"]
    value: Any = None
    tolerance: float = 0.0


@dataclass(frozen=True, slots=True)
class CallTest:
    """One call with plain arguments."""

    args: tuple[Any, ...]
    expected: Expectation
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    name: str = ""


@dataclass(frozen=True, slots=True)
class OutputTest:
    """One run with standard input."""

    stdin: str
    expected: str


@dataclass(frozen=True, slots=True)
class TestFile:
    """A test file that runs in a process of its own, against a stub of the program.

    Attributes:
        kind: `script` (asserts that run top to bottom) or `pytest` (pytest functions or unittest cases).
        source: Its text.
        call: For a script: the function that takes the candidate, for instance `check`.
        module: For pytest: the name under which the file imports the program.
    """

    __test__ = False  # no test for pytest to collect

    kind: Literal["script", "pytest"]
    source: str
    call: str = ""
    module: str = "solution"


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of one problem.

    Attributes:
        tests: Calls or outputs, each run in a fork of its own; or one test file.
        entry: The function that is tested; may be a method of `class Solution`.
        compare: Name of a comparison (`compare.py`).
        output_checker: Judges output instead of `compare`.
        preamble: Run before the program, in its namespace: imports that the prompt promises.
        helpers: Functions of the prompt that test files may call; they come from here, never from the program.
        prompt: Code that a completion continues (HumanEval); empty where the reply is a whole program.
        live: Whether a test file that hands live objects to the program may run in the program's process, where the
            program can tamper with it. Otherwise it cannot be judged.
    """

    tests: Sequence[CallTest] | Sequence[OutputTest] | TestFile
    entry: str = ""
    compare: str = "exact"
    output_checker: OutputChecker | None = None
    preamble: str = ""
    helpers: str = ""
    prompt: str = ""
    live: bool = False


_STAR_IMPORTS = ("string", "re", "datetime", "collections", "heapq", "bisect", "copy", "math", "random", "statistics",
                 "itertools", "functools", "operator", "json", "typing", "builtins")  # fmt: skip
_MODULES = (*_STAR_IMPORTS[:-1], "io", "sys", "os", "time")

STANDARD_IMPORTS = "".join(f"from {name} import *\n" for name in _STAR_IMPORTS) + f"import {', '.join(_MODULES)}\n"
"""What LeetCode promises and LiveCodeBench prepends; the built-ins come last, so that `pow` and `abs` stay theirs."""
