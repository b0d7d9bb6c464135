"""Tiny float64 models of several architectures that compute in float64 throughout.

The rotary embedding and the RMS norms of transformers compute in float32 whatever the model's type. Their last bit
depends on a token's place in a tensor (vector instructions compute the body, scalar ones the tail), which would hide
errors below 1e-7.
"""

import functools
from typing import Any

import torch
from tiny import character_tokenizer, tiny_llama
from transformers import GPT2Config, GPT2LMHeadModel, Qwen3Config, Qwen3ForCausalLM

MODELS = ["llama", "llama-tied", "qwen3-tied", "gpt2"]


class _Rotary(torch.nn.Module):
    """cos and sin of position * frequency in float64, `[B, T, head size]` each."""

    def __init__(self, frequencies: torch.Tensor) -> None:
        super().__init__()
        self.frequencies = frequencies.double()

    def forward(self, x: torch.Tensor, position_ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angles = position_ids[..., None].double() * self.frequencies
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos().to(x), angles.sin().to(x)


def _norm(module: Any, hidden: torch.Tensor) -> torch.Tensor:
    return hidden * (hidden.square().mean(-1, keepdim=True) + module.variance_epsilon).rsqrt() * module.weight


def exact_model(kind: str, seed: int = 0) -> Any:
    """A random two-layer model in float64."""
    vocabulary = len(character_tokenizer())
    torch.manual_seed(seed)
    if kind == "gpt2":
        config = GPT2Config(
            vocab_size=vocabulary, n_embd=32, n_layer=2, n_head=2, n_positions=128, bos_token_id=1, eos_token_id=2
        )
        return GPT2LMHeadModel(config).double()
    if kind == "qwen3-tied":
        model: Any = Qwen3ForCausalLM(
            Qwen3Config(
                vocab_size=vocabulary, hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=2,
                num_key_value_heads=1, head_dim=16, max_position_embeddings=128, tie_word_embeddings=True,
                initializer_range=0.2, bos_token_id=1, eos_token_id=2,
            )
        )  # fmt: skip
    else:
        model = tiny_llama(tied=kind == "llama-tied", seed=seed)
    model.double()
    model.model.rotary_emb = _Rotary(model.model.rotary_emb.inv_freq)
    for module in model.modules():
        if type(module).__name__.endswith("RMSNorm"):
            module.forward = functools.partial(_norm, module)
    return model
