"""One evaluation: draws n completions of each problem, judges them, keeps every sample, and resumes after a kill."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from rich.console import Console

from rloo_verify.errors import ConfigError
from rloo_verify.evaluate import Evaluation, evaluate_samples
from rloo_verify.evaluation_draw import draw_and_judge, sample_of_drawn, still_to_draw
from rloo_verify.evaluation_folder import EvaluationFolder
from rloo_verify.evaluation_progress import EvaluationProgress
from rloo_verify.evaluation_settings import EvalSettings
from rloo_verify.models import context_length, load_tokenizer
from rloo_verify.policy.base import Request
from rloo_verify.policy.drawn import Drawn
from rloo_verify.report import write_evaluation_report
from rloo_verify.samples import Sample
from rloo_verify.sandbox.runner import require_sandbox
from rloo_verify.seeds import derive_seed
from rloo_verify.setup import choose_engine, renderer
from rloo_verify.types import Outcome, Problem, Verdict


def run_evaluation(settings: EvalSettings, console: Console) -> tuple[EvalSettings, Evaluation, list[Sample]]:
    """Draws and judges what is missing, and writes settings.json, samples.jsonl, summary.json and report.html.

    Args:
        settings: What was asked for.
        console: Where progress is shown.

    Returns:
        The settings with the model's name filled in, the rates over all tasks, and the samples that they rest on.

    Raises:
        RlooVerifyError: for everything that a user can mend; what was judged by then is kept.
        KeyboardInterrupt: after Ctrl-C; what was judged by then is kept.
    """
    if settings.server and not settings.model:
        server = settings.server.connected()
        settings = replace(settings, server=server, model=server.model)
    engine = "openai" if settings.server else choose_engine(settings.engine)[0]
    for task in settings.tasks:
        task.load_checker()
    if any(task.spec.check.checker == "code" for task in settings.tasks):
        require_sandbox(settings.sandbox)
    problems, show = _problems(settings)
    requests = [
        Request(problem, i, derive_seed(settings.seed, "eval", problem.id, i))
        for problem in problems
        for i in range(settings.n)
    ]
    asked = settings.as_json(engine, problems)
    with EvaluationFolder(settings.folder, asked, fresh=settings.fresh) as folder:
        if settings.retry_errors:
            folder.keep([sample for sample in folder.samples if sample.outcome is not Outcome.ERROR])
        _complete(folder, settings, engine, requests, show, console)
        judged = {(sample.problem, sample.sample_index): sample for sample in folder.samples}
        samples = [judged[request.problem.id, request.sample_index] for request in requests]
        evaluation = evaluate_samples(samples, settings.all_ks)
        folder.finish(summary(settings, evaluation, samples))
        write_evaluation_report(folder.path)
    return settings, evaluation, samples


def _complete(
    folder: EvaluationFolder,
    settings: EvalSettings,
    engine: str,
    requests: Sequence[Request],
    show: Callable[[Problem], str],
    console: Console,
) -> None:
    """Draws and judges what the folder lacks."""
    have = frozenset((sample.problem, sample.sample_index) for sample in folder.samples)
    try:
        with EvaluationProgress(console, len(requests), folder.samples) as progress:

            def keep(drawn: Drawn, verdict: Verdict) -> None:
                sample = sample_of_drawn(drawn, verdict, show(drawn.request.problem))
                folder.append(sample)
                progress.show(sample)

            draw_and_judge(settings, engine, still_to_draw(requests, have, engine), have, keep)
    except KeyboardInterrupt:
        done = f"{len(folder.samples)} of {len(requests)} samples are in {folder.path}"
        console.print(f"interrupted: {done}; the same command goes on from there", highlight=False)
        raise


def summary(settings: EvalSettings, evaluation: Evaluation, samples: Sequence[Sample]) -> dict[str, Any]:
    """What summary.json and `--json` say: the evaluation, and where there are several tasks, that of each."""
    named = {"task": settings.task_names, "model": settings.model, "split": settings.split}
    values = {**named, **evaluation.as_json()}
    if len(settings.tasks) > 1:
        values["tasks"] = {name: one.as_json() for name, one in by_task(settings, samples).items()}
    return values


def by_task(settings: EvalSettings, samples: Sequence[Sample]) -> dict[str, Evaluation]:
    """The evaluation of each task."""
    return {
        task.name: evaluate_samples([sample for sample in samples if sample.task == task.name], settings.all_ks)
        for task in settings.tasks
    }


def _problems(settings: EvalSettings) -> tuple[list[Problem], Callable[[Problem], str]]:
    """The problems as the engine takes them, every prompt's length checked, and what shows a prompt to people."""
    tasks, server = settings.tasks, settings.server
    problems = [
        problem
        for task in tasks
        for problem in task.problems(settings.split, limit=settings.problems, data=settings.data)
    ]
    if server is not None:
        return problems, server.prompt
    limit = context_length(settings.model)
    tokenizer = load_tokenizer(settings.model)
    render = renderer(tasks, tokenizer, settings.max_prompt_tokens)
    problems = [render(problem) for problem in problems]
    longest = max(problems, key=lambda problem: len(problem.prompt_token_ids_T))
    length = len(longest.prompt_token_ids_T)
    if limit is not None and length + settings.max_new_tokens > limit:
        advice = f"; lower --max-new-tokens to {limit - length}" if length < limit else ""
        raise ConfigError(
            f"{longest.id}: a prompt of {length} tokens and --max-new-tokens {settings.max_new_tokens} do not fit the "
            f"context of {settings.model}, which holds {limit}{advice}"
        )
    return problems, lambda problem: str(tokenizer.decode(problem.prompt_token_ids_T))
