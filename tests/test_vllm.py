"""The contract with vLLM, against real engines: what any supported version must do for the pipeline to be exact."""

import os
from collections import Counter
from collections.abc import Iterator

import pytest
import torch
from engines import (
    CONTEXT,
    END_IDS,
    PROMPT,
    Engine,
    in_order,
    perturb,
    reference_logprobs,
    requests,
    save_model,
)

from rloo_verify.errors import PolicyError, SyncError
from rloo_verify.policy.base import Sampling
from rloo_verify.policy.ends import end_token_ids
from rloo_verify.policy.vllm import VllmPolicy
from rloo_verify.types import FinishReason

pytestmark = pytest.mark.vllm

KINDS = ["llama", "llama-tied", "qwen2", "qwen3-tied"]


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """One engine at a time: in one process they share vLLM's distributed state."""
    kind = request.param
    folder = save_model(kind, tmp_path_factory.mktemp(kind))
    before = torch.get_rng_state(), os.environ.get("LD_PRELOAD")
    dtype = "bfloat16" if kind == "llama-bfloat16" else "float32"
    policy = VllmPolicy(folder, dtype=dtype, max_model_len=CONTEXT)
    untouched = torch.equal(before[0], torch.get_rng_state()) and before[1] == os.environ.get("LD_PRELOAD")
    yield Engine(kind, folder, policy, untouched)
    policy.close()


@pytest.fixture
def engine(running: Engine) -> Iterator[Engine]:
    yield running
    running.restore()


