"""Which problems a training run visited when, and with what success: which are dead, and which are being learned."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rloo_verify.report.groups import read_records
from rloo_verify.storage import read_jsonl, write_atomically

CACHE = ".visits.jsonl"
"""In the run folder: a line a rollout file, so that a report of a long run reads only the rollouts that are new."""
SHOWN = 12
"""Problems of each table."""


@dataclass(frozen=True, slots=True)
class Visit:
    """The judged answers to a problem in one step."""

    step: int
    passed: int
    judged: int


@dataclass(frozen=True, slots=True)
class Story:
    """A problem that was visited, with its judged visits in order of their steps."""

    problem: str
    visits: Sequence[Visit]

    @property
    def earlier(self) -> float:
        """The pass rate of the first half of its visits; one visit is both halves."""
        return _rate(self.visits[: max(1, len(self.visits) // 2)])

    @property
    def later(self) -> float:
        """The pass rate of the second half of its visits."""
        return _rate(self.visits[len(self.visits) // 2 :])

    @property
    def change(self) -> float:
        """How much the pass rate of the second half of its visits is above that of the first half."""
        return self.later - self.earlier


def _rate(visits: Sequence[Visit]) -> float:
    return sum(visit.passed for visit in visits) / sum(visit.judged for visit in visits)


def problem_tables(run: Path) -> dict[str, Any]:
    """The tables of dead, learning and slipping problems of a run, with their totals.

    A problem is dead if no visit of it was ever mixed and all had the same result: every answer failed, or every
    answer passed. It teaches nothing, however often it is drawn. A problem is learning (slipping) if the second half
    of its visits has a higher (lower) pass rate than the first.
    """
    stories = read_stories(run)
    failed = [story for story in stories if all(visit.passed == 0 for visit in story.visits)]
    passed = [story for story in stories if all(visit.passed == visit.judged for visit in story.visits)]
    moved = sorted((story for story in stories if story.change), key=lambda story: (story.change, story.problem))
    return {
        "seen": len(stories),
        "again": sum(len(story.visits) > 1 for story in stories),
        "visits": sum(len(story.visits) for story in stories),
        "failed": _table(sorted(failed, key=_most_visits), len(failed)),
        "passed": _table(sorted(passed, key=_most_visits), len(passed)),
        "learning": _table(moved[::-1][:SHOWN], sum(story.change > 0 for story in moved), lambda s: s.change > 0),
        "slipping": _table(moved[:SHOWN], sum(story.change < 0 for story in moved), lambda s: s.change < 0),
    }


def read_stories(run: Path) -> list[Story]:
    """The problems of a run that have a judged visit, in order of their first one."""
    stories: dict[str, list[Visit]] = {}
    for step, problems in _tallies(run):
        for problem, (passed, judged) in problems.items():
            if judged:
                stories.setdefault(problem, []).append(Visit(step, passed, judged))
    return [Story(problem, visits) for problem, visits in stories.items()]


def _tallies(run: Path) -> list[tuple[int, Mapping[str, Sequence[int]]]]:
    """Passed and judged answers of each problem of each step; from the cache where the rollout file is the same."""
    known = {row["file"]: row for row in read_jsonl(run / CACHE) if isinstance(row, dict) and "file" in row}
    rows, new = [], False
    for file in sorted((run / "rollouts").glob("step-*.jsonl")):
        try:
            state = file.stat()
        except FileNotFoundError:  # a resumed run is about to do the step again
            continue
        stamp = [state.st_mtime_ns, state.st_size]
        row = known.get(file.name)
        if row is None or row.get("stamp") != stamp:
            row, new = {"file": file.name, "stamp": stamp, "problems": _tally(file)}, True
        rows.append(row)
    if new:
        write_atomically(run / CACHE, "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows))
    return [(int(row["file"][len("step-") : -len(".jsonl")]), row["problems"]) for row in rows]


def _tally(file: Path) -> dict[str, list[int]]:
    passed: Counter[str] = Counter()
    judged: Counter[str] = Counter()
    for record in read_records(file):
        outcome = record.get("outcome")
        passed[record["problem"]] += outcome == "pass"
        judged[record["problem"]] += outcome in ("pass", "fail")
    return {problem: [passed[problem], judged[problem]] for problem in judged}


def _most_visits(story: Story) -> tuple[int, str]:
    return -len(story.visits), story.problem


def _table(stories: Sequence[Story], total: int, belongs: Any = None) -> dict[str, Any]:
    rows = [story for story in stories if belongs is None or belongs(story)][:SHOWN]
    return {
        "total": total,
        "rows": [
            {
                "problem": story.problem,
                "visits": len(story.visits),
                "steps": sorted({story.visits[0].step, story.visits[-1].step}),
                "earlier": story.earlier,
                "later": story.later,
                "answers": sum(visit.judged for visit in story.visits),
            }
            for story in rows
        ],
    }
