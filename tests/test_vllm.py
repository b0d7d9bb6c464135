"""The contract with vLLM, against real engines: what it draws must be exactly what the learner scores."""

from collections import Counter

import pytest
import torch
from engines import CONTEXT, END_IDS, KINDS, PROMPT, Engine, assert_same_logprobs, each, in_order, requests

from rloo_verify.errors import PolicyError
from rloo_verify.policy.base import Sampling
from rloo_verify.policy.ends import end_token_ids
from rloo_verify.types import FinishReason

pytestmark = pytest.mark.vllm


@each(*KINDS)
@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_drawn_and_scored_logprobs_are_those_of_a_plain_forward(engine: Engine, temperature: float) -> None:
    # In the kind "llama" the folder asks for top_k 1, repetition penalty 1.3 and temperature 0.1: none may leak in.
    assert_same_logprobs(engine, engine.reference(), temperature)


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
