"""What an evaluation was asked for, and what of it must be the same for its samples to belong together."""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from rloo_verify.config import PolicyConfig
from rloo_verify.errors import ConfigError
from rloo_verify.policy.openai import Server
from rloo_verify.sandbox.settings import backend_of
from rloo_verify.tasks import Task
from rloo_verify.types import Problem

EVALS = Path("evals")
"""Where evaluation folders go unless told otherwise."""

_SAMPLED_BYTES = 1 << 16


@dataclass(frozen=True, slots=True, kw_only=True)
class EvalSettings:
    """What `rloo-verify eval` was asked for.

    Attributes:
        tasks: The tasks, each with a name of its own.
        model: A hub id, a folder (a checkpoint, too), a built-in name, or the name on the server.
        server: The OpenAI-compatible server that draws; None: an engine in this process does.
        split: Split to evaluate on.
        data: Local file that replaces the split's source; with one task only.
        problems: Use only the first so many problems of each task.
        n: Completions of each problem.
        ks: The k of each pass@k; 1 is always among them.
        temperature: Sampling temperature; 0 is greedy.
        max_new_tokens: Longest completion, in tokens.
        max_prompt_tokens: A longer prompt is an error; None: what the context holds. A server knows its own limit.
        engine: `auto`, `vllm` or `transformers`.
        seed: Seed of the completions.
        workers: Checker processes.
        timeout_seconds: CPU time that a check may take, where its task states none.
        sandbox: Where the programs of code tasks run, as fields of `sandbox.settings.SandboxSettings`.
        out: Folder of the evaluation; None: `evals/TASK-MODEL[-N]`.
        fresh: Delete an earlier evaluation in the same folder.
        retry_errors: Draw the answers again that an earlier command could not draw or judge.
    """

    tasks: Sequence[Task]
    model: str
    server: Server | None = None
    split: str = "test"
    data: Path | None = None
    problems: int | None = None
    n: int = 1
    ks: Sequence[int] = (1,)
    temperature: float = 1.0
    max_new_tokens: int = 512
    max_prompt_tokens: int | None = None
    engine: str = "auto"
    seed: int = 0
    workers: int = 2
    timeout_seconds: float = 5.0
    sandbox: Mapping[str, Any] = field(default_factory=dict)
    out: Path | None = None
    fresh: bool = False
    retry_errors: bool = False

    def __post_init__(self) -> None:
        """Refuses what cannot be evaluated.

        Raises:
            ConfigError: naming the option.
        """
        engines = get_args(PolicyConfig.model_fields["engine"].annotation)
        if self.engine not in engines:
            raise ConfigError(f"--engine {self.engine}: must be one of {', '.join(engines)}")
        backend_of(self.sandbox.get("backend", "auto"), "--sandbox")
        if self.n < 1 or not self.ks or min(self.ks) < 1:
            raise ConfigError("n and every k must be at least 1")
        if max(self.ks) > self.n:
            raise ConfigError(f"--k {max(self.ks)} is larger than --n {self.n}; pass@k needs n >= k completions")
        if self.temperature == 0 and self.n > 1:
            raise ConfigError(f"at temperature 0 the {self.n} completions of a problem are all the same; use --n 1")
        names = [task.name for task in self.tasks]
        if len(set(names)) < len(names):
            raise ConfigError(f"a task is named twice: {', '.join(names)}")
        if self.data is not None and len(names) > 1:
            raise ConfigError("--data is the file of one task; evaluate the others by commands of their own")

    @property
    def all_ks(self) -> list[int]:
        """The k of every rate, in rising order; 1 is always among them."""
        return sorted({1, *self.ks})

    @property
    def task_names(self) -> str:
        """The names of the tasks as one word."""
        return "+".join(task.name for task in self.tasks)

    @property
    def folder(self) -> Path:
        """Where the samples go."""
        return self.out or EVALS / f"{self.task_names}-{_short(self.model)}{f'-{self.n}' if self.n > 1 else ''}"

    def as_json(self, engine: str, problems: Sequence[Problem]) -> dict[str, Any]:
        """Whatever changes a sample, for settings.json: a command that differs here cannot go on with the samples.

        Args:
            engine: The engine that draws, `auto` resolved.
            problems: The problems that will be asked.
        """
        server = self.server
        return {
            "task": self.task_names,
            "model": self.model,
            "weights": None if server else fingerprint_of_weights(self.model),
            "engine": engine,
            "base_url": server.base_url if server else None,
            "api": server.api if server else None,
            "extra": dict(server.extra) if server else None,
            "split": self.split,
            "problems": len(problems),
            "contents": fingerprint_of_problems(self.tasks, problems),
            "n": self.n,
            "temperature": self.temperature,
            "max_new_tokens": self.max_new_tokens,
            "seed": self.seed,
        }


def fingerprint_of_problems(tasks: Sequence[Task], problems: Sequence[Problem]) -> str:
    """A word that changes with any prompt, reference, checker option or check.py: an edited task is another one."""
    digest = hashlib.blake2b(digest_size=8)
    for task in tasks:
        digest.update(task.spec.check.model_dump_json().encode())
        own_checker = task.folder / task.spec.check.checker.partition(":")[0]
        if own_checker.is_file():
            digest.update(own_checker.read_bytes())
    for problem in problems:
        values = [problem.id, problem.family, problem.messages, problem.plain, problem.answer, problem.row]
        digest.update(json.dumps(values, default=str).encode())
    return digest.hexdigest()


def fingerprint_of_weights(model: str) -> str | None:
    """A word that changes when other weights stand in a local model folder; None for a hub id.

    Names, sizes and both ends of the weight files are read: training changes every part of them.
    """
    from rloo_verify.models import model_path

    files = [path for path in sorted(Path(model_path(model)).glob("*")) if path.suffix in (".safetensors", ".bin")]
    digest = hashlib.blake2b(digest_size=8)
    for path in files:
        with path.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            digest.update(f"{path.name} {size} ".encode())
            for start in (0, max(0, size - _SAMPLED_BYTES)):
                file.seek(start)
                digest.update(file.read(_SAMPLED_BYTES))
    return digest.hexdigest() if files else None


def _short(model: str) -> str:
    """The last part of a model's name; a checkpoint has the name of its run before it."""
    path = Path(model)
    return f"{path.parents[1].name}-{path.name}" if path.parent.name == "checkpoints" else path.name
