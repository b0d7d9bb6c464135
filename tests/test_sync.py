"""After a sync the two sides must compute the same, and what differs is named."""

import math

import pytest
import torch
from engines import perturb
from groups import judged_group
from tiny import character_tokenizer, tiny_llama

from rloo_verify.config import LearnerConfig, LoraConfig
from rloo_verify.errors import SyncError
from rloo_verify.learner import Learner
from rloo_verify.policy.base import NamedTensors
from rloo_verify.policy.transformers import TransformersPolicy
from rloo_verify.sync import PROBE_COMPLETION_TOKENS, PROBE_LENGTH, PROBE_PROMPT_TOKENS, probe_tokens, sync_weights

VOCABULARY = len(character_tokenizer())
STALE = "model.layers.1.mlp.down_proj.weight"


def engine(*, tied: bool = False) -> TransformersPolicy:
    return TransformersPolicy(tiny_llama(tied=tied, seed=5), character_tokenizer(), (2,), max_length=64)


class ForgetfulPolicy(TransformersPolicy):
    """Keeps the old values of one layer, as an engine that prepacks its weights may."""

    def load_weights(self, weights: NamedTensors, version: int) -> None:
        old = dict(self._model.named_parameters())[STALE].clone()
        super().load_weights(weights, version)
        with torch.no_grad():
            dict(self._model.named_parameters())[STALE].copy_(old)


def forgetful() -> ForgetfulPolicy:
    return ForgetfulPolicy(tiny_llama(seed=5), character_tokenizer(), (2,), max_length=64)


@pytest.mark.parametrize("tied", [False, True])
@pytest.mark.parametrize("lora", [None, LoraConfig(rank=4)])
def test_a_sync_gives_the_policy_the_weights_and_the_version_of_the_learner(tied: bool, lora: LoraConfig) -> None:
    learner, policy = Learner(tiny_llama(tied=tied), LearnerConfig(lr=0.05), lora=lora), engine(tied=tied)
    for version in (0, 1, 2):
        report = sync_weights(learner, policy, max_gap=1e-4, vocabulary_size=VOCABULARY)
        assert (report.version, policy.version, learner.version) == (version, version, version)
        assert report.probe_gap < 1e-4
        learner.step([judged_group("a", "pf", lengths=(2, 5), version=version)])
    moved = sync_weights(learner, policy, max_gap=1e-4, vocabulary_size=VOCABULARY)
    assert moved.version == 3


def test_a_layer_that_kept_its_old_values_stops_the_run_by_name() -> None:
    with pytest.raises(SyncError, match=rf"after sync 0 .* differ by .* nats .* above 0.001.*: {STALE}$"):
        sync_weights(Learner(tiny_llama(), LearnerConfig(lr=1)), forgetful(), max_gap=1e-3, vocabulary_size=VOCABULARY)


def test_many_layers_that_differ_are_counted_not_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = engine()
    monkeypatch.setattr(policy, "load_weights", lambda *_: None)  # an engine that ignores what it is sent
    with pytest.raises(SyncError, match=r"layers that differ: (\S+, ){7}\S+ and \d+ more$"):
        sync_weights(Learner(tiny_llama(), LearnerConfig(lr=1)), policy, max_gap=1e-3, vocabulary_size=VOCABULARY)


def test_weights_that_are_not_numbers_fail_the_probe() -> None:
    model = tiny_llama()
    learner, policy = Learner(model, LearnerConfig(lr=1)), engine()
    with torch.no_grad():
        model.model.norm.weight.fill_(math.nan)
    with pytest.raises(SyncError, match="nan"):
        sync_weights(learner, policy, max_gap=1e9, vocabulary_size=VOCABULARY)


def test_equal_weights_that_compute_differently_are_told_apart_from_stale_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = engine()
    monkeypatch.setattr(policy, "score", lambda pairs, _: [[-1.0] * len(own) for _, own in pairs])
    with pytest.raises(SyncError, match="none found, so the two compute differently"):
        sync_weights(Learner(tiny_llama(), LearnerConfig(lr=1)), policy, max_gap=1e-3, vocabulary_size=VOCABULARY)


def test_the_probe_is_the_same_in_every_process_and_spreads_over_the_vocabulary() -> None:
    torch.manual_seed(123)
    prompt, completion = probe_tokens(1000)
    torch.manual_seed(4)
    perturb(tiny_llama())
    assert (prompt, completion) == probe_tokens(1000)
    assert (len(prompt), len(completion)) == (PROBE_PROMPT_TOKENS, PROBE_COMPLETION_TOKENS)
    assert len(prompt) + len(completion) + 1 == PROBE_LENGTH
    assert min(prompt + completion) < 100
    assert max(prompt + completion) > 900
