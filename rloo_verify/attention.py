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
    """How one prompt and its completions lie in their part of a packed row.

    Attributes:
        prompt_length: Tokens of the prompt, which comes first.
        own_length: Tokens of all completions, which follow one after the other.
        columns_G_L: Place of each token of each completion among these, padded with the completion's last one.
        places: Where in the flattened `columns_G_L` the tokens are, the padding left out, in their order.
    """

    prompt_length: int
    own_length: int
    columns_G_L: Tensor
    places: Tensor


def packed_group(prompt_length: int, lengths: Sequence[int], device: torch.device | str) -> PackedGroup:
    """The layout of a prompt of `prompt_length` tokens followed by completions of these lengths (at least 1)."""
    offsets = torch.arange(max(lengths))[None]
    lengths_G = torch.tensor(lengths)[:, None]
    columns = lengths_G.cumsum(0) - lengths_G + torch.minimum(offsets, lengths_G - 1)
    places = (offsets < lengths_G).flatten().nonzero().squeeze(1)
    return PackedGroup(prompt_length, sum(lengths), columns.to(device), places.to(device))


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
    # one split for all parts: its backward is one concatenation, that of slices would fill the whole row for each
    sizes = [size for group in packed_groups for size in (group.prompt_length, group.own_length)]
    queries, keys, values = (
        tensor.split(sizes, dim=2) for tensor in (query, repeat_kv(key, shared), repeat_kv(value, shared))
    )
    pieces: list[Tensor] = []
    for i, group in enumerate(packed_groups):
        prompt, own = 2 * i, 2 * i + 1
        attended = scaled_dot_product_attention(
            queries[prompt], keys[prompt], values[prompt], is_causal=True, scale=scaling
        )
        pieces.append(attended[0].transpose(0, 1))
        attended = _completions(group, queries[own], (keys[prompt], keys[own]), (values[prompt], values[own]), scaling)
        pieces.append(attended.transpose(1, 2).flatten(0, 1).index_select(0, group.places))
    return torch.cat(pieces)[None], None


def _completions(
    group: PackedGroup,
    own_query: Tensor,
    keys: tuple[Tensor, Tensor],
    values: tuple[Tensor, Tensor],
    scaling: float | None,
) -> Tensor:
    """Attention of all completions of a group, `[G, heads, L, head size]`; entries at the padding mean nothing.

    `keys` and `values` hold the prompt's and the completions' part.
    """
    count, longest = group.columns_G_L.shape

    def each(tensor: Tensor) -> Tensor:
        """`[1, heads, tokens of all completions, size]` -> `[G, heads, L, size]`."""
        # index_select, because the backward of plain indexing is several times slower on a CPU
        flat = tensor[0].index_select(1, group.columns_G_L.flatten())
        return flat.reshape(len(flat), count, longest, -1).transpose(0, 1)

    query = each(own_query)
    key, value = (torch.cat([prompt.expand(count, -1, -1, -1), each(own)], dim=2) for prompt, own in (keys, values))
    blocks = []
    for first in range(0, longest, QUERY_BLOCK):
        last = min(first + QUERY_BLOCK, longest)
        seen = group.prompt_length + last
        visible = torch.ones(last - first, seen, dtype=torch.bool, device=query.device)
        visible = visible.tril(group.prompt_length + first)
        blocks.append(
            scaled_dot_product_attention(
                query[:, :, first:last], key[:, :, :seen], value[:, :, :seen], attn_mask=visible, scale=scaling
            )
        )
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=2)


AttentionInterface.register(NAME, shared_prompt_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
