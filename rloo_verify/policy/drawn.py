"""What an evaluation gets from an engine for each request: a completion, or the reason why there is none."""

from collections.abc import Generator, Sequence
from dataclasses import dataclass

from rloo_verify.policy.base import Policy, Request, Sampling


@dataclass(frozen=True, slots=True)
class Drawn:
    """One answer as far as its engine describes it. A server tells text and length, but neither ids nor log-probs.

    Attributes:
        request: What was asked for, with the seed that was used.
        text: The completion; None where it could not be drawn, for the reason in `error`.
        tokens: Its length in tokens.
        finish_reason: `stop`, `length`, or the server's own word.
        logprob_sum: Natural log of its probability.
        policy_version: Version of the weights.
        error: One sentence, where there is no completion.
    """

    request: Request
    text: str | None = None
    tokens: int | None = None
    finish_reason: str | None = None
    logprob_sum: float | None = None
    policy_version: int | None = None
    error: str = ""


def draw(policy: Policy, requests: Sequence[Request], sampling: Sampling) -> Generator[Drawn, None, None]:
    """Answers of an engine in this process, as they finish.

    Raises:
        PolicyError: if the engine breaks.
    """
    by_key = {(request.problem.id, request.sample_index): request for request in requests}
    for completion in policy.generate(requests, sampling):
        yield Drawn(
            request=by_key[completion.problem_id, completion.sample_index],
            text=completion.text,
            tokens=len(completion.token_ids_T),
            finish_reason=str(completion.finish_reason),
            logprob_sum=sum(completion.logprobs_T),
            policy_version=completion.policy_version,
        )
