"""Learner, transformers engine and vLLM engine compute the same, also after real updates and syncs."""

import pytest
import torch
from engines import CONTEXT, PROMPT, Engine, each, in_order, requests
from tiny import character_tokenizer

from rloo_verify.config import LearnerConfig, LoraConfig
from rloo_verify.learner import Learner
from rloo_verify.policy.base import Policy, Sampling
from rloo_verify.policy.transformers import TransformersPolicy
from rloo_verify.sync import sync_weights
from rloo_verify.types import Completion, Group, Outcome, Verdict

pytestmark = pytest.mark.vllm

VOCABULARY = len(character_tokenizer())
TOLERANCE = 1e-4


def judged(completions: list[Completion]) -> Group:
    """A group that passes where the sample index is even: mixed, whatever was drawn."""
    verdicts = [Verdict(Outcome.PASS if c.sample_index % 2 == 0 else Outcome.FAIL, "test") for c in completions]
    return Group(requests(1)[0].problem, completions, verdicts)


def learn_and_sync(learner: Learner, policies: list[Policy], updates: int, temperature: float) -> None:
    """Draws with each policy, compares all three on what was drawn, updates the learner from it, syncs; repeatedly."""
    for version in range(updates + 1):
        for policy in policies:
            report = sync_weights(learner, policy, max_gap=TOLERANCE, vocabulary_size=VOCABULARY)
            assert report.version == policy.version == version
        for policy in policies:
            drawn = in_order(policy.generate(requests(6, first_seed=100 * version), Sampling(24, temperature)))
            pairs = [(PROMPT, completion.token_ids_T) for completion in drawn]
            scores = [one.score(pairs, temperature) for one in (learner, *policies)]
            for i, completion in enumerate(drawn):
                for one in scores:
                    assert one[i] == pytest.approx(completion.logprobs_T, abs=TOLERANCE)
        learner.step([judged(drawn)])
    assert learner.version == updates + 1


def embedded(engine: Engine) -> TransformersPolicy:
    return TransformersPolicy(engine.reference(), character_tokenizer(), (2,), max_length=CONTEXT)


@each("llama", "llama-tied")
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_three_engines_agree_after_real_updates_and_syncs(engine: Engine, temperature: float) -> None:
    # A learning rate of 0.03 moves every weight by about 0.03 an update: log-probs change by whole nats.
    learner = Learner(engine.reference(), LearnerConfig(lr=0.03, max_grad_norm=1e9), temperature=temperature)
    before = learner.score([(PROMPT, (5, 9, 30, 11))], temperature)[0]
    learn_and_sync(learner, [embedded(engine), engine.policy], 4, temperature)
    after = learner.score([(PROMPT, (5, 9, 30, 11))], temperature)[0]
    assert max(abs(a - b) for a, b in zip(before, after, strict=True)) > 0.5
    assert engine.policy.differing_layers(learner.named_weights()) != []  # the last update was not synced


@each("llama-tied")
def test_adapters_that_were_trained_reach_both_engines(engine: Engine) -> None:
    torch.manual_seed(0)
    learner = Learner(engine.reference(), LearnerConfig(lr=0.05, max_grad_norm=1e9), lora=LoraConfig(rank=4))
    learn_and_sync(learner, [embedded(engine), engine.policy], 3, 1.0)
