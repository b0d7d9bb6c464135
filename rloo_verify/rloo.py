"""The RLOO estimator as pure tensor functions.

REINFORCE Leave-One-Out (Kool, van Hoof and Welling, 2019, "Buy 4 REINFORCE Samples, Get a Baseline for Free!", eq. 8;
Ahmadian et al., 2024, "Back to Basics", section 2.3). For G completions of one prompt drawn independently from the
current policy, with rewards r_1 ... r_G:

    baseline_i = mean of the other rewards      A_i = r_i - baseline_i
    loss = -(1/N) * sum_i A_i * sum_t log p(token_t of completion i)

Because baseline_i does not depend on completion i, subtracting it leaves the expected gradient unchanged. That needs
independent samples from the very distribution whose log-probs are differentiated: no beams, no truncated sampling, no
stale policy. There is no division by length or by a standard deviation, no ratio and no clipping.
"""

import torch
from torch import Tensor


def _leave_one_out(rewards: Tensor, valid: Tensor | None) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Splits rewards into `first + deviations` and takes the leave-one-out mean of the deviations.

    `first` is the first valid reward of the group. Advantages do not change when a constant is subtracted from a
    group; subtracting a reward that the group contains makes identical rewards exactly 0, so constant groups get
    advantages of exactly 0 and not a float residue, which Adam would blow up to a full step.

    Returns:
        `first [..., 1]`, `deviations [..., G]` (0 where excluded), `others [..., G]` (mean deviation of the other
        valid members), and `exists [..., G]` (valid, in a group with at least two valid members).
    """
    if not rewards.is_floating_point():
        rewards = rewards.to(torch.get_default_dtype())
    mask = torch.ones_like(rewards, dtype=torch.bool) if valid is None else valid.to(torch.bool)
    if mask.shape != rewards.shape:
        raise ValueError(f"valid has shape {tuple(mask.shape)} but rewards has {tuple(rewards.shape)}")
    first = torch.nan_to_num(rewards.gather(-1, mask.to(torch.int8).argmax(dim=-1, keepdim=True)))
    deviations = torch.where(mask, rewards - first, 0.0)
    count = mask.sum(dim=-1, keepdim=True)
    others = (deviations.sum(dim=-1, keepdim=True) - deviations) / (count - 1).clamp(min=1)
    return first, deviations, others, mask & (count >= 2)


def leave_one_out_baselines(rewards: Tensor, valid: Tensor | None = None) -> Tensor:
    """For each completion the mean reward of the *other* valid completions of its group.

    Args:
        rewards: `[..., G]`, one group along the last axis. Integers are taken as the default float type.
        valid: `[..., G]` booleans, False for completions to exclude (their reward may be NaN). All valid if None.

    Returns:
        `[..., G]`. For an excluded completion, and where fewer than two are valid, no baseline exists and the entry
        is 0; `leave_one_out_advantages` is 0 there too.

    Raises:
        ValueError: if `valid` has another shape than `rewards`.
    """
    first, _, others, exists = _leave_one_out(rewards, valid)
    return torch.where(exists, first + others, 0.0).detach()


def leave_one_out_advantages(rewards: Tensor, valid: Tensor | None = None) -> Tensor:
    """A_i = r_i - baseline_i, detached. Equals n / (n-1) * (r_i - mean) over the n valid members of the group.

    Args:
        rewards: `[..., G]`, one group along the last axis.
        valid: `[..., G]` booleans, False for completions to exclude. All valid if None.

    Returns:
        `[..., G]`: exactly 0 for excluded completions, for groups with fewer than two valid ones, and for groups
        whose valid rewards are identical. Rewards [1, 0, 0, 0] give [1, -1/3, -1/3, -1/3].

    Raises:
        ValueError: if `valid` has another shape than `rewards`.
    """
    _, deviations, others, exists = _leave_one_out(rewards, valid)
    return torch.where(exists, deviations - others, 0.0).detach()


def kl_penalized_rewards(rewards: Tensor, logprob_sums: Tensor, reference_logprob_sums: Tensor, beta: float) -> Tensor:
    """Raw rewards less `beta` times a one-sample estimate of KL(policy || reference), detached.

    The estimate is k1 (Schulman, 2020, "Approximating KL Divergence"): sum over the sampled tokens of
    log p(token) - log p_ref(token). It is unbiased, may be negative, and enters here only: as part of the reward,
    before the baseline. A KL term in the loss besides it would count it twice.

    Args:
        rewards: `[..., G]` raw rewards.
        logprob_sums: `[..., G]` log-prob of each completion under the policy that drew it, summed over its tokens.
        reference_logprob_sums: `[..., G]` the same under the frozen reference model.
        beta: Weight of the penalty, in reward per nat; 0 returns the raw rewards.

    Returns:
        `[..., G]` shaped rewards without gradient.
    """
    return (rewards - beta * (logprob_sums - reference_logprob_sums)).detach()


def rloo_loss(logprob_sums: Tensor, advantages: Tensor, num_completions: int) -> Tensor:
    """-(1/N) * sum_i A_i * (sum of the log-probs of completion i's tokens).

    Args:
        logprob_sums: `[n]`, differentiable, for any subset of the step's completions. Summing the losses of subsets
            gives the loss of their union, so micro-batches need no re-weighting.
        advantages: `[n]`, treated as constants.
        num_completions: N, the number of judged completions of the whole step, those of no-signal groups included.

    Returns:
        A scalar. Its value is near 0 whatever the policy does (advantages sum to 0 in a group); its gradient matters.

    Raises:
        ValueError: on different shapes or `num_completions < 1`.
    """
    if logprob_sums.shape != advantages.shape:
        raise ValueError(f"{tuple(logprob_sums.shape)} log-prob sums but {tuple(advantages.shape)} advantages")
    if num_completions < 1:
        raise ValueError(f"num_completions must be at least 1, not {num_completions}")
    return -(advantages.detach() * logprob_sums).sum() / num_completions
