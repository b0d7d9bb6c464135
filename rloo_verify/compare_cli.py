"""The command `rloo-verify compare`: two evaluations of the same problems."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from rloo_verify.errors import FormatError
from rloo_verify.score_cli import k_values

if TYPE_CHECKING:
    from rloo_verify.compare import Comparison
    from rloo_verify.samples import Sample

MAX_SHOWN = 20
"""Flipped problems in the terminal; compare.json has all."""

MATTERS = ("task", "split", "n", "temperature", "max_new_tokens", "extra", "checker", "options")
"""Settings in which two evaluations should agree. Their problems, prompts and references are compared one by one."""


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two.

    Attributes:
        path: As given.
        samples: Its judged completions.
        settings: Its settings.json; empty for a bare file.
    """

    path: Path
    samples: "Sequence[Sample]"
    settings: Mapping[str, Any]


def compare(
    a: Annotated[
        Path, typer.Argument(help="An evaluation folder, a samples.jsonl, or an eval file of a training run.")
    ],
    b: Annotated[Path, typer.Argument(help="The other, which is compared with the first.")],
    k: Annotated[str | None, typer.Option(help="The k of pass@k; by default 1 and the most that both allow.")] = None,
    out: Annotated[Path | None, typer.Option(help="Write compare.json and report.html into this folder.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Compare two evaluations problem by problem: differences with their intervals, a sign test, and what flipped."""
    from rloo_verify.compare import compare_samples
    from rloo_verify.evaluation_folder import read_settings
    from rloo_verify.storage import write_atomically

    if out is not None and (out.is_file() or read_settings(out)):
        raise FormatError(f"--out {out} is an evaluation itself; choose another folder")
    sides = read_side(a), read_side(b)
    names = _names(a, b)
    found = compare_samples(sides[0].samples, sides[1].samples, k_values(k) if k else (), names=names)
    found.warnings.extend(_settings_warnings(sides[0].settings, sides[1].settings))
    if out is not None:
        from rloo_verify.report import write_comparison_report

        write_atomically(out / "compare.json", json.dumps(found.as_json(), indent=1) + "\n")
        write_comparison_report(out, a, b)
    if as_json:
        print(json.dumps(found.as_json()))
    else:
        _print(found)
        if out is not None:
            typer.echo(f"report: {out / 'report.html'}")


def read_side(path: Path) -> Side:
    """Reads an evaluation.

    Args:
        path: An evaluation folder, or a file of judged completions.

    Raises:
        FormatError: A folder has no samples; names the evaluations inside it.
        RunError: The samples cannot be read.
    """
    from rloo_verify.evaluation_folder import SAMPLES, read_settings
    from rloo_verify.samples import read_samples

    if not path.is_dir():
        return Side(path, read_samples(path), read_settings(path.parent) if path.name == SAMPLES else {})
    if (path / SAMPLES).is_file():
        return Side(path, read_samples(path / SAMPLES), read_settings(path))
    inside = sorted(file.parent for file in path.glob(f"*/{SAMPLES}")) or sorted(path.glob("eval/step-*.jsonl"))
    advice = f"name one of {', '.join(map(str, inside))}" if inside else "name an evaluation folder or a samples file"
    raise FormatError(f"{path} has no {SAMPLES}: {advice}")


def _names(a: Path, b: Path) -> tuple[str, str]:
    """The last parts of the two paths, as many as tell them apart."""
    parts_a, parts_b = ([part for part in path.parts if part != "samples.jsonl"] for path in (a, b))
    for count in range(1, max(len(parts_a), len(parts_b)) + 1):
        names = "/".join(parts_a[-count:]), "/".join(parts_b[-count:])
        if names[0] != names[1]:
            return names
    return str(a), str(b)


def _settings_warnings(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """The settings that are known of both and differ."""
    known = [key for key in MATTERS if a.get(key) is not None and b.get(key) is not None]
    differ = [f"{key} {a[key]!r} and {b[key]!r}" for key in known if a[key] != b[key]]
    return [f"the settings differ: {', '.join(differ)}"] if differ else []


def _print(found: "Comparison") -> None:
    console = Console()
    console = console if console.is_terminal else Console(width=200)
    typer.echo(f"a: {found.a}\nb: {found.b}")
    typer.echo(f"{found.problems} common problems")
    for warning in found.warnings:
        typer.echo(f"warning: {warning}")
    console.print(_table(found), markup=False)
    for name, rate in found.rates.items():
        if rate.low is not None and rate.high is not None:
            typer.echo(f"{name}: {_conclusion(rate.low, rate.high)}")
    typer.echo(f"{len(found.gained)} problems gained, {len(found.lost)} lost, {found.unchanged} unchanged")
    for flip in found.flips[:MAX_SHOWN]:
        typer.echo(f"- {flip.problem}: {'gained' if flip.b > flip.a else 'lost'}, {flip.a:.3g} -> {flip.b:.3g}")
    if len(found.flips) > MAX_SHOWN:
        typer.echo(f"- and {len(found.flips) - MAX_SHOWN} more (--json and --out give all)")


def _table(found: "Comparison") -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("rate")
    for heading in ("a", "b", "b - a", "95% interval", "sign test", "problems"):
        table.add_column(heading, justify="right", no_wrap=True)
    for name, rate in found.rates.items():
        values = [_number(rate.a, ".3f"), _number(rate.b, ".3f"), _number(rate.difference, "+.3f")]
        interval = "-" if rate.low is None or rate.high is None else f"[{rate.low:+.3f}, {rate.high:+.3f}]"
        p_value = "-" if rate.p_value is None else f"p = {rate.p_value:.2g}"
        table.add_row(name, *values, interval, p_value, str(rate.problems))
    return table


def _conclusion(low: float, high: float) -> str:
    if low > 0:
        return "b is better"
    if high < 0:
        return "a is better"
    return "no difference can be told"


def _number(value: float | None, form: str) -> str:
    return "n/a" if value is None else format(value, form)
