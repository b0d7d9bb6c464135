"""Writing files so that a kill or a full disk never leaves a half-written one."""

import contextlib
import errno
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rloo_verify.errors import StorageError


@contextlib.contextmanager
def storage_errors(path: Path) -> Iterator[None]:
    """Turns a full disk and other write failures into one sentence.

    Raises:
        StorageError: for any `OSError` inside the context.
    """
    try:
        yield
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        what = "the disk is full" if full else error.strerror or str(error)
        advice = "make room" if full else "mend that"
        raise StorageError(
            f"cannot write {path}: {what}; what was written before is intact, {advice} and run the same command again"
        ) from error


def write_atomically(path: Path, text: str) -> None:
    """Writes a file under a temporary name, flushes it to the disk, and renames it.

    Two processes may write the same file, as a trainer and a viewer do: each has a temporary name of its own, and
    neither can take the other's away.

    Raises:
        StorageError: if it cannot be written.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        with temporary.open("w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)


def read_jsonl(path: Path) -> list[dict[str, Any]]:
    """The rows of a JSON-lines file; none if it does not exist. A torn last line (a killed writer) is left out."""
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
        with contextlib.suppress(json.JSONDecodeError):
            rows.append(json.loads(line))
    return rows
