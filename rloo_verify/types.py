"""The values that flow through the pipeline: problem -> completion -> verdict -> group.

Axis letters, declared once for the whole project. A name that ends in letters carries these axes in this order:

    P  problems of a step          T  tokens of one sequence
    G  completions of a problem    B  packed sequences of a micro-batch
    N  completions of a step       V  vocabulary

This module imports nothing heavy: verifier workers load it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Outcome(StrEnum):
    """What verification says of one completion. ERROR is not a reward: nobody knows whether the answer is right."""

    PASS = "pass"
    FAIL = "fail"
    ERROR = "error"


class FinishReason(StrEnum):
    """Why the engine stopped a completion, in the engine's own word, never guessed from the last token."""

    STOP = "stop"
    LENGTH = "length"


class Signal(StrEnum):
    """What a group can teach, decided on raw verdicts by equality.

    `MIXED` has both PASS and FAIL among its judged completions. `ALL_PASS` and `ALL_FAIL` have identical rewards, so
    every leave-one-out advantage is 0. `UNJUDGED` has fewer than two judged completions, so no baseline exists.
    """

    MIXED = "mixed"
    ALL_PASS = "all_pass"
    ALL_FAIL = "all_fail"
    UNJUDGED = "unjudged"


@dataclass(frozen=True, slots=True)
class Problem:
    """One prompt with its reference answer.

    Attributes:
        id: Unique within a run and stable between runs, `task/split/row`, for instance `gsm8k/train/17`.
        task: Name of the task, which also names the checker.
        messages: The prompt as chat messages, each `{"role": ..., "content": ...}`; what a chat template receives.
        plain: The prompt as one string; what a model without a chat template receives.
        answer: The reference in the form that the task's checker takes. Never shown to the model.
        row: The columns of the row that the prompt templates and custom checkers may use.
        prompt_token_ids_T: The prompt as the model sees it; empty until rendered (`prompts.render`).
        family: What problems that are not independent of each other share, for instance the template that a question
            was made from; None where the problem stands alone.
    """

    id: str
    task: str
    messages: tuple[Mapping[str, str], ...]
    plain: str
    answer: Any
    row: Mapping[str, Any] = field(default_factory=dict)
    prompt_token_ids_T: tuple[int, ...] = ()
    family: str | None = None


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer drawn by the policy. The learner trains on `token_ids_T`; `text` is for the checkers and for people.

    Attributes:
        problem_id: `Problem.id`.
        sample_index: 0 to G-1; a problem that comes again in the same step goes on counting from G.
        token_ids_T: The sampled token ids, the end-of-sequence token included when the engine sampled one.
        logprobs_T: Natural log of the probability of each sampled token under the distribution that was sampled from
            (temperature applied), in the engine's arithmetic.
        text: `token_ids_T` decoded without special tokens.
        finish_reason: `STOP` or `LENGTH` (truncated by `max_new_tokens`).
        policy_version: Version of the weights that drew this, all of it: optimizer steps taken by then.
        seed: The seed of this completion alone.
    """

    problem_id: str
    sample_index: int
    token_ids_T: tuple[int, ...]
    logprobs_T: tuple[float, ...]
    text: str
    finish_reason: FinishReason
    policy_version: int
    seed: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """The judgement of one completion.

    Attributes:
        outcome: PASS, FAIL or ERROR.
        reason: A short machine-readable word: `correct`, `wrong_answer`, `no_answer`, `timeout`, `checker_crashed`...
        detail: One sentence for people; may be empty.
        answer: The final answer as extracted from the text, or None where there was none.
        seconds: Wall time of the check.
    """

    outcome: Outcome
    reason: str
    detail: str = ""
    answer: str | None = None
    seconds: float = 0.0

    @property
    def reward(self) -> float | None:
        """1.0 for PASS, 0.0 for FAIL, None for ERROR."""
        return {Outcome.PASS: 1.0, Outcome.FAIL: 0.0, Outcome.ERROR: None}[self.outcome]


@dataclass(frozen=True, slots=True)
class Group:
    """The G completions of one problem and their verdicts, in order of `sample_index`."""

    problem: Problem
    completions_G: Sequence[Completion]
    verdicts_G: Sequence[Verdict]

    def __post_init__(self) -> None:
        if len(self.completions_G) != len(self.verdicts_G):
            raise ValueError(
                f"{self.problem.id}: {len(self.completions_G)} completions but {len(self.verdicts_G)} verdicts"
            )

    @property
    def rewards_G(self) -> list[float | None]:
        """Raw rewards: 1.0, 0.0, or None where verification failed."""
        return [verdict.reward for verdict in self.verdicts_G]

    @property
    def signal(self) -> Signal:
        """The group's signal, by equality of the judged raw rewards."""
        judged = [reward for reward in self.rewards_G if reward is not None]
        if len(judged) < 2:
            return Signal.UNJUDGED
        if any(reward != judged[0] for reward in judged):
            return Signal.MIXED
        return Signal.ALL_PASS if judged[0] == 1.0 else Signal.ALL_FAIL
