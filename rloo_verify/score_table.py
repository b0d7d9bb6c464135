"""Graded answers in a terminal: rates, and earlier verdicts beside the new ones."""

from collections.abc import Sequence

from rich.console import Console
from rich.table import Table

from rloo_verify.evaluation_table import lines
from rloo_verify.progress import rate_text
from rloo_verify.score import Score, Scores, ScoreSettings

MAX_SHOWN = 20
"""Disagreements in the terminal; agreement.json has all."""


def print_scores(settings: ScoreSettings, scores: Scores) -> None:
    """Prints what was read, the rates of each model, and where earlier verdicts differ."""
    console = Console(highlight=False)
    console = console if console.is_terminal else Console(width=200, highlight=False)
    saved = settings.file
    texts = [
        f"{saved.path}: {len(saved.answers)} answers, read as {saved.format}, judged by {settings.task.name}",
        f"references: {scores.references}",
    ]
    if scores.unanswered:
        texts.append(f"warning: {scores.unanswered} problems of the split have no answer in the file and count nowhere")
    if len(saved.variants) > 1:
        others = ", ".join(name for name in saved.variants if name != saved.variant)
        texts.append(f"earlier verdicts are those of the filter {saved.variant}; --filter chooses another: {others}")
    several = len(scores.scores) > 1
    parts: list[str | Table] = [*texts, *([_table(scores.scores)] if several else [])]
    for one in scores.scores:
        parts += _errors(one) if several else lines(one.model or settings.task.name, one.evaluation)
    for one in scores.scores:
        parts += _agreement(one)
    parts += [f"report: {one.folder / 'report.html'}" for one in scores.scores]
    for part in parts:
        console.print(part, markup=False) if isinstance(part, str) else console.print(part)


def _table(scores: Sequence[Score]) -> Table:
    """One row a model."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("model", overflow="fold")
    rates = list(dict.fromkeys(name for one in scores for name in one.evaluation.rates))
    for heading in (*rates, "problems", "answers", "passed", "errors", "truncated"):
        table.add_column(heading, justify="right", no_wrap=True)
    for one in scores:
        result = one.evaluation
        cells = [rate_text(result.rates.get(name), result.intervals.get(name)) for name in rates]
        counts = (result.problems, result.completions, result.passed, result.errors, result.truncated)
        table.add_row(one.model or "-", *cells, *map(str, counts))
    return table


def _errors(one: Score) -> list[str]:
    result = one.evaluation
    if not result.errors:
        return []
    rates = ", ".join(f"{name} {rate:.3f}" for name, rate in result.errors_as_fail.items() if rate is not None)
    reasons = ", ".join(f"{count} {reason}" for reason, count in result.reasons.items())
    return [f"{one.model}: {result.errors} errors are left out; counted as failures: {rates}; reasons: {reasons}"]


def _agreement(one: Score) -> list[str | Table]:
    found = one.agreement
    if found is None:
        return []
    parts: list[str | Table] = [
        f"{'' if one.model is None else f'{one.model}: '}{found.agree} of {found.labelled} earlier verdicts agree"
    ]
    if not found.disagreements:
        return parts
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("earlier / now")
    for new in found.counts:
        table.add_column(new, justify="right")
    for old, counts in found.counts.items():
        if any(counts.values()):
            table.add_row(old, *map(str, counts.values()))
    parts.append(table)
    for case in found.disagreements[:MAX_SHOWN]:
        read = "no answer" if case.answer is None else f"answer {case.answer[:60]!r}"
        detail = f" ({' '.join(case.detail.split())[:100]})" if case.detail else ""
        parts.append(
            f"- line {case.line}, {case.problem} #{case.sample_index}: was {case.old}, now {case.new} {case.reason}:"
            f" {read}, reference {str(case.reference)[:60]!r}{detail}"
        )
    if len(found.disagreements) > MAX_SHOWN:
        parts.append(f"- and {len(found.disagreements) - MAX_SHOWN} more")
    parts.append(f"  all of them: {one.folder / 'agreement.json'}")
    return parts
