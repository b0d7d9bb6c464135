"""The run folder: one folder that holds everything about a run, written so that a kill at any moment loses no step."""

import contextlib
import fcntl
import json
import logging
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rloo_verify.config import Config
from rloo_verify.configfile import changed_keys, dump_config, load_config
from rloo_verify.environment import environment
from rloo_verify.errors import RunError
from rloo_verify.storage import read_jsonl, storage_errors, write_atomically

MAY_CHANGE = ("run.steps", "run.out", "eval.", "save.", "track.", "verify.workers", "policy.gpu_memory_utilization",
              "policy.sleep", "learner.offload_optimizer")  # fmt: skip
"""Keys that a resumed run may change: they do not touch what has been learned so far."""


class _LogFile(logging.FileHandler):
    """logs/train.log. A line that cannot be written is left out: a full disk is told once, by what needs the disk."""

    def handleError(self, record: logging.LogRecord) -> None:
        """Prints no traceback."""

    def close(self) -> None:
        with contextlib.suppress(OSError):
            super().close()


class RunReader:
    """Reads a run folder, also while a run writes to it.

    Attributes:
        path: The folder.
    """

    def __init__(self, path: Path) -> None:
        """Takes the path of a run folder.

        Raises:
            RunError: if it is not one.
        """
        if not (path / "config.toml").is_file():
            raise RunError(f"{path} is not a run folder: it has no config.toml")
        self.path = path

    def metrics(self) -> list[dict[str, Any]]:
        """The rows of metrics.jsonl, one a finished step."""
        return read_jsonl(self.path / "metrics.jsonl")

    def evaluations(self) -> list[dict[str, Any]]:
        """Finished evaluations in order of their step."""
        files = sorted((self.path / "eval").glob("step-*.json"))
        return [json.loads(file.read_text(encoding="utf-8")) for file in files]


class RunFolder(RunReader):
    """`<out>/<name>/` with config.toml, environment.json, metrics.jsonl, rollouts/, eval/, checkpoints/ and logs/.

    Use as a context manager: it holds the folder's lock, so that no second process writes to the same run.
    """

    def __init__(self, config: Config, *, fresh: bool = False) -> None:
        """Opens or creates the folder of a run.

        Args:
            config: The run's resolved config.
            fresh: Delete what is there and start over.

        Raises:
            RunError: if another process has it, it is not a run folder, or it was made by a different config.
        """
        self.path = Path(config.run.out) / config.run.name
        self.metrics_path = self.path / "metrics.jsonl"
        self.checkpoints = self.path / "checkpoints"
        with storage_errors(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            lock = (self.path / ".lock").open("w")
        self._lock = self._take_lock(lock)
        try:
            if fresh:
                self._clear()
            self._check_config(config)
            write_atomically(self.path / "config.toml", dump_config(config))
            write_atomically(self.path / "environment.json", json.dumps(environment(), indent=1) + "\n")
            with storage_errors(self.path / "logs"):
                (self.path / "logs").mkdir(exist_ok=True)
                self._log = _LogFile(self.path / "logs" / "train.log", encoding="utf-8")
        except BaseException:
            self._lock.close()
            raise

    def __enter__(self) -> "RunFolder":
        self._log.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
        logging.getLogger("rloo_verify").addHandler(self._log)
        return self

    def __exit__(self, *_: object) -> None:
        logging.getLogger("rloo_verify").removeHandler(self._log)
        self._log.close()
        self._lock.close()

    def append_metrics(self, row: Mapping[str, Any]) -> None:
        """Adds one step's row to metrics.jsonl."""
        with storage_errors(self.metrics_path), self.metrics_path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def write_rollouts(self, step: int, lines: Iterator[str]) -> None:
        """Writes `rollouts/step-000012.jsonl`."""
        write_atomically(self.path / "rollouts" / f"step-{step:06d}.jsonl", "".join(f"{line}\n" for line in lines))

    def write_evaluation(self, step: int, values: Mapping[str, Any], lines: Iterator[str]) -> None:
        """Writes `eval/step-000012.jsonl` (samples), then `eval/step-000012.json` (rates), which marks it as done."""
        write_atomically(self.path / "eval" / f"step-{step:06d}.jsonl", "".join(f"{line}\n" for line in lines))
        write_atomically(self.path / "eval" / f"step-{step:06d}.json", json.dumps({"step": step, **values}, indent=1))

    def forget_after(self, step: int) -> None:
        """Drops metrics, rollouts and evaluations of steps after a checkpoint; they are about to be done again."""
        (self.path / "summary.json").unlink(missing_ok=True)
        kept = [row for row in self.metrics() if row["step"] <= step]
        write_atomically(self.metrics_path, "".join(json.dumps(row) + "\n" for row in kept))
        for folder in ("rollouts", "eval"):
            for file in (self.path / folder).glob("*step-*"):
                if int(file.stem.rpartition("-")[2].partition(".")[0]) > step:
                    file.unlink()

    def finished(self, steps: int) -> dict[str, Any] | None:
        """The summary of a run that has done all its steps and its last evaluation; None if there is work left."""
        file = self.path / "summary.json"
        summary: dict[str, Any] = json.loads(file.read_text(encoding="utf-8")) if file.exists() else {}
        saved = (self.checkpoints / f"step-{steps:06d}").is_dir()
        return summary if saved and summary.get("steps") == steps else None

    def _take_lock(self, lock: Any) -> Any:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise RunError(
                f"{self.path} is in use by another process; wait for it, stop it, or choose another --run.name"
            ) from None
        return lock

    def _clear(self) -> None:
        self._refuse_other_folders("nothing was deleted")
        with storage_errors(self.path):
            # config.toml last: a kill on the way leaves what is still known as a run folder
            for item in sorted(self.path.iterdir(), key=lambda item: item.name == "config.toml"):
                if item.name != ".lock":
                    shutil.rmtree(item) if item.is_dir() else item.unlink()

    def _refuse_other_folders(self, advice: str) -> None:
        begun = (".lock", ".config.toml.")  # what a kill leaves behind before there is a config.toml
        if not (self.path / "config.toml").exists() and any(
            not item.name.startswith(begun) for item in self.path.iterdir()
        ):
            raise RunError(f"{self.path} holds files but no config.toml, so it is not a run folder; {advice}")

    def _is_empty(self) -> bool:
        """Whether nothing was evaluated, trained or saved, as after a start that failed; then any config may follow."""
        checkpoints = next(self.checkpoints.glob("step-*"), None)
        return checkpoints is None and not self.metrics() and not self.evaluations()

    def _check_config(self, config: Config) -> None:
        saved = self.path / "config.toml"
        self._refuse_other_folders("choose another --run.name")
        if not saved.exists() or self._is_empty():
            return
        changes = [line for line in changed_keys(load_config(saved), config) if not line.startswith(MAY_CHANGE)]
        if changes:
            raise RunError(
                f"{self.path} was made by a different config ({'; '.join(changes)}); "
                "go back to it, use --fresh to start over, or choose another --run.name"
            )
