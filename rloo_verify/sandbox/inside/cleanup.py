"""Removes what a run left in the folders that programs may write to."""

import contextlib
import os
import shutil
from typing import Any


def clean(folders: list[str], work: str) -> str | None:
    """Removes every file in these folders, or, where there are none, the run's own folder.

    Args:
        folders: The writable folders of a sandbox, which hold nothing but what runs leave.
        work: The run's scratch folder.

    Returns:
        What could not be removed, or None.
    """
    with contextlib.suppress(OSError):  # all that most programs leave
        os.unlink(f"{work}/solution.py")
        os.rmdir(work)
    if not folders:
        shutil.rmtree(work, ignore_errors=True)
        return None
    used = [(folder, names) for folder in folders if (names := os.listdir(folder))]
    for folder, names in used:
        for name in names:
            remove(os.path.join(folder, name))
    left = [folder for folder, _ in used if os.listdir(folder)]
    return f"files are left in {left}" if left else None


def remove(path: str) -> None:
    """Removes a file, or a folder with all that it holds."""
    if os.path.isdir(path) and not os.path.islink(path):
        shutil.rmtree(path, onerror=make_removable)
    else:
        os.unlink(path)


def make_removable(function: Any, path: str, _: Any) -> None:
    """Removes what a first attempt could not: permissions were taken away."""
    try:
        os.chmod(os.path.dirname(path), 0o700)
        os.chmod(path, 0o700)
    except OSError:
        return
    if function is os.unlink:
        os.unlink(path)
    else:
        shutil.rmtree(path, ignore_errors=True)
