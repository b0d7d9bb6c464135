"""An evaluation as a table for a terminal."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from rloo_verify.evaluate import Evaluation
from rloo_verify.samples import Sample

if TYPE_CHECKING:
    from rloo_verify.evaluation_settings import EvalSettings

MAX_REASONS = 6


def print_evaluation(settings: "EvalSettings", evaluation: Evaluation, samples: Sequence[Sample]) -> None:
    """Prints the rates of each task, and over all of them where there are several, with what they rest on."""
    from rloo_verify.evaluation_run import by_task  # imports the engines, which `score` does without

    console = Console(highlight=False)
    console = console if console.is_terminal else Console(width=200, highlight=False)
    if len(settings.tasks) == 1:
        parts = {settings.task_names: evaluation}
    else:
        parts = {**by_task(settings, samples), f"all {len(settings.tasks)} tasks": evaluation}
    for name, part in parts.items():
        for line in lines(f"{name}/{settings.split}, {settings.model}", part):
            console.print(line, markup=False) if isinstance(line, str) else console.print(line)
    console.print(f"report: {settings.folder / 'report.html'}", markup=False)


def lines(title: str, evaluation: Evaluation) -> list[str | Table]:
    """What is printed of one evaluation, from top to bottom."""
    counts = (
        f"{evaluation.problems} problems, {evaluation.completions} completions: {evaluation.judged} judged, "
        f"{evaluation.errors} errors, {evaluation.truncated} truncated"
    )
    if evaluation.mean_tokens is not None:
        counts += f", {evaluation.mean_tokens:.1f} tokens on average"
    reasons = list(evaluation.reasons.items())
    shown = ", ".join(f"{count} {reason}" for reason, count in reasons[:MAX_REASONS])
    more = sum(count for _, count in reasons[MAX_REASONS:])
    return [
        title,
        _table(evaluation),
        counts,
        f"reasons: {shown}{f', {more} others' if more else ''}",
        *_left_out(evaluation),
    ]


def _table(evaluation: Evaluation) -> Table:
    """One row a rate; errors as failures have a column of their own where they make a difference."""
    differs = evaluation.errors_as_fail != evaluation.rates
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("rate")
    for heading in ("value", "95% interval", "problems", *(["errors as fail"] if differs else [])):
        table.add_column(heading, justify="right")
    for name, rate in evaluation.rates.items():
        interval = evaluation.intervals[name]
        cells = [_number(rate), f"{interval[0]:.3f} - {interval[1]:.3f}" if interval else "n/a"]
        cells.append(str(evaluation.problems_at[_k(name)]))
        table.add_row(name, *cells, *([_number(evaluation.errors_as_fail[name])] if differs else []))
    return table


def _left_out(evaluation: Evaluation) -> list[str]:
    """Says where a rate rests on fewer problems than were drawn, or on none."""
    texts = []
    for k, count in evaluation.problems_at.items():
        if count < evaluation.problems:
            less = f"{evaluation.problems - count} of {evaluation.problems} problems have fewer than {k} judged answers"
            texts.append(f"k = {k}: {less} and are left out" + ("" if count else ", so there is no rate"))
    votes = [rate for name, rate in evaluation.rates.items() if name.startswith("maj@")]
    if evaluation.passed and votes and all(rate is None for rate in votes):
        texts.append("maj@k is not known: the checker extracts no final answers to vote for")
    return texts


def _k(name: str) -> int:
    return int(name.replace("^", "@").partition("@")[2])


def _number(rate: float | None) -> str:
    return "n/a" if rate is None else f"{rate:.3f}"
