"""Log-probs of sampled tokens from hidden states, without ever holding [tokens, vocabulary].

The head's logits are made a chunk of tokens at a time, in the forward and again in the backward pass, so peak memory is
one chunk of logits whatever the number of tokens: linear in tokens for the hidden states, flat in the vocabulary.
"""

from typing import Any

import torch
from torch import Tensor

CHUNK_LOGITS = 2**24
"""Logits of one chunk: 64 MiB in float32."""


def _chunks(tokens: int, vocabulary: int) -> list[slice]:
    size = max(1, CHUNK_LOGITS // vocabulary)
    return [slice(first, min(first + size, tokens)) for first in range(0, tokens, size)]


def _logits(hidden_k_D: Tensor, weight_V_D: Tensor, bias_V: Tensor | None, temperature: float) -> Tensor:
    """One chunk of logits divided by the temperature, at least in float32."""
    logits = torch.nn.functional.linear(hidden_k_D, weight_V_D, bias_V)
    return logits.to(torch.promote_types(logits.dtype, torch.float32)).div_(temperature)


class _ChunkedLogprobs(torch.autograd.Function):
    """log softmax(hidden W^T / T)[target], its backward by recomputing the logits.

    With p = softmax(z), z = (hidden W^T + bias) / T: d log p[t] / d z = onehot(t) - p.
    """

    @staticmethod
    def forward(
        ctx: Any,
        hidden_K_D: Tensor,
        weight_V_D: Tensor,
        bias_V: Tensor | None,
        targets_K: Tensor,
        temperature: float,
        with_entropy: bool,
    ) -> tuple[Tensor, Tensor | None]:
        empty = hidden_K_D.new_empty(0)
        parts, normalizers, entropies = [empty], [empty], [empty]
        for some in _chunks(len(hidden_K_D), len(weight_V_D)):
            logits = _logits(hidden_K_D[some], weight_V_D, bias_V, temperature)
            normalizers.append(logits.logsumexp(-1))
            parts.append(logits.gather(-1, targets_K[some, None]).squeeze(-1) - normalizers[-1])
            if with_entropy:  # H = log Z - E[z]
                entropies.append(normalizers[-1] - (logits.softmax(-1) * logits).sum(-1))
        ctx.save_for_backward(hidden_K_D, weight_V_D, bias_V, targets_K, torch.cat(normalizers))
        ctx.temperature = temperature
        entropies_K = torch.cat(entropies) if with_entropy else None
        if entropies_K is not None:
            ctx.mark_non_differentiable(entropies_K)
        return torch.cat(parts), entropies_K

    @staticmethod
    def backward(ctx: Any, gradient_K: Tensor, _: None) -> tuple[Tensor | None, ...]:
        hidden_K_D, weight_V_D, bias_V, targets_K, normalizers_K = ctx.saved_tensors
        hidden_gradient = torch.empty_like(hidden_K_D) if ctx.needs_input_grad[0] else None
        # sums over chunks are kept in float32 at least: in bfloat16 later chunks would be rounded away
        exact = torch.promote_types(weight_V_D.dtype, torch.float32)
        weight_gradient = torch.zeros_like(weight_V_D, dtype=exact) if ctx.needs_input_grad[1] else None
        bias_gradient = torch.zeros_like(bias_V, dtype=exact) if ctx.needs_input_grad[2] else None
        for some in _chunks(len(hidden_K_D), len(weight_V_D)):
            logits = _logits(hidden_K_D[some], weight_V_D, bias_V, ctx.temperature)
            slope_k_V = logits.sub_(normalizers_K[some, None]).exp_().neg_()
            slope_k_V.scatter_add_(1, targets_K[some, None], torch.ones_like(slope_k_V[:, :1]))
            slope_k_V = slope_k_V.mul_(gradient_K[some, None] / ctx.temperature).to(weight_V_D.dtype)
            if hidden_gradient is not None:
                hidden_gradient[some] = slope_k_V @ weight_V_D
            if weight_gradient is not None and exact == weight_V_D.dtype:
                weight_gradient.addmm_(slope_k_V.T, hidden_K_D[some])
            elif weight_gradient is not None:
                weight_gradient += slope_k_V.T @ hidden_K_D[some]
            if bias_gradient is not None:
                bias_gradient += slope_k_V.sum(0, dtype=exact)
        given = [None if g is None else g.to(weight_V_D.dtype) for g in (weight_gradient, bias_gradient)]
        return hidden_gradient, *given, None, None, None


def chunked_logprobs(
    hidden_K_D: Tensor,
    weight_V_D: Tensor,
    bias_V: Tensor | None,
    targets_K: Tensor,
    temperature: float,
    *,
    with_entropy: bool = False,
) -> tuple[Tensor, Tensor | None]:
    """Log-probs of target tokens under softmax((hidden W^T + bias) / temperature), in nats.

    Args:
        hidden_K_D: Hidden states that predict the targets.
        weight_V_D: The head's matrix; the embedding's where they are tied.
        bias_V: The head's bias, or None.
        targets_K: Token ids below V.
        temperature: Divides the logits.
        with_entropy: Whether the entropies of the distributions are wanted, too.

    Returns:
        Log-probs `[K]`, differentiable, in float32 at least; and entropies `[K]` in nats without gradient, or None.
    """
    if hidden_K_D.device.type == "cuda" and torch.is_autocast_enabled("cuda"):
        dtype = torch.get_autocast_dtype("cuda")
        hidden_K_D, weight_V_D = hidden_K_D.to(dtype), weight_V_D.to(dtype)
        bias_V = None if bias_V is None else bias_V.to(dtype)
    results: tuple[Tensor, Tensor | None] = _ChunkedLogprobs.apply(  # type: ignore[no-untyped-call]
        hidden_K_D, weight_V_D, bias_V, targets_K, temperature, with_entropy
    )
    return results
