"""The four functions for notebooks; the package exports them. What they need is imported when they are called."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rloo_verify.tasks import Task, find_task
from rloo_verify.types import Problem, Verdict

if TYPE_CHECKING:
    import pandas as pd

    from rloo_verify.evaluate import Evaluation

_CHECK_SECONDS = 5.0  # CPU time, as in training


def load_task(name_or_path: str | Path, **overrides: Any) -> Task:
    """A task by name or folder; `task.problems("test")` are its problems.

    Args:
        name_or_path: A name such as `gsm8k`, or the path of a task folder.
        **overrides: As for `tasks.find_task`: `data`, `columns`, `gold`, `options`.

    Raises:
        TaskError: There is no such task, or it or an override is wrong.
    """
    return find_task(name_or_path, **overrides)


def check_answer(
    task: Task | str | Path, completion: str, answer: Any, *, row: Mapping[str, Any] | None = None
) -> Verdict:
    """Judges one completion with a task's checker, in a process of its own, exactly as training and evaluation do.

    Args:
        task: A task, its name, or its folder.
        completion: The whole text of the completion, reasoning included.
        answer: The reference answer, or a `Problem`, which has its own.
        row: Columns that the task's checker reads; those of the problem where `answer` is one.

    Raises:
        TaskError: There is no such task, or its checker cannot be loaded.
        SandboxError: It is a code task, and no sandbox can be started.
        VerifyError: No worker process can be started.
    """
    from rloo_verify.sandbox.runner import require_sandbox
    from rloo_verify.verify import Verifier

    found = task if isinstance(task, Task) else find_task(task)
    found.load_checker()  # what is wrong with it is told here, not as an ERROR verdict
    if found.spec.check.checker == "code":
        require_sandbox({})
    problem = answer if isinstance(answer, Problem) else Problem("answer", found.name, (), "", answer, row or {})
    with Verifier({found.name: found.folder}, workers=1, timeout_seconds=_CHECK_SECONDS) as verifier:
        return verifier.submit(problem, completion).result()


def run_eval(
    tasks: Task | str | Path | Sequence[Task | str | Path],
    model: str = "",
    *,
    base_url: str | None = None,
    **settings: Any,
) -> "Evaluation":
    """Draws answers, judges them, and returns pass rates with their intervals; resumes like `rloo-verify eval`.

    Args:
        tasks: A task, its name or its folder, or several.
        model: A hub id, a folder (a checkpoint, too), a built-in name, or the name on the server.
        base_url: An OpenAI-compatible server that draws instead of an engine in this process.
        **settings: Fields of `evaluation_settings.EvalSettings`, such as `split`, `problems`, `n`, `ks`,
            `temperature`, `max_new_tokens`, `engine`, `seed`, `out`, `fresh`, and where there is a `base_url` those of
            `policy.openai.Server`, such as `api`, `concurrency` and `api_key`.

    Returns:
        `rates`, `intervals`, `problems_at` and counts; the samples are in the folder `out`.

    Raises:
        RlooVerifyError: for everything that a user can mend; what was judged by then is kept.
        TypeError: for a setting that does not exist.
    """
    from dataclasses import fields

    from rich.console import Console

    from rloo_verify.evaluation_run import run_evaluation
    from rloo_verify.evaluation_settings import EvalSettings
    from rloo_verify.policy.openai import Server

    several = [tasks] if isinstance(tasks, Task | str | Path) else list(tasks)
    found = [task if isinstance(task, Task) else find_task(task) for task in several]
    server = None
    if base_url is not None:
        asked = {field.name: settings.pop(field.name) for field in fields(Server) if field.name in settings}
        template_kwargs = {task.name: task.spec.prompt.template_kwargs for task in found}
        server = Server(base_url, model, template_kwargs=template_kwargs, **asked)
    _, evaluation, _ = run_evaluation(EvalSettings(tasks=found, model=model, server=server, **settings), Console())
    return evaluation


@dataclass(frozen=True, slots=True)
class RunTables:
    """A run folder as pandas tables.

    Attributes:
        metrics: One row a step; see docs/metrics.md.
        evaluations: One row a held-out evaluation.
        rollouts: One row a completion of every step that was written, with its text, verdict and advantage.
    """

    metrics: "pd.DataFrame"
    evaluations: "pd.DataFrame"
    rollouts: "pd.DataFrame"


def read_run(path: str | Path) -> RunTables:
    """Reads a run folder, also while the run goes on.

    Nested values have columns of their own with dots in their names: `seconds.learn`, `reasons.correct`.

    Raises:
        RunError: It is not a run folder.
    """
    import pandas as pd

    from rloo_verify.runlog import RunReader
    from rloo_verify.storage import read_jsonl

    run = RunReader(Path(path))
    rollouts = [row for file in sorted((run.path / "rollouts").glob("step-*.jsonl")) for row in read_jsonl(file)]
    return RunTables(
        metrics=pd.json_normalize(run.metrics()),
        evaluations=pd.json_normalize(run.evaluations()),
        rollouts=pd.DataFrame(rollouts),
    )
