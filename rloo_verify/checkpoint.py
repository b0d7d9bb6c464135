"""Checkpoints: a Hugging Face folder that any tool opens, plus the state that resumes to the same bits."""

import contextlib
import json
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from rloo_verify.errors import RunError
from rloo_verify.learner import Learner
from rloo_verify.storage import storage_errors

STATE_FOLDER = "rloo_state"
"""Folder of the resume state inside a checkpoint."""


def save_checkpoint(folder: Path, step: int, learner: Learner, tokenizer: Any, dtype: torch.dtype, keep: int) -> Path:
    """Writes `step-000100/` beside the others and deletes all but the newest `keep`.

    Everything goes to a temporary folder that is renamed at the end: a checkpoint is complete or not there.

    Args:
        folder: The run's `checkpoints/`.
        step: Steps done.
        learner: What to save; adapters are merged into the Hugging Face weights.
        tokenizer: Saved beside the model.
        dtype: Type of the Hugging Face weights; the resume state keeps the learner's own.
        keep: Checkpoints to keep, this one included.

    Raises:
        StorageError: if the disk is full; the half-written checkpoint is removed.
    """
    final, temporary = folder / f"step-{step:06d}", folder / f".step-{step:06d}.tmp"
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        with storage_errors(final):
            temporary.mkdir(parents=True)
            with _os_errors():
                _write_model(temporary, learner, tokenizer, dtype)
                learner.save_state(temporary / STATE_FOLDER)
            for path in temporary.rglob("*"):
                _flush(path)
            if final.exists():
                shutil.rmtree(final)
            temporary.rename(final)
            _flush(folder)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    for old in list_checkpoints(folder)[:-keep]:
        doomed = folder / f".{old.name}.tmp"  # a kill while it is being deleted leaves no half checkpoint behind
        with contextlib.suppress(OSError):
            old.rename(doomed)
        shutil.rmtree(doomed, ignore_errors=True)
    return final


def list_checkpoints(folder: Path) -> list[Path]:
    """Complete checkpoints, oldest first."""
    return sorted(path for path in folder.glob("step-*") if (path / STATE_FOLDER).is_dir())


def load_checkpoint(folder: Path, learner: Learner) -> int:
    """Restores the newest checkpoint into a learner and removes what a killed writer left behind.

    Returns:
        The number of steps that are done; 0 if there is no checkpoint.

    Raises:
        RunError: if the newest checkpoint cannot be read.
    """
    for leftover in folder.glob(".step-*.tmp"):
        shutil.rmtree(leftover, ignore_errors=True)
    found = list_checkpoints(folder)
    if not found:
        return 0
    try:
        learner.load_state(found[-1] / STATE_FOLDER)
    except (RuntimeError, KeyError, OSError, ValueError, SafetensorError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0][:200]
        raise RunError(
            f"{found[-1]} cannot be resumed from ({reason}); delete it to go back to the one before"
        ) from error
    return int(found[-1].name.removeprefix("step-"))


def _write_model(folder: Path, learner: Learner, tokenizer: Any, dtype: torch.dtype) -> None:
    """Config, weights, generation config and tokenizer, as `from_pretrained` and `vllm serve` read them."""
    weights = {name: value.detach().to("cpu", dtype, copy=True) for name, value in learner.named_weights()}
    learner.model.save_pretrained(folder, state_dict=weights)  # type: ignore[operator]
    config_file = folder / "config.json"
    config = json.loads(config_file.read_text(encoding="utf-8"))
    config["dtype"] = str(dtype).removeprefix("torch.")
    config_file.write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")
    tokenizer.save_pretrained(folder)


@contextlib.contextmanager
def _os_errors() -> Iterator[None]:
    """What safetensors and torch make of a failed write becomes the `OSError` that it was."""
    try:
        yield
    except (RuntimeError, SafetensorError) as error:
        if isinstance(error.__context__, OSError):  # raised inside torch's writer by the file that it writes to
            raise error.__context__ from None
        if number := re.search(r"\(os error (\d+)\)", str(error)):
            raise OSError(int(number[1]), os.strerror(int(number[1]))) from error
        raise


def _flush(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
