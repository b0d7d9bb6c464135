"""The command line, run inside a test; the fixture `command` is in conftest.py."""

from collections.abc import Callable

Command = Callable[..., tuple[int, str, str]]
"""Exit code, standard output, standard error."""


def assert_user_error(result: tuple[int, str, str], *parts: str) -> None:
    """Exit code 2 and one sentence on standard error that has all parts; progress notes may precede it."""
    code, out, err = result
    assert code == 2, out + err
    (error,) = [line for line in err.splitlines() if line.startswith("error: ")]
    for part in parts:
        assert part in error
    assert "Traceback" not in out + err
