"""verl's dumps (`trainer.rollout_data_dir`, `trainer.validation_data_dir`): one file a step.

Keys: `input` (the prompt as decoded), `output`, `gts` (the reference; missing in old dumps), `score`, `step`, and what
the reward function reported, `acc` for some. A line has no id: problems are told apart by prompt and reference.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rloo_verify.formats.saved import SavedAnswer, outcome_of, text_of

NAME = "verl rollouts"


def recognises(row: Mapping[str, Any]) -> bool:
    """Whether a line has the keys of a dump."""
    return {"input", "output", "score"} <= row.keys()


def answers(row: Mapping[str, Any], line: int) -> Iterator[SavedAnswer]:
    """The answer of a line; `acc` says more plainly than `score` whether it was right."""
    yield SavedAnswer(
        line=line,
        text=text_of(row["output"], "output"),
        raw=row,
        prompt=text_of(row["input"], "input"),
        reference=row.get("gts"),
        label=outcome_of(row["acc"] if row.get("acc") is not None else row["score"]),
    )
