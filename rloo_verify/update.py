"""What one call of `Learner.step` did, and how the parts that micro-batches and processes contribute add up to it."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from rloo_verify.advantages import Kl
from rloo_verify.importance import Importance


@dataclass(frozen=True, slots=True)
class Gap:
    """|learner - sampler| log-prob over some sampled tokens, in nats: its mean and its maximum."""

    mean: float
    max: float


@dataclass(frozen=True, slots=True)
class Update:
    """What one call of `Learner.step` did.

    Attributes:
        updated: Whether the optimizer took a step; False leaves parameters and optimizer bit-identical.
        loss: Value of the loss; near 0 by construction.
        grad_norm: Norm of the gradient before clipping, None without an update.
        lr: Learning rate of the update, None without one.
        completions: Completions trained on.
        tokens: Completion tokens trained on.
        tokens_computed: Tokens that went through the model, prompts included.
        tokens_saved: Prompt tokens that did not, because completions share their prompt.
        tokens_padding: Padding that went through the model besides.
        flops: Operations that the model needs for these tokens, forward and backward.
        peak_flops: Operations a second that the devices reach in a large matrix product; None without an update.
        gap: Sampler against learner over those tokens, or over one completion where none was trained on.
        entropy: Mean entropy of the distributions that the tokens were drawn from, in nats; None unless asked for.
        kl: The KL penalty's statistics; None without KL.
        importance: The off-policy guard's statistics; None without it.
    """

    updated: bool
    loss: float = 0.0
    grad_norm: float | None = None
    lr: float | None = None
    completions: int = 0
    tokens: int = 0
    tokens_computed: int = 0
    tokens_saved: int = 0
    tokens_padding: int = 0
    flops: float = 0.0
    peak_flops: float | None = None
    gap: Gap | None = None
    entropy: float | None = None
    kl: Kl | None = None
    importance: Importance | None = None


@dataclass(slots=True)
class Part:
    """What some micro-batches contribute to an update; parts add up.

    Attributes:
        loss: Their part of the loss.
        computed: Tokens without padding.
        padding: Padding.
        flops: Operations of the model.
        tokens: Completion tokens.
        gap_sum: Sum over these of |learner - sampler| log-prob, in nats.
        gap_max: The largest of them.
        entropy_sum: Sum over these of the entropy, in nats.
        log_ratios: log p_learner / p_sampler of whole completions, where the off-policy guard is on.
    """

    loss: float = 0.0
    computed: int = 0
    padding: int = 0
    flops: float = 0.0
    tokens: int = 0
    gap_sum: float = 0.0
    gap_max: float = 0.0
    entropy_sum: float = 0.0
    log_ratios: Tensor = field(default_factory=lambda: torch.empty(0, dtype=torch.float64))

    @property
    def gap(self) -> Gap | None:
        """None where there are no tokens."""
        return Gap(self.gap_sum / self.tokens, self.gap_max) if self.tokens else None


def gap_part(logprobs_K: Tensor, drawn_K: Tensor) -> Part:
    """The part of an update that compares learner and sampler over K tokens.

    Args:
        logprobs_K: Log-probs by the learner.
        drawn_K: Log-probs by the sampler, on the CPU.
    """
    gaps = (logprobs_K.detach().cpu().float() - drawn_K).abs()
    largest = gaps.max().item() if len(gaps) else 0.0
    return Part(tokens=len(gaps), gap_sum=gaps.sum(dtype=torch.float64).item(), gap_max=largest)


def total(parts: Sequence[Part]) -> Part:
    """The sum of some parts."""
    return Part(
        loss=sum(part.loss for part in parts),
        computed=sum(part.computed for part in parts),
        padding=sum(part.padding for part in parts),
        flops=sum(part.flops for part in parts),
        tokens=sum(part.tokens for part in parts),
        gap_sum=sum(part.gap_sum for part in parts),
        gap_max=max((part.gap_max for part in parts), default=0.0),
        entropy_sum=sum(part.entropy_sum for part in parts),
        log_ratios=torch.cat([Part().log_ratios, *(part.log_ratios for part in parts)]),
    )
