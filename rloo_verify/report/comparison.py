"""The report of a comparison: paired differences, and what flipped with both sides' answers beside each other."""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rloo_verify.errors import RunError
from rloo_verify.evaluation_folder import SAMPLES
from rloo_verify.report.chart import Chart, Series
from rloo_verify.report.groups import MAX_BYTES, Record, answer_json, by_index, cut, evenly, fitting, read_records
from rloo_verify.report.page import render
from rloo_verify.report.words import plural
from rloo_verify.storage import write_atomically

COMPARISON = "compare.json"
MAX_FLIPS = 2000
"""Flipped problems whose answers are read; more are left out, and the page says so."""
FEW_ANSWERS, BINS = 16, 10
"""Bars to each side of the chart of differences: one for each number of answers, or `BINS` where they are many."""


def write_comparison_report(folder: Path, a: Path, b: Path) -> Path:
    """Writes `report.html` into a comparison folder and returns its path.

    Args:
        folder: The folder, with its compare.json.
        a: The first evaluation: its folder or its samples.
        b: The second.

    Raises:
        RunError: if there is no comparison in the folder.
        StorageError: if it cannot be written.
    """
    comparison = read_comparison(folder)
    browser = _browser(comparison, _samples(a), _samples(b))
    charts = [_differences(comparison)] if comparison["flips"] and comparison["sign_test_n"] > 1 else []
    html = render(
        "comparison.html.j2",
        data={"charts": [chart.as_json() for chart in charts], "browser": browser},
        comparison=comparison,
        rates=list(comparison["rates"].items()),
        charts=charts,
        left_out=browser["left_out"],
    )
    path = folder / "report.html"
    write_atomically(path, html)
    return path


def read_comparison(folder: Path) -> dict[str, Any]:
    """The compare.json of a folder.

    Raises:
        RunError: if it cannot be read.
    """
    file = folder / COMPARISON
    try:
        comparison: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(f"{file} cannot be read: {error}; run rloo-verify compare again") from error
    return comparison


def _samples(evaluation: Path) -> Path:
    return evaluation / SAMPLES if evaluation.is_dir() else evaluation


def _browser(comparison: Mapping[str, Any], a: Path, b: Path) -> dict[str, Any]:
    """The flipped problems, the largest change first, with the answers of both."""
    flips = evenly(comparison["flips"], MAX_FLIPS)
    wanted = {flip["problem"] for flip in flips}
    sides = [_of_problems(file, wanted) for file in (a, b)]
    there = [_flip(flip, *(side.get(flip["problem"], []) for side in sides)) for flip in flips]
    groups = fitting(there, MAX_BYTES)
    left_out = ""
    if len(groups) < len(comparison["flips"]):
        left_out = (
            f"Shown here: {len(groups):,} of {plural(len(comparison['flips']), 'flipped problem')}, evenly spaced."
        )
    return {"groups": groups, "left_out": left_out, "sides": [comparison["a"], comparison["b"]], "noun": "problems"}


def _of_problems(file: Path, wanted: set[str]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in read_records(file):
        if record["problem"] in wanted:
            found.setdefault(record["problem"], []).append(record)
    return {problem: sorted(records, key=by_index) for problem, records in found.items()}


def _flip(flip: Mapping[str, Any], a: list[Record], b: list[Record]) -> dict[str, Any]:
    known: Record = next((record for record in [*a, *b] if record.get("prompt")), (a or b or [{}])[0])
    return {
        "problem": flip["problem"],
        "label": "gained" if flip["b"] > flip["a"] else "lost",
        "prompt": cut(known.get("prompt")),
        "reference": cut(known.get("reference")),
        "sides": [[answer_json(record) for record in records] for records in (a, b)],
    }


def _differences(comparison: Mapping[str, Any]) -> Chart:
    """How many of the flipped problems changed by how much."""
    answers = comparison["sign_test_n"]
    bins = answers if answers <= FEW_ANSWERS else BINS
    places = range(-bins, bins + 1)
    heights = Counter(round((flip["b"] - flip["a"]) * bins) for flip in comparison["flips"])
    return Chart(
        title="Changes of the flipped problems",
        caption=f"Problems by the change of their pass rate; {comparison['unchanged']:,} unchanged ones are not shown.",
        x=[place / bins for place in places],
        series=[
            Series(
                label="lost", values=[heights[p] if p < 0 else 0 for p in places], colour="vermillion", stacked=True
            ),
            Series(label="gained", values=[heights[p] if p >= 0 else 0 for p in places], colour="green", stacked=True),
        ],
        format="count",
        x_name="change",
        x_format="signed",
        bars=True,
    )
