"""The numbers of one step, as written to metrics.jsonl. docs/metrics.md explains each."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

from rloo_verify.rollout import error_share
from rloo_verify.types import FinishReason, Group, Signal
from rloo_verify.update import Update


def signal_counts(groups: Sequence[Group]) -> dict[str, int]:
    """How many groups have each signal; all four keys are always there."""
    counts = Counter(group.signal for group in groups)
    return {str(signal): counts[signal] for signal in Signal}


def step_metrics(step: int, groups: Sequence[Group], update: Update, seconds: dict[str, float]) -> dict[str, Any]:
    """One row of metrics.jsonl.

    Args:
        step: Counted from 1.
        groups: All groups drawn in the step.
        update: What the learner did with them.
        seconds: Wall time by phase.
    """
    completions = [completion for group in groups for completion in group.completions_G]
    verdicts = [verdict for group in groups for verdict in group.verdicts_G]
    rewards = [verdict.reward for verdict in verdicts if verdict.reward is not None]
    lengths = [len(completion.token_ids_T) for completion in completions]
    counts = signal_counts(groups)
    total, learn = sum(seconds.values()), seconds.get("learn")
    return {
        "step": step,
        "reward": sum(rewards) / len(rewards) if rewards else None,
        "groups": len(groups),
        "completions": len(completions),
        **{f"groups_{name}": count for name, count in counts.items()},
        **{f"frac_{name}": count / max(1, len(groups)) for name, count in counts.items()},
        "errors": len(verdicts) - len(rewards),
        "error_share": error_share(groups),
        "reasons": dict(Counter(verdict.reason for verdict in verdicts).most_common()),
        "length_mean": sum(lengths) / max(1, len(lengths)),
        "length_max": max(lengths, default=0),
        "truncated_share": sum(c.finish_reason is FinishReason.LENGTH for c in completions) / max(1, len(completions)),
        "logprob_gap_mean": update.gap.mean if update.gap else None,
        "logprob_gap_max": update.gap.max if update.gap else None,
        "updated": update.updated,
        "loss": update.loss,
        "grad_norm": update.grad_norm,
        "lr": update.lr,
        "entropy": update.entropy,
        "importance_effective_share": update.importance.effective_share if update.importance else None,
        "importance_capped_share": update.importance.capped_share if update.importance else None,
        "kl": update.kl.mean if update.kl else None,
        "reward_shaped": update.kl.shaped_reward_mean if update.kl else None,
        "tokens_sampled": sum(lengths),
        "tokens_trained": update.tokens,
        "tokens_skipped": sum(lengths) - update.tokens,
        "tokens_computed": update.tokens_computed,
        "tokens_saved": update.tokens_saved,
        "padding_share": update.tokens_padding / max(1, update.tokens_computed + update.tokens_padding),
        "learner_tokens_per_second": update.tokens_computed / learn if update.updated and learn else None,
        "mfu": update.flops / (learn * update.peak_flops) if update.peak_flops and learn else None,
        "tokens_per_second": sum(lengths) / total if total else None,
        "seconds": {**seconds, "total": total},
    }
