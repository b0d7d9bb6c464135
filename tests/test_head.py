import pytest
import torch

import rloo_verify.head
from rloo_verify.head import chunked_logprobs


@pytest.fixture(autouse=True, params=[1, 40, 10**6], ids=["one token a chunk", "a few tokens a chunk", "one chunk"])
def chunk(request, monkeypatch):
    monkeypatch.setattr(rloo_verify.head, "CHUNK_LOGITS", request.param)


def inputs(tokens=7, width=5, vocabulary=11, bias=True):
    generator = torch.Generator().manual_seed(0)
    make = lambda *shape: torch.randn(*shape, dtype=torch.float64, generator=generator, requires_grad=True)  # noqa: E731
    targets = torch.randint(vocabulary, (tokens,), generator=generator)
    return make(tokens, width), make(vocabulary, width), make(vocabulary) if bias else None, targets


@pytest.mark.parametrize("temperature", [1.0, 0.7])
@pytest.mark.parametrize("bias", [False, True])
def test_values_and_gradients_equal_the_plain_computation(temperature, bias):
    hidden, weight, bias_V, targets = inputs(bias=bias)
    given = [tensor for tensor in (hidden, weight, bias_V) if tensor is not None]
    cotangent = torch.linspace(-1, 2, len(targets), dtype=torch.float64)
    plain = (torch.nn.functional.linear(hidden, weight, bias_V) / temperature).log_softmax(-1)
    plain = plain.gather(-1, targets[:, None]).squeeze(-1)
    chunked, entropies = chunked_logprobs(hidden, weight, bias_V, targets, temperature)
    assert entropies is None
    torch.testing.assert_close(chunked, plain)
    expected = torch.autograd.grad(plain, given, cotangent)
    for ours, theirs in zip(torch.autograd.grad(chunked, given, cotangent), expected, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


def test_gradcheck_passes():
    hidden, weight, bias, targets = inputs(tokens=4, width=3, vocabulary=6)
    assert torch.autograd.gradcheck(lambda h, w, b: chunked_logprobs(h, w, b, targets, 0.9)[0], (hidden, weight, bias))


def test_no_tokens_give_no_log_probs():
    hidden, weight, bias, _ = inputs(tokens=3)
    assert chunked_logprobs(hidden[:0], weight, bias, torch.empty(0, dtype=torch.long), 1.0)[0].shape == (0,)


def test_entropies_are_those_of_the_distribution_and_carry_no_gradient():
    hidden, weight, bias, targets = inputs()
    logprobs, entropies = chunked_logprobs(hidden, weight, bias, targets, 0.7, with_entropy=True)
    plain = (torch.nn.functional.linear(hidden, weight, bias) / 0.7).log_softmax(-1)
    torch.testing.assert_close(entropies, -(plain.exp() * plain).sum(-1).detach())
    assert logprobs.requires_grad
    assert not entropies.requires_grad


def test_in_bfloat16_the_weights_gradient_is_summed_over_chunks_in_float32():
    tokens = 600
    hidden, weight, _, targets = inputs(tokens=tokens, width=4, vocabulary=3, bias=False)
    exact = torch.autograd.grad(chunked_logprobs(hidden, weight, None, targets, 1.0)[0].sum(), weight)[0]
    short = weight.detach().bfloat16().requires_grad_()
    given = torch.autograd.grad(chunked_logprobs(hidden.bfloat16(), short, None, targets, 1.0)[0].sum(), short)[0]
    # one rounding to 8 bits a product; 600 sums in bfloat16, one token a chunk, would lose several percent
    assert (given.double() - exact).norm() < 0.01 * exact.norm()
