"""Judges of outputs that are not unique: functions `(input, expected output, found output) -> bool` on the host."""

from pathlib import Path

from rloo_verify.grading.suite import OutputChecker
from rloo_verify.rows import load_function


def derangement(stdin: str, expected: str, found: str) -> bool:  # noqa: ARG001 - every checker takes all three
    """Whether the output is a permutation of 1..n, n being the input, that leaves no number in its place."""
    words = found.split()
    if not all(word.isascii() and word.isdigit() and len(word) < 10 for word in words):
        return False
    numbers = [int(word) for word in words]
    count = int(stdin.split()[0])
    return sorted(numbers) == list(range(1, count + 1)) and all(n != i for i, n in enumerate(numbers, start=1))


class Checkers(dict[str, OutputChecker]):
    """Output checkers by name; a name that is not built in is looked up in the user's file."""

    def __init__(self, file: Path | None) -> None:
        super().__init__(derangement=derangement)
        self._file = file

    def get(self, name: str, default: OutputChecker | None = None) -> OutputChecker | None:  # type: ignore[override]
        """The checker of a name.

        Raises:
            TaskError: The user's file cannot be imported or has no such function.
        """
        if name in self or self._file is None:
            return super().get(name, default)
        return load_function(f"{self._file.name}:{name}", self._file.parent)


def load_checkers(file: Path | None) -> Checkers:
    """The built-in output checkers and those of a user's file."""
    return Checkers(file)
