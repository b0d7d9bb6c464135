"""This project's own lines: samples of an evaluation, rollouts and evaluations of a training run."""

from collections.abc import Iterator, Mapping
from typing import Any

from rloo_verify.formats.saved import SavedAnswer, outcome_of, text_of
from rloo_verify.types import Outcome

NAME = "rloo-verify samples"


def recognises(row: Mapping[str, Any]) -> bool:
    """Whether a line has the keys of `rloo_verify.records`."""
    return {"problem", "sample_index", "outcome", "text"} <= row.keys()


def answers(row: Mapping[str, Any], line: int) -> Iterator[SavedAnswer]:
    """The answer of a line; one that could not be drawn stays an error."""
    label = outcome_of(row["outcome"])
    undrawn = row["text"] is None and label is Outcome.ERROR
    yield SavedAnswer(
        line=line,
        text=None if undrawn else text_of(row["text"], "text"),
        raw=row,
        task=row.get("task"),
        problem=row["problem"],
        prompt=row.get("prompt"),
        reference=row.get("reference"),
        label=label,
        family=row.get("family"),
        sample_index=row["sample_index"],
        tokens=row.get("tokens"),
        finish_reason=row.get("finish_reason"),
    )
