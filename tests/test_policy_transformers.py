"""The embedded engine: what it draws must be exactly what the learner scores, and repeat to the same bits."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from engines import END_IDS, PROMPT, in_order, perturb, reference_logprobs, requests, save_llama_with_bad_defaults
from tiny import character_tokenizer, tiny_llama

from rloo_verify.config import ModelConfig, PolicyConfig
from rloo_verify.errors import PolicyError, SyncError
from rloo_verify.policy.base import Request, Sampling
from rloo_verify.policy.ends import end_token_ids
from rloo_verify.policy.transformers import TransformersPolicy
from rloo_verify.setup import open_policy
from rloo_verify.types import FinishReason, Problem

EOS = 2


def policy(
    *, ends: Sequence[int] = (EOS,), tied: bool = False, max_length: int = 256, batch_size: int = 256
) -> TransformersPolicy:
    """An engine with the weights of `tiny_llama`."""
    return TransformersPolicy(
        tiny_llama(tied=tied), character_tokenizer(), ends, max_length=max_length, batch_size=batch_size
    )


def mixed_requests(count: int) -> list[Request]:
    """Requests for problems whose prompts differ in length, so that the batch is padded."""
    some = []
    for i in range(count):
        prompt = PROMPT[: 1 + i % len(PROMPT)]
        some.append(Request(Problem(f"tiny/train/{i % 3}", "tiny", (), "", "", {}, prompt), i, 100 + i))
    return some


def test_seeded_requests_repeat_exactly_and_samples_of_one_problem_differ() -> None:
    first, again = (in_order(policy().generate(requests(8), Sampling(24))) for _ in range(2))
    assert first == again
    assert len({completion.token_ids_T for completion in first}) == 8
    others = in_order(policy().generate(requests(8, first_seed=1), Sampling(24)))
    # seeds 1 to 8 instead of 0 to 7: seven of the eight draws are the same, one sample index further on
    assert [c.token_ids_T for c in others[:-1]] == [c.token_ids_T for c in first[1:]]
    assert [c.seed for c in others] == list(range(1, 9))


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("tied", [False, True])
def test_drawn_and_scored_logprobs_are_those_of_a_plain_forward(temperature: float, tied: bool) -> None:
    engine, model = policy(tied=tied), tiny_llama(tied=tied)
    some = mixed_requests(9)
    prompts = {request.sample_index: request.problem.prompt_token_ids_T for request in some}
    drawn = list(engine.generate(some, Sampling(24, temperature)))
    pairs = [(prompts[completion.sample_index], completion.token_ids_T) for completion in drawn]
    for completion, scores in zip(drawn, engine.score(pairs, temperature), strict=True):
        expected = reference_logprobs(model, completion, temperature, prompts[completion.sample_index])
        torch.testing.assert_close(torch.tensor(completion.logprobs_T), expected, rtol=0, atol=1e-5)
        torch.testing.assert_close(torch.tensor(scores), expected, rtol=0, atol=1e-5)


def test_scoring_nothing_gives_nothing() -> None:
    assert policy().score([(PROMPT, ()), (PROMPT, (5,))], 1.0)[0] == []
    assert policy().score([], 1.0) == []


def test_temperature_zero_takes_the_likeliest_token() -> None:
    (drawn,) = policy().generate(requests(1), Sampling(16, 0.0))
    ids = torch.tensor([[*PROMPT, *drawn.token_ids_T]])
    with torch.no_grad():
        likeliest = tiny_llama()(ids).logits[0, len(PROMPT) - 1 : -1].argmax(-1)
    assert drawn.token_ids_T == tuple(likeliest.tolist())
    (again,) = policy().generate(requests(1, first_seed=77), Sampling(16, 0.0))
    assert again.token_ids_T == drawn.token_ids_T


def test_any_of_several_ends_stops_and_is_part_of_the_completion() -> None:
    drawn = list(policy(ends=END_IDS).generate(requests(64), Sampling(40)))
    for completion in drawn:
        *inner, last = completion.token_ids_T
        assert not set(inner) & set(END_IDS)
        assert (last in END_IDS) == (completion.finish_reason is FinishReason.STOP)
        assert len(completion.logprobs_T) == len(completion.token_ids_T)
        assert len(completion.token_ids_T) == 40 or completion.finish_reason is FinishReason.STOP
    ends = {completion.token_ids_T[-1] for completion in drawn if completion.finish_reason is FinishReason.STOP}
    assert ends == set(END_IDS)
    assert any(completion.finish_reason is FinishReason.LENGTH for completion in drawn)


class FirstEndThen:
    """Answers `_sample` with chosen tokens, whatever the model says."""

    def __init__(self, rows: Sequence[Sequence[int]]) -> None:
        self.columns = [list(column) for column in zip(*rows, strict=True)]

    def __call__(self, logits: torch.Tensor, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
        tokens = self.columns.pop(0)[: len(logits)]
        return torch.tensor(tokens), torch.zeros(len(tokens))


def test_an_end_as_last_allowed_token_is_a_stop_and_an_end_alone_is_an_empty_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("rloo_verify.policy.transformers._sample", FirstEndThen([(9, 9, EOS)]))
    (last,) = policy().generate(requests(1), Sampling(3))
    assert (last.token_ids_T, last.finish_reason) == ((9, 9, EOS), FinishReason.STOP)
    monkeypatch.setattr("rloo_verify.policy.transformers._sample", FirstEndThen([(9, 9, 9)]))
    (cut,) = policy().generate(requests(1), Sampling(3))
    assert (cut.token_ids_T, cut.finish_reason) == ((9, 9, 9), FinishReason.LENGTH)
    monkeypatch.setattr("rloo_verify.policy.transformers._sample", FirstEndThen([(EOS, 9, 9)]))
    (empty,) = policy().generate(requests(1), Sampling(3))
    assert (empty.token_ids_T, empty.text) == ((EOS,), "")


def test_a_pad_token_that_is_the_end_token_changes_nothing(tmp_path: Path) -> None:
    folder = save_llama_with_bad_defaults(tmp_path)  # config.json says pad = 2 = eos
    tokenizer = character_tokenizer()
    tokenizer.pad_token = tokenizer.eos_token
    engine = open_policy(ModelConfig(path=str(folder)), PolicyConfig(engine="transformers"), tokenizer, 256)
    assert end_token_ids(folder) == END_IDS
    drawn = in_order(engine.generate(mixed_requests(12), Sampling(24)))
    assert drawn == in_order(policy(ends=END_IDS).generate(mixed_requests(12), Sampling(24)))


def test_sampling_defaults_of_the_model_folder_do_not_change_what_is_drawn(tmp_path: Path) -> None:
    # generation_config.json asks for repetition penalty 1.3, top_k 1 and temperature 0.1
    folder = save_llama_with_bad_defaults(tmp_path)
    engine = open_policy(ModelConfig(path=str(folder)), PolicyConfig(engine="transformers"), character_tokenizer(), 256)
    drawn = in_order(engine.generate(requests(16), Sampling(24)))
    assert drawn == in_order(policy(ends=END_IDS).generate(requests(16), Sampling(24)))
    assert len({completion.token_ids_T for completion in drawn}) == 16  # top_k 1 would make them the same


def test_completions_come_as_they_finish() -> None:
    drawn = list(policy(ends=END_IDS).generate(requests(24), Sampling(40)))
    lengths = [len(completion.token_ids_T) for completion in drawn]
    assert lengths == sorted(lengths)
    assert len(set(lengths)) > 3


def test_a_short_answer_is_there_before_the_long_ones_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    engine, forwards = policy(ends=END_IDS), []
    forward = engine._model.forward
    monkeypatch.setattr(engine._model, "forward", lambda **kwargs: forwards.append(1) or forward(**kwargs))
    drawing = engine.generate(requests(24), Sampling(40))
    first = next(drawing)
    assert len(forwards) == len(first.token_ids_T)  # one forward a token: nothing was drawn ahead
    assert len(list(drawing)) == 23
    assert len(forwards) == 40


def test_tokens_are_drawn_as_often_as_the_softmax_says() -> None:
    draws, temperature = 20_000, 0.7
    drawn = policy(batch_size=5000).generate(requests(draws, first_seed=10_000), Sampling(1, temperature))
    counts = Counter(completion.token_ids_T[0] for completion in drawn)
    with torch.no_grad():
        logits = tiny_llama()(torch.tensor([PROMPT])).logits[0, -1]
    expected = draws * (logits / temperature).double().softmax(-1)
    observed = torch.tensor([counts[token] for token in range(len(expected))], dtype=torch.float64)
    # Pearson's statistic over V tokens has mean V - 1 and standard deviation sqrt(2 (V - 1)); 5 of those is the limit.
    statistic = ((observed - expected) ** 2 / expected).sum().item()
    freedom = len(expected) - 1
    assert statistic < freedom + 5 * (2 * freedom) ** 0.5


@pytest.mark.parametrize("batch_size", [1, 3, 7])
def test_the_batch_size_does_not_change_what_is_drawn(batch_size: int) -> None:
    some = mixed_requests(10)
    whole = in_order(policy(ends=END_IDS).generate(some, Sampling(24)))
    split = in_order(policy(ends=END_IDS, batch_size=batch_size).generate(some, Sampling(24)))
    # log-probs differ by rounding, because a matrix product over fewer rows may add in another order
    assert [replace(c, logprobs_T=()) for c in split] == [replace(c, logprobs_T=()) for c in whole]
    for one, other in zip(split, whole, strict=True):
        assert one.logprobs_T == pytest.approx(other.logprobs_T, abs=1e-5)


def test_no_requests_give_no_completions() -> None:
    assert list(policy().generate([], Sampling(4))) == []


def test_a_prompt_that_does_not_fit_is_refused_by_its_problem() -> None:
    engine = policy(max_length=20)
    with pytest.raises(PolicyError, match=r"tiny/train/0: a prompt of 6 tokens and 15 new ones .* context of 20"):
        engine.generate(requests(1), Sampling(15))  # at the call, before anything is drawn
    with pytest.raises(PolicyError, match="a prompt of 0 tokens"):
        engine.generate(requests(1, prompt=()), Sampling(4))
    (full,) = engine.generate(requests(1), Sampling(14))
    assert len(full.token_ids_T) <= 14


def test_new_weights_draw_under_their_version() -> None:
    engine, model = policy(), tiny_llama()
    torch.manual_seed(3)
    perturb(model)
    engine.load_weights(model.named_parameters(), 7)
    (drawn,) = engine.generate(requests(1), Sampling(8))
    assert drawn.policy_version == 7
    expected = reference_logprobs(model, drawn, 1.0)
    torch.testing.assert_close(torch.tensor(drawn.logprobs_T), expected, rtol=0, atol=1e-5)


def test_weights_with_a_wrong_name_or_shape_or_missing_ones_are_refused_and_never_drawn_from_as_if_whole() -> None:
    good = list(tiny_llama().named_parameters())
    name, tensor = good[5]
    faults = {
        r"cannot load nonsense .* it is not a parameter here": [*good, ("nonsense", tensor)],
        rf"cannot load {name} of shape .* it has shape": [*good[:5], (name, tensor[:-1]), *good[6:]],
        rf"sent no weights for {name}": [*good[:5], *good[6:]],
    }
    for message, weights in faults.items():
        engine = policy()
        with pytest.raises(SyncError, match=message):
            engine.load_weights(iter(weights), 1)
        with pytest.raises(PolicyError, match="a weight sync failed"):
            engine.generate(requests(1), Sampling(4))
        engine.load_weights(good, 2)  # a whole set mends it
        assert next(engine.generate(requests(1), Sampling(4))).policy_version == 2


def test_the_layers_that_differ_are_named() -> None:
    engine, model = policy(tied=True), tiny_llama(tied=True)
    assert engine.differing_layers(model.named_parameters()) == []
    with torch.no_grad():
        model.model.layers[1].mlp.up_proj.weight[0, 0] += 1e-3
    assert engine.differing_layers(model.named_parameters()) == ["model.layers.1.mlp.up_proj.weight"]


def test_a_closed_engine_may_be_closed_again_and_refuses_to_draw() -> None:
    engine = policy()
    engine.close()
    engine.close()
    with pytest.raises(PolicyError, match="closed"):
        engine.generate(requests(1), Sampling(4))
