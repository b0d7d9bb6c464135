"""Operations of a model, counted by hand and by torch."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import LlamaConfig, LlamaForCausalLM

from rloo_verify.config import LoraConfig
from rloo_verify.flops import ModelFlops, peak_flops
from rloo_verify.lora import add_adapters
from rloo_verify.packing import Row, Scored


def llama():
    config = LlamaConfig(
        vocab_size=32, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=64,
    )  # fmt: skip
    return LlamaForCausalLM(config)


ROW = Row((1, 2, 3), [Scored(0, (1, 2, 3), (4, 5)), Scored(1, (1, 2, 3), (6,))])


def test_pairs_are_those_that_a_completion_or_prompt_token_sees():
    # prompt 1 + 2 + 3 = 6; first completion 2 * 3 + (1 + 2) = 9; second 3 + 1 = 4
    assert ROW.pairs == 19


def test_operations_by_hand():
    # a layer: q and o 16 * 16 each, k and v 16 * 8 each, three of 16 * 24: 512 + 256 + 1152 = 1920 weights
    weights, head, width = 2 * 1920, 32 * 16, 16
    expected = 6 * (6 * weights + 3 * head) + 12 * 2 * width * 19  # 6 tokens, 3 predictions, 2 layers, 19 pairs
    assert ModelFlops(llama()).of([ROW]) == expected


def test_weights_that_are_not_trained_cost_no_gradient_of_their_own():
    model = llama()
    full = ModelFlops(model).of([ROW])
    model.requires_grad_(False)
    assert ModelFlops(model).of([ROW]) < full
    adapted = ModelFlops(add_adapters(llama(), LoraConfig(rank=1))).of([ROW])
    assert ModelFlops(model).of([ROW]) < adapted < full


def test_the_count_is_what_torch_counts_in_the_matrix_products():
    model = llama()
    tokens = torch.arange(6)[None]
    with FlopCounterMode(display=False) as counter:
        model.base_model(input_ids=tokens, use_cache=False).last_hidden_state.sum().backward()
    counted = sum(n for op, n in counter.get_flop_counts()["Global"].items() if "mm" in str(op))
    row = Row((1,), [Scored(0, (1,), (2,) * 5)])
    body = ModelFlops(model).of([row]) - 6 * 32 * 16 * 5 - 12 * 2 * 16 * row.pairs
    assert counted == pytest.approx(body, rel=0.01)


def test_the_peak_is_the_rate_of_a_real_product():
    peak = peak_flops("cpu", torch.float32)
    assert 1e8 < peak < 1e15
    assert peak_flops("cpu", torch.float32) == peak  # measured once
