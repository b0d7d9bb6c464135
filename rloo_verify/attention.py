"""Attention over packed groups that never pays for pairs which the mask forbids.

A packed row is [prompt, c1, ..., cG, next prompt, ...]. A prompt attends to itself, causally; a completion attends to
its prompt and, causally, to itself. One dense mask over the whole row would compute all pairs and throw most away.
Here the prompt is one ordinary causal attention, and the completions are one batch whose keys are [prompt, own tokens].

Importing this module registers the function with transformers under the name `NAME`; a model uses it once
`model.set_attn_implementation(NAME)` was called, and computes ordinary causal attention where no layout is given.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

NAME = "rloo_shared_prompt"
QUERY_BLOCK = 256
"""Queries of one call; later keys than the block's last query are left out, as causal kernels do inside."""


@dataclass(frozen=True, slots=True)
class PackedGroup:
    """Where one prompt and its completions lie in a packed row.

    Attributes:
        prompt: Columns of the prompt.
        columns_G_L: Column of each token of each completion, padded with the completion's last column.
        present_G_L: False at the padding.
    """

    prompt: slice
    columns_G_L: Tensor
    present_G_L: Tensor


def packed_group(start: int, prompt_length: int, lengths: Sequence[int], device: torch.device | str) -> PackedGroup:
    """The layout of a prompt of `prompt_length` tokens at column `start`, followed by completions of these lengths."""
    offsets = torch.arange(max(lengths))[None]
    lengths_G = torch.tensor(lengths)[:, None]
    firsts_G = start + prompt_length + lengths_G.cumsum(0) - lengths_G
    columns = firsts_G + torch.minimum(offsets, lengths_G - 1)
    present = offsets < lengths_G
    return PackedGroup(slice(start, start + prompt_length), columns.to(device), present.to(device))


def shared_prompt_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    packed_groups: Sequence[PackedGroup] | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention of one layer, with the signature that transformers gives to attention functions.

    Args:
        module: The attention layer; its `num_key_value_groups` says how many query heads share a key head.
        query: `[1, heads, T, head size]` of a packed row.
        key: `[1, key heads, T, head size]`.
        value: As `key`.
        attention_mask: Used where `packed_groups` is None only.
        dropout: Must be 0 for packed rows.
        scaling: Factor of the scores; 1 / sqrt(head size) if None.
        packed_groups: The layout; None computes transformers' ordinary attention.
        kwargs: What else transformers passes on.

    Raises:
        NotImplementedError: for packed rows with an attention that is not plainly causal (sliding window, soft cap).
    """
    if packed_groups is None:
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **kwargs)
        return output, None
    if any(kwargs.get(name) is not None for name in ("sliding_window", "softcap", "s_aux", "position_bias")) or dropout:
        raise NotImplementedError(f"{type(module).__name__} is not plainly causal, so prompts cannot be shared")
    shared = getattr(module, "num_key_value_groups", 1)
    key, value = repeat_kv(key, shared), repeat_kv(value, shared)
    pieces: list[Tensor] = []
    columns: list[Tensor] = []
    for group in packed_groups:
        prompt_key, prompt_value = key[:, :, group.prompt], value[:, :, group.prompt]
        pieces.append(
            scaled_dot_product_attention(
                query[:, :, group.prompt], prompt_key, prompt_value, is_causal=True, scale=scaling
            )[0]
        )
        columns.append(torch.arange(group.prompt.start, group.prompt.stop, device=query.device))
        attended = _completions(group, query, key, value, prompt_key, prompt_value, scaling)
        pieces.append(attended.transpose(0, 1)[:, group.present_G_L])
        columns.append(group.columns_G_L[group.present_G_L])
    output = torch.zeros_like(query[0]).index_copy(1, torch.cat(columns), torch.cat(pieces, dim=1))
    return output[None].transpose(1, 2).contiguous(), None


def _completions(
    group: PackedGroup,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    prompt_key: Tensor,
    prompt_value: Tensor,
    scaling: float | None,
) -> Tensor:
    """Attention of all completions of a group, `[G, heads, L, head size]`; entries at the padding mean nothing."""
    count, longest = group.columns_G_L.shape
    prompt_length = prompt_key.shape[2]

    def own(tensor: Tensor) -> Tensor:
        return tensor[0][:, group.columns_G_L].transpose(0, 1)

    own_query = own(query)
    keys = torch.cat([prompt_key.expand(count, -1, -1, -1), own(key)], dim=2)
    values = torch.cat([prompt_value.expand(count, -1, -1, -1), own(value)], dim=2)
    blocks = []
    for first in range(0, longest, QUERY_BLOCK):
        last = min(first + QUERY_BLOCK, longest)
        seen = prompt_length + last
        visible = torch.ones(last - first, seen, dtype=torch.bool, device=query.device).tril(prompt_length + first)
        blocks.append(
            scaled_dot_product_attention(
                own_query[:, :, first:last], keys[:, :, :seen], values[:, :, :seen], attn_mask=visible, scale=scaling
            )
        )
    return torch.cat(blocks, dim=2)


AttentionInterface.register(NAME, shared_prompt_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
