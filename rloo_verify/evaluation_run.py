"""One evaluation from the command line: a task, a model, n completions a problem."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from rich.console import Console
from rich.progress import Progress as Bar

from rloo_verify.config import ModelConfig, PolicyConfig
from rloo_verify.errors import ConfigError
from rloo_verify.evaluate import evaluate_groups
from rloo_verify.models import load_tokenizer
from rloo_verify.policy.base import Sampling
from rloo_verify.records import group_records
from rloo_verify.rollout import Sampler
from rloo_verify.setup import check_context, open_policy, renderer
from rloo_verify.storage import storage_errors, write_atomically
from rloo_verify.tasks import Task
from rloo_verify.types import Group, Problem
from rloo_verify.verify import Verifier

PROBLEMS_AT_A_TIME = 64
"""Problems of one drawing; the progress bar moves once for each such part."""


@dataclass(frozen=True, slots=True)
class EvalSettings:
    """What `rloo-verify eval` was asked for; see its help for each."""

    task: Task
    model: str
    split: str
    data: Path | None
    problems: int | None
    n: int
    k: list[int]
    temperature: float
    max_new_tokens: int
    max_prompt_tokens: int
    engine: str
    seed: int
    workers: int
    out: Path | None


def run_evaluation(settings: EvalSettings, console: Console) -> dict[str, Any]:
    """Draws, judges and counts; returns the JSON form of the `Evaluation`.

    Raises:
        RlooVerifyError: for everything that a user can mend.
    """
    engines = get_args(PolicyConfig.model_fields["engine"].annotation)
    if settings.engine not in engines:
        raise ConfigError(f"--engine {settings.engine}: must be one of {', '.join(engines)}")
    if max(settings.k) > settings.n:
        raise ConfigError(f"--k {max(settings.k)} is larger than --n {settings.n}; pass@k needs n >= k completions")
    task = settings.task
    problems = task.problems(settings.split, limit=settings.problems, data=settings.data)
    max_length = settings.max_prompt_tokens + settings.max_new_tokens
    check_context(settings.model, max_length)
    tokenizer = load_tokenizer(settings.model)
    render = renderer([task], tokenizer, settings.max_prompt_tokens)
    for problem in problems:
        render(problem)
    if settings.out is not None:  # told now, not after everything was drawn
        with storage_errors(settings.out):
            settings.out.parent.mkdir(parents=True, exist_ok=True)
    policy_config = PolicyConfig.model_validate({"engine": settings.engine})
    policy = open_policy(ModelConfig(path=settings.model), policy_config, tokenizer, max_length)
    try:
        with Verifier({task.name: task.folder}, workers=settings.workers, timeout_seconds=5.0) as verifier:
            groups = list(_draw(Sampler(policy, verifier, render), problems, settings, console))
    finally:
        policy.close()
    if settings.out is not None:
        write_atomically(settings.out, "".join(f"{line}\n" for line in group_records(groups, tokenizer)))
    return evaluate_groups(groups, settings.k).as_json()


def _draw(sampler: Sampler, problems: list[Problem], settings: EvalSettings, console: Console) -> Iterator[Group]:
    sampling = Sampling(settings.max_new_tokens, settings.temperature)
    with Bar(console=console, transient=True) as bar:
        for start in bar.track(range(0, len(problems), PROBLEMS_AT_A_TIME), description="evaluating"):
            part = problems[start : start + PROBLEMS_AT_A_TIME]
            yield from sampler.draw(part, settings.n, sampling, settings.seed, "eval").groups