def each(*kinds: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("running", kinds, indirect=True)


def assert_same_logprobs(engine: Engine, model: torch.nn.Module, temperature: float, tolerance: float = 1e-4) -> None:
    completions = list(engine.policy.generate(requests(6), Sampling(32, temperature)))
    scored = engine.policy.score([(PROMPT, completion.token_ids_T) for completion in completions], temperature)
    for completion, scores in zip(completions, scored, strict=True):
        expected = reference_logprobs(model, completion, temperature)
        assert torch.allclose(torch.tensor(completion.logprobs_T), expected, rtol=0, atol=tolerance)
        assert torch.allclose(torch.tensor(scores), expected, rtol=0, atol=tolerance)


@each(*KINDS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_drawn_and_scored_logprobs_are_those_of_a_plain_forward(engine: Engine, temperature: float) -> None:
    # In the kind "llama" the folder asks for top_k 1, repetition penalty 1.3 and temperature 0.1: none may leak in.
    assert_same_logprobs(engine, engine.reference(), temperature)


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
        for parameter in learner.parameters:
            parameter.add_(0.1 * torch.randn_like(parameter))
    engine.policy.load_weights(learner.named_weights(), 1)
    probe = [(PROMPT, (5, 9, 30, 11, 2))]
    (own,), (theirs,) = learner.score(probe, 1.0), engine.policy.score(probe, 1.0)
    assert own == pytest.approx(theirs, abs=1e-4)
    assert engine.policy.differing_layers(learner.named_weights()) == []


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
def test_the_same_seeds_repeat_exactly_and_different_seeds_differ(engine: Engine) -> None:
    first, again = (in_order(engine.policy.generate(requests(8), Sampling(24))) for _ in range(2))
    assert first == again
    assert len({completion.token_ids_T for completion in first}) == 8


@each("llama")
def test_tokens_are_drawn_as_often_as_the_softmax_says(engine: Engine) -> None:
    draws, temperature = 4000, 0.7
    drawn = engine.policy.generate(requests(draws, first_seed=10_000), Sampling(1, temperature))
    counts = Counter(completion.token_ids_T[0] for completion in drawn)
    with torch.no_grad():
        logits = engine.reference()(torch.tensor([PROMPT])).logits[0, -1]
    probabilities = (logits / temperature).softmax(-1)
    # Pearson's statistic over V tokens has mean V - 1 and standard deviation sqrt(2 (V - 1)); 5 of those is the limit.
    expected = draws * probabilities.double()
    observed = torch.tensor([counts[token] for token in range(len(expected))], dtype=torch.float64)
    statistic = ((observed - expected) ** 2 / expected).sum().item()
    freedom = len(expected) - 1
    assert statistic < freedom + 5 * (2 * freedom) ** 0.5


@each("llama")
def test_temperature_zero_takes_the_likeliest_token(engine: Engine) -> None:
    (drawn,) = engine.policy.generate(requests(1), Sampling(16, 0.0))
    ids = torch.tensor([*PROMPT, *drawn.token_ids_T])
    with torch.no_grad():
        likeliest = engine.reference()(ids[None]).logits[0, len(PROMPT) - 1 : -1].argmax(-1)
    assert drawn.token_ids_T == tuple(likeliest.tolist())


@each("llama")
def test_any_of_several_ends_stops_and_is_part_of_the_completion(engine: Engine) -> None:
    # 2 and 20 come from config.json, 2 and 30 from generation_config.json; the pad token is 2 too.
    assert end_token_ids(engine.folder) == END_IDS
    drawn = list(engine.policy.generate(requests(64), Sampling(40)))
    for completion in drawn:
        *inner, last = completion.token_ids_T
        assert not set(inner) & set(END_IDS)
        assert (last in END_IDS) == (completion.finish_reason is FinishReason.STOP)
        assert len(completion.logprobs_T) == len(completion.token_ids_T)
        assert len(completion.token_ids_T) == 40 or completion.finish_reason is FinishReason.STOP
    ends = {completion.token_ids_T[-1] for completion in drawn if completion.finish_reason is FinishReason.STOP}
    assert ends == set(END_IDS)
    assert any(completion.finish_reason is FinishReason.LENGTH for completion in drawn)


@each("llama")
def test_completions_come_as_they_finish(engine: Engine) -> None:
    lengths = [len(completion.token_ids_T) for completion in engine.policy.generate(requests(24), Sampling(40))]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 3


@each("llama")
def test_a_consumer_that_stops_early_leaves_nothing_running(engine: Engine) -> None:
    drawing = engine.policy.generate(requests(8), Sampling(200))
    next(drawing)
    with pytest.raises(PolicyError, match="still drawing"):
        engine.policy.load_weights([], 1)
    with pytest.raises(PolicyError, match="still drawing"):
        next(engine.policy.generate(requests(1), Sampling(4)))
    drawing.close()  # type: ignore[attr-defined]
    assert engine.policy._engine.get_num_unfinished_requests() == 0
    with pytest.raises(ZeroDivisionError):  # noqa: PT012
        for _ in engine.policy.generate(requests(8), Sampling(200)):
            1 / 0  # noqa: B018
    assert engine.policy._engine.get_num_unfinished_requests() == 0
    assert len(list(engine.policy.generate(requests(3), Sampling(4)))) == 3


@each("llama")
def test_a_prompt_that_does_not_fit_is_refused_at_the_call_by_its_problem(engine: Engine) -> None:
    with pytest.raises(PolicyError, match=r"tiny/train/0: the prompt has 6 tokens.*1 to 5.*context of 256"):
        engine.policy.generate(requests(1), Sampling(CONTEXT - len(PROMPT) + 1))
    with pytest.raises(PolicyError, match="the prompt has 0 tokens"):
        engine.policy.generate(requests(1, prompt=()), Sampling(4))
    (full,) = engine.policy.generate(requests(1, first_seed=7), Sampling(CONTEXT - len(PROMPT)))
    assert len(full.token_ids_T) <= CONTEXT - len(PROMPT)


@each("llama")
def test_starting_leaves_the_seeds_and_the_preloads_of_the_process_alone(engine: Engine) -> None:
    assert engine.process_untouched


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


@each("llama-broken")
def test_an_engine_that_dies_says_so_in_a_sentence_and_closes(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    def die() -> None:
        raise RuntimeError("out of memory")

    monkeypatch.setattr(engine.policy._engine, "step", die)
    with pytest.raises(PolicyError, match="The vLLM engine stopped with RuntimeError: out of memory"):
        list(engine.policy.generate(requests(2), Sampling(4)))
    with pytest.raises(PolicyError, match="not usable"):
        engine.policy.score([(PROMPT, (5,))], 1.0)
    engine.policy.close()
    engine.policy.close()
    with pytest.raises(PolicyError, match="closed"):
        list(engine.policy.generate(requests(2), Sampling(4)))
