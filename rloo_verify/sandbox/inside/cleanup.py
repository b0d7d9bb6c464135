"""Removes what a run left in the folders that programs may write to, and closes its descriptors."""

import os
import selectors
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
    if not folders:
        shutil.rmtree(work, ignore_errors=True)
        return None
    for folder in folders:
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path, onerror=make_removable)
            else:
                os.unlink(path)
    left = [folder for folder in folders if os.listdir(folder)]
    return f"files are left in {left}" if left else None


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


def close(key: selectors.SelectorKey) -> None:
    """Closes a descriptor, or the socket that owns it."""
    if isinstance(key.fileobj, int):
        os.close(key.fileobj)
    else:
        key.fileobj.close()  # type: ignore[attr-defined]
