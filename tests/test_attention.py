"""Shared-prompt attention against one dense mask over the packed row, in float64."""

import types

import pytest
import torch

import rloo_verify.attention
from rloo_verify.attention import Shape, bundled, packed_layout, shared_prompt_attention


def dense(query, key, value, groups, width):
    """Softmax attention with the full [T, T] mask, by its definition."""
    visible = torch.zeros(width, width, dtype=torch.bool)
    for prompt_length, start, lengths in groups:
        spans = [(start, start + prompt_length)]
        for length in lengths:
            spans.append((spans[-1][1], spans[-1][1] + length))
        for first, last in spans:
            visible[first:last, first:last] = torch.ones(last - first, last - first).tril().bool()
            if first != start:
                visible[first:last, start : start + prompt_length] = True
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    return scores.masked_fill(~visible, float("-inf")).softmax(-1) @ value


@pytest.mark.parametrize("waste", [-(10**9), 0, 10**9], ids=["each group alone", "no padding", "one bundle"])
@pytest.mark.parametrize("block", [1, 3, 256])
@pytest.mark.parametrize("shared_heads", [1, 2])
def test_values_and_gradients_equal_a_dense_mask(block, shared_heads, waste, monkeypatch):
    monkeypatch.setattr(rloo_verify.attention, "BUNDLE_WASTE", waste)
    monkeypatch.setattr(rloo_verify.attention, "QUERY_BLOCK", block)
    # (prompt length, start, completion lengths): 10, 6 and 5 columns
    layout = [(3, 0, (4, 1, 2)), (1, 10, (5,)), (3, 16, (1, 1))]
    generator = torch.Generator().manual_seed(0)
    query = torch.randn(1, 4, 21, 8, dtype=torch.float64, generator=generator, requires_grad=True)
    key, value = (
        torch.randn(1, 4 // shared_heads, 21, 8, dtype=torch.float64, generator=generator, requires_grad=True)
        for _ in range(2)
    )
    places = packed_layout([Shape(prompt, lengths) for prompt, _, lengths in layout], "cpu")
    module = types.SimpleNamespace(num_key_value_groups=shared_heads)
    ours, _ = shared_prompt_attention(module, query, key, value, None, packed_layout=places)
    repeated = [tensor.repeat_interleave(shared_heads, dim=1) for tensor in (key, value)]
    expected = dense(query, *repeated, layout, 21).transpose(1, 2)  # [1, T, heads, size], as transformers wants it
    torch.testing.assert_close(ours, expected, rtol=1e-12, atol=1e-12)
    cotangent = torch.randn(expected.shape, dtype=torch.float64, generator=generator)
    for a, b in zip(
        torch.autograd.grad(ours, (query, key, value), cotangent),
        torch.autograd.grad(expected, (query, key, value), cotangent),
        strict=True,
    ):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("name", ["sliding_window", "softcap"])
def test_an_attention_that_is_not_plainly_causal_is_refused(name):
    tensor = torch.zeros(1, 1, 3, 2)
    layout = packed_layout([Shape(1, (2,))], "cpu")
    with pytest.raises(NotImplementedError, match="not plainly causal"):
        shared_prompt_attention(torch.nn.Identity(), tensor, tensor, tensor, None, packed_layout=layout, **{name: 4})


def test_groups_are_bundled_while_their_padding_is_cheaper_than_a_launch(monkeypatch):
    small, large = Shape(2, (3, 1)), Shape(10, (8,))
    # alone: 2 * 2 + 2 * 3 * (2 + 3) = 34 and 10 * 10 + 8 * (10 + 8) = 244 pairs; with 10 + 8 tokens for all three
    # completions and both prompts 2 * 100 + 3 * 8 * 18 = 632 pairs, which is 354 more
    monkeypatch.setattr(rloo_verify.attention, "BUNDLE_WASTE", 354)
    assert list(bundled([small, large])) == [[small, large]]
    monkeypatch.setattr(rloo_verify.attention, "BUNDLE_WASTE", 353)
    assert list(bundled([small, large])) == [[small], [large]]
    assert list(bundled([small, small, large, large])) == [[small, small], [large, large]]
