"""The contract with vLLM, against real engines: weights are replaced in place, and what is not is named."""

import pytest
import torch
from engines import KINDS, PROMPT, Engine, assert_same_logprobs, each, perturb, reference_logprobs, requests

from rloo_verify.errors import PolicyError, SyncError
from rloo_verify.policy.base import Sampling

pytestmark = pytest.mark.vllm


@each(*KINDS)
def test_after_every_sync_the_engine_computes_with_the_new_weights(engine: Engine) -> None:
    torch.manual_seed(1)
    model = engine.reference()
    for version in (1, 2, 3):
        perturb(model)
        engine.policy.load_weights(model.named_parameters(), version)
        assert_same_logprobs(engine, model, 1.0)
        assert engine.policy.differing_layers(model.named_parameters()) == []
        drawn = list(engine.policy.generate(requests(2), Sampling(4)))
        assert [completion.policy_version for completion in drawn] == [version, version]


@each(*KINDS)
def test_the_layers_that_differ_are_named(engine: Engine) -> None:
    model = engine.reference()
    sabotaged = ["model.layers.1.self_attn.k_proj.weight", "model.layers.0.mlp.up_proj.weight", "model.norm.weight"]
    if engine.kind == "qwen2":
        sabotaged.append("model.layers.0.self_attn.v_proj.bias")
    if engine.kind == "qwen3-tied":
        sabotaged.append("model.layers.1.self_attn.q_norm.weight")
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for name in sabotaged:
            parameters[name].view(-1)[3] += 1e-3
        if engine.kind == "llama":
            sabotaged.append("lm_head.weight")
            parameters["lm_head.weight"][7, 5] += 1e-3
    assert sorted(engine.policy.differing_layers(parameters.items())) == sorted(sabotaged)


@each("llama-tied")
def test_a_stale_packed_head_of_tied_embeddings_is_named(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    # What a vLLM sync without our repacking does on a CPU: the embedding is new, the head multiplies by the old one.
    monkeypatch.setattr("rloo_verify.policy.vllm_worker._tied_cpu_head", lambda _: None)
    model = engine.reference()
    perturb(model)
    engine.policy.load_weights(model.named_parameters(), 1)
    monkeypatch.undo()
    differing = engine.policy.differing_layers(model.named_parameters())
    assert differing == ["lm_head.weight (tied to model.embed_tokens.weight)"]


@each("llama-bfloat16")
def test_float32_weights_load_into_a_bfloat16_engine(engine: Engine) -> None:
    model = engine.reference()
    perturb(model, 0.01)
    engine.policy.load_weights(model.named_parameters(), 1)
    assert engine.policy.differing_layers(model.named_parameters()) == []
    # bfloat16 keeps 8 bits, so logits of size 10 are off by some hundredths; a stale layer is off by whole nats.
    assert_same_logprobs(engine, model, 1.0, tolerance=0.5)
    with torch.no_grad():
        model.model.layers[1].mlp.down_proj.weight[0, 0] += 0.1
    assert engine.policy.differing_layers(model.named_parameters()) == ["model.layers.1.mlp.down_proj.weight"]


@each("llama")
def test_merged_adapters_reach_the_engine(engine: Engine) -> None:
    from rloo_verify.config import LearnerConfig, LoraConfig
    from rloo_verify.learner import Learner

    torch.manual_seed(2)
    learner = Learner(engine.reference(), LearnerConfig(lr=1e-3), lora=LoraConfig(rank=4))
    with torch.no_grad():
        for parameter in learner.trained.values():
            parameter.add_(0.1 * torch.randn_like(parameter))
    engine.policy.load_weights(learner.named_weights(), 1)
    probe = [(PROMPT, (5, 9, 30, 11, 2))]
    (own,), (theirs,) = learner.score(probe, 1.0), engine.policy.score(probe, 1.0)
    assert own == pytest.approx(theirs, abs=1e-4)
    assert engine.policy.differing_layers(learner.named_weights()) == []


@each("llama")
def test_workers_load_weights_that_they_map_from_handles(engine: Engine) -> None:
    # Worker processes get (name, function, arguments) of CUDA IPC; in one process any function will do.
    model = engine.reference()
    perturb(model)
    handles = [(name, torch.clone, (tensor.detach(),)) for name, tensor in model.named_parameters()]
    engine.policy._on_workers("rloo_load_shared_weights", handles)
    engine.policy.version = 1
    assert engine.policy.differing_layers(model.named_parameters()) == []


@each("llama")
def test_a_sync_drops_the_cached_prefixes(engine: Engine) -> None:
    long_prompt = PROMPT * 36  # 216 tokens, more than one block of the cache
    drawn = list(engine.policy.generate(requests(2, prompt=long_prompt), Sampling(8)))
    model = engine.reference()
    perturb(model)
    engine.policy.load_weights(model.named_parameters(), 1)
    drawn = list(engine.policy.generate(requests(2, prompt=long_prompt), Sampling(8)))
    for completion in drawn:
        expected = reference_logprobs(model, completion, 1.0, long_prompt)
        assert torch.allclose(torch.tensor(completion.logprobs_T), expected, rtol=0, atol=1e-4)


@each("llama")
def test_a_list_of_wrong_weights_is_refused_by_name_before_anything_is_loaded(engine: Engine) -> None:
    good = list(engine.reference().named_parameters())
    name, tensor = good[5]
    faults = {
        "model.layers.0.nonsense.weight": [*good, ("model.layers.0.nonsense.weight", tensor)],
        f"{name} has shape": [*good[:5], (name, tensor[:-1]), *good[6:]],
        f"lacks 1 parameters of the model, such as {name}": [*good[:5], *good[6:]],
    }
    for message, weights in faults.items():
        with pytest.raises(SyncError, match=message):
            engine.policy.load_weights(weights, 1)
    assert engine.policy.version == 0
    assert_same_logprobs(engine, engine.reference(), 1.0)


@each("llama-half-loaded")
def test_after_a_fault_in_an_iterator_of_weights_the_engine_refuses_to_draw(engine: Engine) -> None:
    good = list(engine.reference().named_parameters())
    with pytest.raises(SyncError, match="no parameter nonsense"):
        engine.policy.load_weights(iter([*good[:5], ("nonsense", good[0][1])]), 1)
    with pytest.raises(PolicyError, match="weight sync failed"):
        next(engine.policy.generate(requests(1), Sampling(4)))
