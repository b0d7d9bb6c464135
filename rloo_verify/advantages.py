"""Groups -> the advantage of each judged completion, with the KL penalty inside the reward where it is on."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from rloo_verify.packing import Scored
from rloo_verify.rloo import kl_penalized_rewards, leave_one_out_advantages
from rloo_verify.types import Group


@dataclass(frozen=True, slots=True)
class Kl:
    """Means over the judged completions: k1 estimate summed over tokens (nats), and reward after the penalty."""

    mean: float
    shaped_reward_mean: float


def numbered(groups: Sequence[Group]) -> list[tuple[Scored, tuple[float, ...]]]:
    """Every completion of some groups, numbered through, each with the sampler's log-probs of its tokens."""
    pairs = [(group.problem, completion) for group in groups for completion in group.completions_G]
    return [
        (Scored(index, problem.prompt_token_ids_T, completion.token_ids_T), completion.logprobs_T)
        for index, (problem, completion) in enumerate(pairs)
    ]


def advantages_by_number(
    groups: Sequence[Group], reference_sums: Mapping[int, float] | None = None, beta: float = 0.0
) -> tuple[dict[int, float], Kl | None]:
    """Leave-one-out advantages of the judged completions of each group.

    The KL penalty compares the reference with the sampler's own log-probs: completions are refused unless the current
    weights drew them, so these are the policy's, and no second forward of the policy is needed.

    Args:
        groups: Groups with at least two judged completions each.
        reference_sums: Log-prob of each completion under the reference, summed over its tokens, by its number in
            `numbered(groups)`; None without KL.
        beta: Weight of the KL penalty, in reward per nat.

    Returns:
        Advantages by number, for judged completions only; and the KL statistics, None without KL.
    """
    advantages: dict[int, float] = {}
    kl: list[float] = []
    shaped: list[float] = []
    first = 0
    for group in groups:
        numbers = range(first, first + len(group.completions_G))
        first = numbers.stop
        valid = torch.tensor([reward is not None for reward in group.rewards_G])
        rewards = torch.tensor([reward or 0.0 for reward in group.rewards_G], dtype=torch.float64)
        if reference_sums is not None:
            sums = torch.tensor([math.fsum(c.logprobs_T) for c in group.completions_G], dtype=torch.float64)
            reference = torch.tensor([reference_sums.get(number, 0.0) for number in numbers], dtype=torch.float64)
            rewards = kl_penalized_rewards(rewards, sums, reference, beta)
            kl += (sums - reference)[valid].tolist()
            shaped += rewards[valid].tolist()
        values = leave_one_out_advantages(rewards, valid).tolist()
        advantages |= {i: value for i, value, ok in zip(numbers, values, valid.tolist(), strict=True) if ok}
    return advantages, Kl(sum(kl) / len(kl), sum(shaped) / len(shaped)) if kl else None
