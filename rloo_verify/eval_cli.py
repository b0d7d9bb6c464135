"""The command `rloo-verify eval`: draws answers, judges them, and prints pass rates with their intervals."""

import json
import os
from pathlib import Path
from typing import Annotated, Any, get_args

import typer
from rich.console import Console

from rloo_verify import tasks_cli
from rloo_verify.errors import ConfigError
from rloo_verify.score_cli import k_values

BELOW_MINIMUM = 1
"""Exit code where pass@1 is below `--min-pass1`, or nothing could be judged."""

_TOLERANCE = 1e-9  # 0.4 as a mean of floats may be 0.39999999999999997


def evaluate(
    tasks: Annotated[list[str], typer.Argument(metavar="TASK...", help="Names or folders, or names with commas.")],
    model: Annotated[
        str, typer.Option(help="A hub id, a folder (a checkpoint, too), a built-in name, or the name on the server.")
    ] = "",
    base_url: Annotated[
        str | None, typer.Option(help="An OpenAI-compatible server, for instance http://localhost:8000/v1.")
    ] = None,
    split: Annotated[str, typer.Option(help="Split to evaluate on.")] = "test",
    data: Annotated[Path | None, typer.Option(help="Local file that replaces the split's source.")] = None,
    columns: tasks_cli.ColumnMap = None,
    gold: tasks_cli.Gold = None,
    option: tasks_cli.DataOption = None,
    problems: Annotated[int | None, typer.Option(help="Use only the first so many of each task.", min=1)] = None,
    n: Annotated[int, typer.Option("-n", "--n", help="Completions of each problem.", min=1)] = 1,
    k: Annotated[str, typer.Option(help="The k of pass@k, maj@k and pass^k, separated by commas.")] = "1",
    temperature: Annotated[float, typer.Option(help="Sampling temperature; 0 is greedy.", min=0)] = 1.0,
    max_new_tokens: Annotated[int, typer.Option(min=1, help="Longest completion, in tokens.")] = 512,
    max_prompt_tokens: Annotated[
        int | None, typer.Option(min=1, help="Longest prompt, in tokens; by default what the context holds.")
    ] = None,
    engine: Annotated[str, typer.Option(help="auto, vllm or transformers; not for servers.")] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the completions.")] = 0,
    workers: Annotated[int, typer.Option(min=1, help="Checker processes.")] = 2,
    sandbox: Annotated[str, typer.Option(help="Where programs of code tasks run: auto, docker or bwrap.")] = "auto",
    api: Annotated[
        str, typer.Option(help="chat sends messages, completions the plain prompt (models without a chat template).")
    ] = "chat",
    concurrency: Annotated[int, typer.Option(min=1, help="Requests to the server at a time.")] = 32,
    request_timeout: Annotated[float, typer.Option(min=0.001, help="Seconds for one whole reply.")] = 600.0,
    retries: Annotated[int, typer.Option(min=0, help="Further tries after a 429, a 5xx or a broken reply.")] = 4,
    api_key_env: Annotated[
        str, typer.Option(help="Environment variable that holds the server's API key.")
    ] = "OPENAI_API_KEY",
    request_extra: Annotated[
        str, typer.Option(help="Further fields of every request as JSON, e.g. '{\"top_p\": 0.95}'; null removes one.")
    ] = "{}",
    out: Annotated[Path | None, typer.Option(help="Evaluation folder; by default evals/TASK-MODEL[-N].")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the evaluation folder and start over.")] = False,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Draw again what could not be drawn or judged.")
    ] = False,
    min_pass1: Annotated[
        float | None, typer.Option(min=0, max=1, help="Exit with 1 where pass@1 is below this, for CI.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Draw n answers to each problem, judge them, and print pass rates with 95% intervals.

    Samples are kept as they finish; the same command again goes on where it stopped. Exit codes: 0, 1 where pass@1 is
    below --min-pass1, 2 for mistakes, 130 after Ctrl-C.
    """
    if not model and base_url is None:
        raise ConfigError("--model is needed, or --base-url for a server")
    server_options = {
        "api": api,
        "concurrency": concurrency,
        "timeout_seconds": request_timeout,
        "retries": retries,
        "extra": _fields(request_extra),
    }
    found = [
        tasks_cli.task_from(name, columns, gold, option)
        for text in tasks
        for name in ([text] if os.sep in text else filter(None, text.split(",")))
    ]
    from rloo_verify.evaluation_run import run_evaluation, summary
    from rloo_verify.evaluation_settings import EvalSettings
    from rloo_verify.evaluation_table import print_evaluation
    from rloo_verify.models import quiet_libraries

    quiet_libraries()
    settings = EvalSettings(
        tasks=found, model=model, split=split, data=data, problems=problems, n=n, ks=k_values(k),
        temperature=temperature, max_new_tokens=max_new_tokens, max_prompt_tokens=max_prompt_tokens, engine=engine,
        seed=seed, workers=workers, sandbox={"backend": sandbox}, out=out, fresh=fresh, retry_errors=retry_errors,
        server=None if base_url is None else _server(base_url, model, api_key_env, found, server_options),
    )  # fmt: skip
    settings, evaluation, samples = run_evaluation(settings, Console(stderr=True, soft_wrap=True))
    if as_json:
        print(json.dumps(summary(settings, evaluation, samples)))
    else:
        print_evaluation(settings, evaluation, samples)
    rate = evaluation.rates["pass@1"]
    if min_pass1 is not None and (rate is None or rate < min_pass1 - _TOLERANCE):
        shown = "not known" if rate is None else f"{rate:.4f}"
        typer.echo(f"pass@1 is {shown}, below --min-pass1 {min_pass1:g}", err=True)
        raise typer.Exit(BELOW_MINIMUM)


def _server(base_url: str, model: str, api_key_env: str, tasks: list[Any], options: dict[str, Any]) -> Any:
    from rloo_verify.policy.openai import Api, Server

    if options["api"] not in get_args(Api):
        raise ConfigError(f"--api {options['api']}: must be one of {', '.join(get_args(Api))}")
    key = os.environ.get(api_key_env)
    if key is None and api_key_env != "OPENAI_API_KEY":
        raise ConfigError(f"--api-key-env {api_key_env}: there is no such environment variable")
    template_kwargs = {task.name: task.spec.prompt.template_kwargs for task in tasks}
    return Server(base_url, model, api_key=key, template_kwargs=template_kwargs, **options)


def _fields(text: str) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except ValueError:
        fields = None
    if not isinstance(fields, dict):
        raise ConfigError(f"--request-extra {text!r} is not a JSON object")
    return fields
