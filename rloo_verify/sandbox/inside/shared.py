"""The program in the process of its own tests, for the few test files that hand live objects to it.

Weaker than everything else here: a program may look for its tests and change what they report. Off unless asked for,
and marked in the verdict.
"""

import sys
import types
from typing import Any

from . import program


class Shared:
    """The tests' end of a program in the same process; has the interface of `stub.Stub`.

    Args:
        job: The program, as for `program.run`.
        path: The file that the program is written to.
        channel: Where a compile error is reported.

    Attributes:
        calls: How often the tests took something from the program.
        needs_live: Never set: live objects are what this is for.
    """

    def __init__(self, job: dict[str, Any], path: str, channel: int) -> None:
        self.calls = 0
        self.needs_live = None
        self.module = types.ModuleType("solution")
        self.module.__file__ = path
        code = program.choose_source(job, path, channel)
        if code is None:
            raise SyntaxError("the program does not compile")
        sys.modules["solution"] = self.module
        if job.get("preamble"):
            exec(compile(job["preamble"], "preamble", "exec", dont_inherit=True), self.module.__dict__)
        exec(code, self.module.__dict__)

    def lookup(self, name: str) -> Any:
        """A top-level name of the program, or a method of its `class Solution`.

        Raises:
            AttributeError: It has neither.
        """
        self.calls += 1
        if not hasattr(self.module, name) and hasattr(self.module, "Solution"):
            return getattr(self.module.Solution(), name)
        return getattr(self.module, name)

    def as_module(self, name: str) -> types.ModuleType:
        """The program as the module that the test file imports."""
        del name
        self.calls += 1
        return self.module
