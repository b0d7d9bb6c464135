"""Judged completions as values and as JSON lines: what an evaluation is computed from, whoever drew the completions."""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from rloo_verify.errors import RunError
from rloo_verify.types import Completion, FinishReason, Group, Outcome, Problem, Verdict


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """One judged completion, with everything about it that people and statistics ask for; None where not known.

    Attributes:
        prompt: The text that the model saw, chat template included where it is known.
        problem: Id of the problem; the samples of one problem are one group.
        task: Name of the task.
        family: Problems of one family are not independent of each other (variants of one template, questions about one
            text); intervals resample families as a whole. None: the problem stands alone.
        sample_index: Which of the problem's completions this is, from 0.
        outcome: PASS, FAIL or ERROR.
        reason: The verdict's word, for instance `wrong_answer`.
        detail: The verdict's sentence; may be empty.
        answer: The final answer as extracted from the text; None where there was none or the checker extracts none.
        reference: What the answer was compared with.
        tokens: Length of the completion, in tokens.
        finish_reason: `stop` or `length`.
        logprob_sum: Natural log of the completion's probability under the policy that drew it.
        policy_version: Optimizer steps taken by the weights that drew it.
        seed: The seed of this completion alone.
        text: The completion.
    """

    prompt: str | None = None
    problem: str
    task: str
    family: str | None = None
    sample_index: int = 0
    outcome: Outcome
    reason: str = ""
    detail: str = ""
    answer: str | None = None
    reference: Any = None
    tokens: int | None = None
    finish_reason: str | None = None
    logprob_sum: float | None = None
    policy_version: int | None = None
    seed: int | None = None
    text: str | None = None

    @property
    def truncated(self) -> bool:
        """Whether the completion was cut at the longest length that was allowed."""
        return self.finish_reason == FinishReason.LENGTH

    def as_json(self) -> dict[str, Any]:
        """The fields by name, in order."""
        return {name: getattr(self, name) for name in _NAMES}

    def line(self) -> str:
        """One line of a JSON-lines file, in ASCII: any text, lone surrogates too, stays on its line."""
        return json.dumps(self.as_json(), ensure_ascii=True, default=str)


_NAMES = tuple(field.name for field in fields(Sample))
_REQUIRED = ("problem", "task", "outcome")


def judged_sample(problem: Problem, sample_index: int, verdict: Verdict, **known: Any) -> Sample:
    """The sample of an answer to a problem and its verdict; `known` are the other fields, as far as they are known."""
    return Sample(
        problem=problem.id,
        task=problem.task,
        family=problem.family,
        sample_index=sample_index,
        outcome=verdict.outcome,
        reason=verdict.reason,
        detail=verdict.detail,
        answer=verdict.answer,
        reference=problem.answer,
        **known,
    )


def sample_of(problem: Problem, completion: Completion, verdict: Verdict, prompt: str | None = None) -> Sample:
    """The sample of a completion and its verdict."""
    return judged_sample(
        problem,
        completion.sample_index,
        verdict,
        prompt=prompt,
        tokens=len(completion.token_ids_T),
        finish_reason=str(completion.finish_reason),
        logprob_sum=sum(completion.logprobs_T),
        policy_version=completion.policy_version,
        seed=completion.seed,
        text=completion.text,
    )


def group_samples(groups: Iterable[Group]) -> list[Sample]:
    """The samples of judged groups, without the text of their prompts."""
    return [
        sample_of(group.problem, completion, verdict)
        for group in groups
        for completion, verdict in zip(group.completions_G, group.verdicts_G, strict=True)
    ]


def sample_from_json(values: Mapping[str, Any]) -> Sample:
    """A sample from the fields of a JSON object; unknown keys, such as `signal` of a rollout file, are ignored.

    Raises:
        ValueError: if `problem`, `task` or `outcome` is missing, or the outcome is not pass, fail or error.
    """
    missing = [name for name in _REQUIRED if values.get(name) is None]
    if missing:
        raise ValueError(f"it lacks `{missing[0]}`")
    known = {name: values[name] for name in _NAMES if name in values}
    return Sample(**{**known, "outcome": Outcome(values["outcome"])})


def read_samples(path: Path) -> list[Sample]:
    """The samples of a JSON-lines file: `samples.jsonl`, or a file of `eval/` or `rollouts/` of a training run.

    A torn last line, which a killed writer leaves, is left out.

    Raises:
        RunError: if the file cannot be read, or another line is not a sample; names the line.
    """
    try:
        lines = path.read_bytes().split(b"\n")
    except OSError as error:
        raise RunError(f"{path} cannot be read: {error.strerror}") from error
    return [sample for number, line in enumerate(lines, start=1) for sample in _sample(path, number, line, lines)]


def _sample(path: Path, number: int, line: bytes, lines: Sequence[bytes]) -> list[Sample]:
    if not line.strip():
        return []
    try:
        values = json.loads(line)
    except ValueError as error:
        if number == len(lines):
            return []
        raise RunError(f"{path}, line {number} is not JSON: {error}") from error
    try:
        if not isinstance(values, dict):
            raise ValueError("it is not a JSON object")  # noqa: TRY004 (one way out)
        return [sample_from_json(values)]
    except ValueError as error:
        raise RunError(f"{path}, line {number} is not a judged completion: {error}") from error
