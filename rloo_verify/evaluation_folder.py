"""The folder of one evaluation: what was asked for, every judged completion, and the rates; it resumes after a kill."""

import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rloo_verify.errors import RunError
from rloo_verify.samples import Sample, read_samples
from rloo_verify.storage import storage_errors, write_atomically

SETTINGS, SAMPLES, SUMMARY = "settings.json", "samples.jsonl", "summary.json"
OTHERS = ("report.html", "agreement.json")
"""What may stand beside them; all of it goes with `fresh`."""


class EvaluationFolder:
    """settings.json, samples.jsonl and summary.json.

    Use as a context manager: it holds the folder's lock, so that no second process writes to the same samples.

    Attributes:
        path: The folder.
        samples: All that is judged, by an earlier command or by this one.
    """

    def __init__(self, path: Path, settings: Mapping[str, Any], *, fresh: bool = False) -> None:
        """Opens or creates a folder. A torn last line of its samples, which a killed process leaves, is cut off.

        Args:
            path: The folder.
            settings: What was asked for, as JSON values; whatever would change a sample belongs here, nothing else.
            fresh: Delete what is there and start over.

        Raises:
            RunError: The folder holds something else, another process has it, or its settings are different.
            StorageError: It cannot be written.
        """
        self.path = path
        foreign = (
            path.is_dir() and any(path.iterdir()) and not (path / SETTINGS).is_file() and not (path / ".lock").is_file()
        )
        if foreign or path.is_file():
            raise RunError(f"{path} exists and is not an evaluation folder; choose another with --out")
        with storage_errors(path):
            path.mkdir(parents=True, exist_ok=True)
            self._lock = (path / ".lock").open("w")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._lock.close()
            raise RunError(
                f"{path} is in use by another process; wait for it, stop it, or choose another --out"
            ) from None
        try:
            if fresh:
                self._clear()
            self._check(json.loads(json.dumps(settings)))
            self.samples = self._read()
            with storage_errors(path / SAMPLES):
                self._file = (path / SAMPLES).open("a", encoding="ascii")
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> "EvaluationFolder":
        """Return the folder itself."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the samples and give the folder free."""
        self._file.close()
        self._lock.close()

    def append(self, sample: Sample) -> None:
        """Add a judged completion; it survives a kill of this process from now on.

        Raises:
            StorageError: It cannot be written.
        """
        with storage_errors(self.path / SAMPLES):
            self._file.write(sample.line() + "\n")
            self._file.flush()
        self.samples.append(sample)

    def keep(self, samples: Sequence[Sample]) -> None:
        """Leave only these of the samples, for instance all but the errors, and forget the summary.

        Raises:
            StorageError: It cannot be written.
        """
        self._file.close()
        (self.path / SUMMARY).unlink(missing_ok=True)
        write_atomically(self.path / SAMPLES, "".join(f"{sample.line()}\n" for sample in samples))
        self.samples = list(samples)
        self._file = (self.path / SAMPLES).open("a", encoding="ascii")

    def finish(self, summary: Mapping[str, Any]) -> None:
        """Write summary.json.

        Raises:
            StorageError: It cannot be written.
        """
        with storage_errors(self.path / SAMPLES):
            os.fsync(self._file.fileno())
        write_atomically(self.path / SUMMARY, json.dumps(summary, indent=1, default=str) + "\n")

    def _clear(self) -> None:
        for name in (
            SUMMARY,
            SAMPLES,
            SETTINGS,
            *OTHERS,
        ):  # the settings after the samples: a kill in between is harmless
            with storage_errors(self.path / name):
                (self.path / name).unlink(missing_ok=True)

    def _check(self, settings: Mapping[str, Any]) -> None:
        """Keep the settings of a new folder; refuse those that differ from what is there."""
        file = self.path / SETTINGS
        if not file.is_file():
            write_atomically(file, json.dumps(settings, indent=1) + "\n")
            return
        old = read_settings(self.path)
        changed = [key for key in {**old, **settings} if old.get(key) != settings.get(key)]
        if changed:
            changes = "; ".join(f"{key}: {old.get(key)!r} before, {settings.get(key)!r} now" for key in changed)
            raise RunError(
                f"{self.path} holds an evaluation with other settings ({changes}): choose another --out, or start over"
                " with --fresh"
            )

    def _read(self) -> list[Sample]:
        file = self.path / SAMPLES
        if not file.is_file():
            return []
        content = file.read_bytes()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):
            with storage_errors(file):
                os.truncate(file, whole)
        return read_samples(file)


def read_settings(path: Path) -> dict[str, Any]:
    """The settings of an evaluation folder; none where it has no settings.json.

    Raises:
        RunError: They cannot be read.
    """
    file = path / SETTINGS
    if not file.is_file():
        return {}
    try:
        settings: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{file} cannot be read: {error}; start over with --fresh") from error
    return settings
