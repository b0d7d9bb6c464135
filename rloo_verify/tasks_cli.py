"""The commands `rloo-verify tasks list | show | check | new`."""

import json
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rloo_verify.errors import TaskError
from rloo_verify.folders import data_folder
from rloo_verify.prompts import render
from rloo_verify.sandbox.settings import backend_of
from rloo_verify.tasks import Task, find_task, list_tasks
from rloo_verify.types import Problem

app = typer.Typer(help="List, show, check and make tasks.", no_args_is_help=True)

MAX_FINDINGS = 20

Name = Annotated[str, typer.Argument(help="A task's name, or the path of its folder.")]
Split = Annotated[str, typer.Option(help="train, validation, test or sample.")]
DataFile = Annotated[Path | None, typer.Option("--data", help="A local file to read instead of the split's source.")]
ColumnMap = Annotated[
    str | None, typer.Option("--columns", help="Other columns, for instance question=prompt,answer=label.")
]
Gold = Annotated[
    str | None, typer.Option(help="How the answer column is read: raw, boxed, after_hashes, list, number.")
]
DataOption = Annotated[
    list[str] | None, typer.Option("--option", help="An option of generated data, for instance level=2; repeatable.")
]


@app.command("list")
def list_command() -> None:
    """List every task that a name can find."""
    console = Console()
    # Without a terminal rich assumes 80 columns, too few to read or grep.
    console = console if console.is_terminal else Console(width=200)
    table = Table(box=None, pad_edge=False)
    for heading in ("name", "summary", "splits", "checker", "where"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "name")
    for name, folder in list_tasks().items():
        where = "built-in" if folder.parent == data_folder("tasks").resolve() else str(folder)
        try:
            spec = find_task(folder).spec
            table.add_row(name, spec.summary, " ".join(spec.data.splits), spec.check.checker, where)
        except TaskError as error:
            table.add_row(name, f"cannot be used: {error}", "", "", where)
    console.print(table, markup=False)


@app.command("show")
def show_command(
    name: Name,
    count: Annotated[int, typer.Option("-n", "--count", min=1, help="How many problems.")] = 2,
    model: Annotated[str | None, typer.Option(help="A model whose tokenizer renders the prompt.")] = None,
    split: Split = "sample",
    data: DataFile = None,
    columns: ColumnMap = None,
    gold: Gold = None,
    option: DataOption = None,
) -> None:
    """Print the exact prompts, as text and, with --model, as token ids, and the reference answers."""
    task = task_from(name, columns, gold, option)
    tokenizer = None
    if model is not None:
        from rloo_verify.models import load_tokenizer  # imports torch, which the other commands do without

        tokenizer = load_tokenizer(model)
    for problem in task.problems(split, limit=count, data=data):
        _print_problem(problem)
        if tokenizer is not None:
            _print_rendered(task, problem, tokenizer, str(model))
        _print("")


@app.command("check")
def check_command(
    name: Name,
    split: Split = "sample",
    data: DataFile = None,
    count: Annotated[int | None, typer.Option("-n", "--count", min=1, help="At most so many rows.")] = None,
    columns: ColumnMap = None,
    gold: Gold = None,
    option: DataOption = None,
    sandbox: Annotated[str, typer.Option(help="Where programs of code tasks run: auto, docker or bwrap.")] = "auto",
) -> None:
    """Run a task's cases, verify that every reference passes and that empty answers fail; exit 1 on findings."""
    from rloo_verify.task_check import check_task

    task = task_from(name, columns, gold, option)
    where = {"backend": backend_of(sandbox, "--sandbox")}
    report = check_task(task, split, limit=count, data=data, sandbox=where)
    for finding in report.findings[:MAX_FINDINGS]:
        _print(f"- {finding}")
    if len(report.findings) > MAX_FINDINGS:
        _print(f"- and {len(report.findings) - MAX_FINDINGS} more")
    parts = [f"{report.cases} cases", f"{report.rows} rows of {split}", f"{report.references} references pass"]
    if report.without_reference:
        parts.append(f"{report.without_reference} rows have no reference to check")
    if report.unjudgeable:
        parts.append(f"{report.unjudgeable} cannot be judged against")
    for what, tried in (("other spellings", report.rewritings), ("mutations", report.mutations)):
        if tried:
            kinds = ", ".join(f"{count} {kind}" for kind, count in tried.items())
            _print(f"{sum(tried.values())} {what} of references tried: {kinds}")
    findings = len(report.findings)
    parts.append(f"{findings} finding{'s' if findings != 1 else ''}" if findings else "nothing wrong")
    _print(f"{task.name}: {', '.join(parts)}")
    if report.findings:
        raise typer.Exit(1)


@app.command("new")
def new_command(
    name: Annotated[str, typer.Argument(help="Name of the new task.")],
    parent: Annotated[Path, typer.Option("--dir", help="The folder to put it in.")] = Path("tasks"),
) -> None:
    """Write the folder of a new task, which works at once."""
    from rloo_verify.task_skeleton import write_skeleton

    folder = write_skeleton(name, parent)
    _print(f"wrote {folder}: edit task.toml, data/sample.jsonl and cases.jsonl, then")
    _print(f"  rloo-verify tasks check {folder}")
    _print(f"  rloo-verify tasks show {folder} -n 2")


def _print_problem(problem: Problem) -> None:
    _print(f"== {problem.id}")
    for message in problem.messages:
        _print(f"-- {message['role']} message")
        _print(message["content"])
    _print("-- plain, for a model without a chat template")
    _print(problem.plain)
    _print("-- reference answer")
    _print("none: the checker reads the row" if problem.answer is None else json.dumps(problem.answer, default=str))


def _print_rendered(task: Task, problem: Problem, tokenizer: Any, model: str) -> None:
    rendered = render(problem, tokenizer, template_kwargs=task.spec.prompt.template_kwargs)
    ids = list(rendered.prompt_token_ids_T)
    how = "its chat template" if tokenizer.chat_template else "plain: it has no chat template"
    _print(f"-- what {model} sees ({how})")
    _print(tokenizer.decode(ids, skip_special_tokens=False, clean_up_tokenization_spaces=False))
    _print(f"-- {len(ids)} token ids")
    _print(" ".join(map(str, ids)))


def _print(text: str) -> None:
    typer.echo(text)  # never through rich, which would read [brackets] in a prompt as markup


def task_from(name: str, columns: str | None, gold: str | None, options: list[str] | None) -> Task:
    """Finds a task with the overrides that the command line gives.

    Raises:
        TaskError: if there is no such task or an override is wrong.
    """
    return find_task(name, columns=column_map(columns), gold=gold, options=data_options(options))


def column_map(text: str | None) -> dict[str, str]:
    """The value of `--columns`, by name.

    Raises:
        TaskError: if it is not `name=column,name=column`.
    """
    pairs: dict[str, str] = {}
    for entry in (text or "").split(",") if text else []:
        name, equals, column = entry.partition("=")
        if not equals or not name.strip() or not column.strip():
            raise TaskError(f"--columns takes name=column,name=column, for instance question=prompt; not {entry!r}")
        pairs[name.strip()] = column.strip()
    return pairs


def data_options(entries: list[str] | None) -> dict[str, Any]:
    """The values of `--option`; JSON where they are JSON, else text.

    Raises:
        TaskError: if one is not `name=value`.
    """
    options: dict[str, Any] = {}
    for entry in entries or []:
        name, equals, value = entry.partition("=")
        if not equals or not name:
            raise TaskError(f"--option takes name=value, for instance level=2; not {entry!r}")
        try:
            options[name] = json.loads(value)
        except ValueError:
            options[name] = value
    return options
