"""The groups that a report's browser holds: which ones, how long their texts, and what is said about those left out."""

import contextlib
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from rloo_verify.report.page import inert_json
from rloo_verify.report.words import plural
from rloo_verify.types import Signal

MAX_BYTES = 12_000_000
"""JSON of all groups of a page; with the rest a page stays well under 20 MB and opens in two seconds."""
MAX_STEPS = 64
"""Steps of a training run whose rollouts are in its report."""
HEAD, TAIL = 6000, 2000
"""Characters of a longer text that are kept from its beginning and its end, where the answer is."""

Record = Mapping[str, Any]
Item = TypeVar("Item")


def rollout_browser(folder: Path) -> dict[str, Any]:
    """The browser of a training run: groups of its first, its last and evenly spaced steps between them.

    Each of the steps has the same share of `MAX_BYTES`, filled with evenly spaced groups of the step.

    Args:
        folder: The run's `rollouts/`. Files that vanish meanwhile (a resumed run redoes steps) are left out.
    """
    files = sorted(folder.glob("step-*.jsonl"))
    chosen = evenly(files, MAX_STEPS)
    groups: list[dict[str, Any]] = []
    there = 0
    for file in reversed(chosen):
        of_step = [group_json(records) for records in by_problem(read_records(file))]
        there += len(of_step)
        groups += fitting(of_step, MAX_BYTES // len(chosen))
    left_out = []
    if len(chosen) < len(files):
        left_out.append(
            f"rollouts of {len(chosen):,} of {len(files):,} steps: the first, the last, and evenly spaced ones"
        )
    if len(groups) < there:
        left_out.append(f"{len(groups):,} of the {there:,} groups of these steps, evenly spaced")
    return {"groups": groups, "left_out": _sentence(left_out, "rollouts/"), "noun": "groups"}


def sample_browser(
    file: Path, problems: Iterable[str], earlier: Mapping[tuple[str, int], str] | None = None
) -> dict[str, Any]:
    """The browser of an evaluation: all its problems, or evenly spaced ones within `MAX_BYTES`.

    Args:
        file: Its samples, which may be larger than the memory.
        problems: The ids of its problems.
        earlier: Verdicts that were otherwise before, by problem and sample index.
    """
    there = sorted(problems, key=natural)
    size = file.stat().st_size if there else 0
    # more than what is going to fit, as a group is smaller here than its lines in the file
    wanted = set(evenly(there, max(1, 2 * MAX_BYTES * len(there) // max(1, size))))
    found: dict[str, list[Record]] = {problem: [] for problem in there if problem in wanted}
    for record in read_records(file):
        if record["problem"] in wanted:
            old = (earlier or {}).get((record["problem"], by_index(record)))
            found[record["problem"]].append({**record, "earlier": old})
    groups = fitting([group_json(sorted(records, key=by_index)) for records in found.values() if records], MAX_BYTES)
    left_out = (
        [f"{len(groups):,} of {plural(len(there), 'problem')}, evenly spaced"] if len(groups) < len(there) else []
    )
    return {"groups": groups, "left_out": _sentence(left_out, file.name), "noun": "problems"}


def read_records(file: Path) -> Iterator[dict[str, Any]]:
    """The lines of a rollout or sample file that are about a problem, one at a time; long texts are cut.

    Torn lines are left out, and so is a file that vanished meanwhile.
    """
    try:
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                with contextlib.suppress(ValueError):
                    row = json.loads(line)
                    if isinstance(row, dict) and isinstance(row.get("problem"), str):
                        yield {key: cut(value) if isinstance(value, str) else value for key, value in row.items()}
    except FileNotFoundError:
        return


def by_problem(records: Iterable[Record]) -> list[list[Record]]:
    """Neighbouring records of one problem are one group."""
    return [list(group) for _, group in itertools.groupby(records, key=lambda record: record["problem"])]


def group_json(records: Sequence[Record]) -> dict[str, Any]:
    """One group for the page."""
    first = records[0]
    return {
        "step": first.get("step"),
        "problem": first["problem"],
        "label": first.get("signal") or (first.get("outcome") if len(records) == 1 else outcome_label(records)),
        "prompt": cut(first.get("prompt")),
        "reference": cut(first.get("reference")),
        "sides": [[answer_json(record) for record in records]],
    }


def answer_json(record: Record) -> dict[str, Any]:
    """One answer for the page; what is empty is left out."""
    values = {
        "outcome": record.get("outcome"),
        "reason": record.get("reason"),
        "earlier": record.get("earlier"),
        "detail": cut(record.get("detail")),
        "answer": cut(record.get("answer")),
        "advantage": record.get("advantage"),
        "tokens": record.get("tokens"),
        "cut": record.get("finish_reason") == "length",
        "text": cut(record.get("text")),
    }
    return {key: value for key, value in values.items() if value is not None and value is not False and value != ""}


def outcome_label(records: Iterable[Record]) -> Signal:
    """What the judged answers of a problem have in common; unlike in training, one judged answer is enough."""
    outcomes = {record.get("outcome") for record in records}
    if {"pass", "fail"} <= outcomes:
        return Signal.MIXED
    return Signal.ALL_PASS if "pass" in outcomes else Signal.ALL_FAIL if "fail" in outcomes else Signal.UNJUDGED


def cut(value: Any) -> str | None:
    """A text with its middle left out where it is long; says how much is missing."""
    if value is None:
        return None
    text = value if isinstance(value, str) else str(value)
    missing = len(text) - HEAD - TAIL
    return text if missing <= 0 else f"{text[:HEAD]}\n[... {missing:,} characters left out ...]\n{text[-TAIL:]}"


def evenly(items: Sequence[Item], most: int) -> list[Item]:
    """At most `most` items: the first, the last, and evenly spaced ones between them."""
    if len(items) <= most:
        return list(items)
    if most <= 1:
        return list(items[-1:])
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]


def fitting(groups: Sequence[dict[str, Any]], size: int) -> list[dict[str, Any]]:
    """Evenly spaced groups whose JSON has at most `size` bytes: as many as fit. At least one, if there is any."""
    sizes = [len(inert_json(group)) + 1 for group in groups]
    for most in _fewer(len(groups)):
        chosen = evenly(range(len(groups)), most)
        if sum(sizes[i] for i in chosen) <= size or most == 1:
            return [groups[i] for i in chosen]
    return []


def _fewer(number: int) -> Iterator[int]:
    """All, then a tenth less each time."""
    while number:
        yield number
        number = min(number - 1, number * 9 // 10)


def natural(problem: str) -> list[tuple[int, str]]:
    """A sort key that puts `gsm8k/test/9` before `gsm8k/test/10`."""
    return [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"(\d+)", problem)]


def by_index(record: Record) -> int:
    """A sort key: the place of an answer among those of its problem."""
    return record.get("sample_index") or 0


def _sentence(parts: Sequence[str], source: str) -> str:
    return f"Shown here: {'; '.join(parts)}. Everything is in {source}." if parts else ""
