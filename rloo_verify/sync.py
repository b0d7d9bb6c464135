"""Learner weights -> policy, with proof that both compute the same afterwards."""

import contextlib
import time
from dataclasses import dataclass

import torch

from rloo_verify.errors import SyncError
from rloo_verify.learner import Learner
from rloo_verify.policy.base import Policy

PROBE_PROMPT_TOKENS = 8
PROBE_COMPLETION_TOKENS = 24
PROBE_LENGTH = PROBE_PROMPT_TOKENS + PROBE_COMPLETION_TOKENS + 1
"""Context that an engine must have for the probe, in tokens; vLLM wants room for one more token than it scores."""


@dataclass(frozen=True, slots=True)
class SyncReport:
    """What one sync did: the policy's new version, the probe's largest |log-prob difference| in nats, seconds taken."""

    version: int
    probe_gap: float
    seconds: float


def probe_tokens(vocabulary_size: int) -> tuple[list[int], list[int]]:
    """Fixed token ids, prompt and completion, that spread over the vocabulary; the same in every run."""
    generator = torch.Generator().manual_seed(0)
    ids = torch.randint(vocabulary_size, (PROBE_PROMPT_TOKENS + PROBE_COMPLETION_TOKENS,), generator=generator).tolist()
    return ids[:PROBE_PROMPT_TOKENS], ids[PROBE_PROMPT_TOKENS:]


def sync_weights(learner: Learner, policy: Policy, *, max_gap: float, vocabulary_size: int) -> SyncReport:
    """Sends the learner's weights to the policy and compares their log-probs of the probe tokens.

    Args:
        learner: Where the weights come from; its version becomes the policy's.
        policy: The engine.
        max_gap: Largest |log-prob difference| of any probe token, in nats.
        vocabulary_size: Ids below this are valid for both.

    Raises:
        SyncError: if the two differ by more than `max_gap`; names the layers that differ.
    """
    started = time.perf_counter()
    with contextlib.closing(learner.named_weights()) as weights:
        policy.load_weights(weights, learner.version)
    probe = [probe_tokens(vocabulary_size)]
    (own,), (theirs,) = learner.score(probe, learner.temperature), policy.score(probe, learner.temperature)
    gap = max(abs(a - b) for a, b in zip(own, theirs, strict=True))
    if not gap <= max_gap:  # also when it is NaN
        with contextlib.closing(learner.named_weights()) as weights:
            layers = policy.differing_layers(weights)
        named = ", ".join(layers[:8]) + (f" and {len(layers) - 8} more" if len(layers) > 8 else "")
        raise SyncError(
            f"after sync {learner.version} sampler and learner differ by {gap:.3g} nats on the probe tokens, above "
            f"{max_gap:.3g}; layers that differ: {named or 'none found, so the two compute differently'}"
        )
    return SyncReport(learner.version, gap, time.perf_counter() - started)
