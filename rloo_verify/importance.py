"""The off-policy guard: truncated sequence-level importance weights between the sampler and the learner.

Sampler and learner hold the same weights but compute log-probs with other kernels and other precision, so completions
are drawn from a distribution that differs a little from the one which is differentiated. Where that matters (bfloat16,
quantised samplers), each completion's advantage is multiplied by

    w_i = min(cap, p_learner(completion_i) / p_sampler(completion_i)),

the ratio of whole completions, detached. Without the cap the gradient estimate is unbiased again but its variance may
be unbounded; the cap trades a little bias for a bounded variance (Ionides, 2008, "Truncated Importance Sampling").
"""

import math
from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True)
class Importance:
    """What the weights of a step say.

    Attributes:
        effective_share: Effective sample size by the number of completions, in (0, 1]: 1 where all weights are equal.
        capped_share: Share of completions whose ratio was above the cap.
    """

    effective_share: float
    capped_share: float


def log_ratios(logprob_sums: Tensor, sampler_logprob_sums: Tensor) -> Tensor:
    """Log of p_learner / p_sampler of whole completions, detached and in float64.

    Args:
        logprob_sums: `[n]` log-prob of each completion under the learner, summed over its tokens, in nats.
        sampler_logprob_sums: `[n]` the same under the sampler.
    """
    return logprob_sums.detach().double() - sampler_logprob_sums.detach().double()


def truncated_weights(log_ratios: Tensor, cap: float) -> Tensor:
    """`[n]` weights min(cap, exp(log ratio)); exponentiates no more than the cap, so nothing overflows."""
    return log_ratios.clamp(max=math.log(cap)).exp()


def importance_statistics(log_ratios: Tensor, cap: float) -> Importance | None:
    """Effective share (sum w)^2 / (n sum w^2) (Kong, 1992) of the truncated weights, and how many were capped.

    Args:
        log_ratios: `[n]` of all completions of a step.
        cap: Largest weight.

    Returns:
        None without completions.
    """
    if not len(log_ratios):
        return None
    scaled = torch.exp(log_ratios.clamp(max=math.log(cap)) - log_ratios.clamp(max=math.log(cap)).max())  # largest is 1
    effective = scaled.sum().square() / (len(scaled) * scaled.square().sum())
    return Importance(effective.item(), (log_ratios > math.log(cap)).double().mean().item())
