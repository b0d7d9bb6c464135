"""Whole training runs with a tiny random policy, small enough to be run, killed and resumed many times."""

import contextlib
import io
import json
import multiprocessing
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file
from task_folder import write_task
from tiny import save_tiny_model

from rloo_verify.checkpoint import STATE_FOLDER, list_checkpoints
from rloo_verify.config import Config
from rloo_verify.configfile import load_config
from rloo_verify.progress import Progress
from rloo_verify.storage import read_jsonl
from rloo_verify.train import train

CONFIG = """\
[run]
name = "tiny"
out = "{out}"
steps = 6

[model]
path = "{model}"

[[tasks]]
name = "{task}"
weight = 3.0

[[tasks]]
name = "arithmetic"
options = {{ level = 1 }}

[sample]
problems_per_step = 4
group_size = 4
max_new_tokens = 8
max_prompt_tokens = 16

[policy]
engine = "transformers"

[learner]
lr = 1e-3
micro_batch_tokens = 256

[verify]
workers = 1

[eval]
every = 3
problems = 4
n = 2
k = [1, 2]

[save]
every = 2
"""

CHECK = """
def check(completion, answer, row):
    return completion[:1] in answer
"""
"""A random policy passes about half of the time, so groups are mixed and every step updates."""


SLOW_CHECK = "import time\n" + CHECK.replace("    return", "    time.sleep(0.02)\n    return")


def write_letters_task(folder: Path, check: str = CHECK) -> Path:
    """A task whose answer passes when it begins with one of half the characters."""
    rows = [{"q": f"{i}?", "a": "acegikmoqsuwy02468+*,>("} for i in range(10)]
    write_task(folder, *rows, data='test = "rows.jsonl"')
    (folder / "check.py").write_text(check)
    toml = folder / "task.toml"
    toml.write_text(toml.read_text().replace('checker = "exact"', 'checker = "check.py:check"'))
    return folder


def write_run(folder: Path, *, check: str = CHECK, tied: bool = False) -> Path:
    """Writes model, task and config to a folder; returns the config's path. The run goes to `folder/runs/tiny`."""
    model = save_tiny_model(folder / "model", tied=tied)
    task = write_letters_task(folder / "letters", check)
    path = folder / "tiny.toml"
    path.write_text(CONFIG.format(out=folder / "runs", model=model, task=task))
    return path


def config_of(path: Path, *overrides: str) -> Config:
    """The config of `write_run` with overrides such as `--run.steps=3`."""
    return load_config(path, overrides)


def run_here(
    path: Path, *overrides: str, fresh: bool = False, report: bool = False
) -> tuple[Path, dict[str, Any], str]:
    """Trains in this process; returns the run folder, the summary, and what people saw.

    Without `report` none is drawn: it takes half a second for each evaluation.
    """
    config, screen = config_of(path, *overrides), io.StringIO()
    with contextlib.nullcontext() if report else mock.patch("rloo_verify.train.write_report"):
        summary = train(config, Progress(Console(file=screen, soft_wrap=True)), fresh=fresh)
    return Path(config.run.out) / config.run.name, summary, screen.getvalue()


@contextlib.contextmanager
def small_disk(folder: Path, size: str) -> Iterator[Path]:
    """A real file system of its own, of `size` (`2m`); skips where none may be mounted."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no file system can be mounted here: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def run_child(arguments: list[str], log: Path) -> None:
    """What a forked process does: the command line, its output in a file."""
    from rloo_verify.cli import main

    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", closefd=False)
    main(arguments)


def start(path: Path, *overrides: str) -> Any:
    """Starts `rloo-verify train` in a process of its own, forked from one that imported the libraries."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rloo_verify.train", "transformers.models.llama.modeling_llama", "runs"])
    child = context.Process(target=run_child, args=(["train", str(path), *overrides], path.with_suffix(".log")))
    child.start()
    return child


def wait_until(condition: Callable[[], bool], child: Any, *, seconds: float = 120) -> bool:
    """Waits for a condition; False where the process ended first."""
    limit = time.monotonic() + seconds
    while not condition():
        if not child.is_alive():
            return condition()
        assert time.monotonic() < limit, "the run hangs"
        time.sleep(0.002)
    return True


def rows_of(run: Path) -> int:
    """Finished steps by metrics.jsonl."""
    return len(read_jsonl(run / "metrics.jsonl"))


def final_state(run: Path) -> dict[str, torch.Tensor]:
    """The newest checkpoint's resume state, written by one process."""
    (file,) = (list_checkpoints(run / "checkpoints")[-1] / STATE_FOLDER).iterdir()
    return load_file(file)


def trained(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The parameters of a resume state by their names."""
    return {name.removeprefix("parameter."): value for name, value in state.items() if name.startswith("parameter.")}


def assert_same_bits(one: Any, other: Any) -> None:
    """Equality of nested states; tensors to the bit."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same_bits(one[key], other[key])
    elif isinstance(one, list | tuple):
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same_bits(a, b)
    elif isinstance(one, torch.Tensor):
        assert torch.equal(one, other)
    else:
        assert one == other


TIMES = ("seconds", "tokens_per_second", "learner_tokens_per_second", "mfu")


def story(run: Path) -> dict[str, Any]:
    """Everything that a run folder says except the times: metrics, rollouts and evaluations."""
    metrics = [{key: row[key] for key in row if key not in TIMES} for row in read_jsonl(run / "metrics.jsonl")]
    evaluations = {}
    for file in sorted((run / "eval").glob("step-*.json")):
        evaluations[file.name] = {k: v for k, v in json.loads(file.read_text()).items() if k not in TIMES}
    samples = {file.name: file.read_text() for file in sorted(run.glob("*/step-*.jsonl"))}
    return {"metrics": metrics, "evaluations": evaluations, "samples": samples}
