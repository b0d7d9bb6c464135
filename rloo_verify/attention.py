"""Attention over packed groups that never pays for pairs which the mask forbids.

A packed row is [prompt, c1, ..., cG, next prompt, ...]. A prompt attends to itself, causally; a completion attends to
its prompt and, causally, to itself. One dense mask over the whole row would compute all pairs and throw most away.
Here prompts are one batch of ordinary causal attention, and completions one batch whose keys are [prompt, own tokens].
Groups of similar size go into one such pair of batches, a bundle, so that many small groups cost few kernel launches.

Importing this module registers the function with transformers under the name `NAME`; a model uses it once
`model.set_attn_implementation(NAME)` was called, and computes ordinary causal attention where no layout is given.
"""

from collections.abc import Iterator, Sequence
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

BUNDLE_WASTE = 2**15
"""Query-key pairs of padding that one kernel launch less is worth; measured by `benchmarks/learner.py --sweep`."""


@dataclass(frozen=True, slots=True)
class Shape:
    """The lengths of one group in a packed row: its prompt's, and those of its completions (each at least 1)."""

    prompt: int
    completions: tuple[int, ...]

    @property
    def tokens(self) -> int:
        """Tokens of the group in the row."""
        return self.prompt + sum(self.completions)


@dataclass(frozen=True, slots=True)
class Bundle:
    """Groups whose attention is computed together. Entries are places in the packed row, padded with the last one.

    n groups with C completions in all, the longest prompt P and the longest completion L tokens long.

    Attributes:
        prompts_n_P: Places of the prompts' tokens.
        completions_C_L: Places of the completions' tokens.
        keys_C_S: For each completion the places of what it may see: its prompt's P, then its own L.
        prompt_lengths_C: For each completion the length of its prompt; None where all are P.
    """

    prompts_n_P: Tensor
    completions_C_L: Tensor
    keys_C_S: Tensor
    prompt_lengths_C: Tensor | None


@dataclass(frozen=True, slots=True)
class PackedLayout:
    """How the groups of a packed row lie.

    Attributes:
        bundles: The groups, in bundles.
        order_T: Where each token of the row is in what the bundles' attention gives, one after the other.
    """

    bundles: list[Bundle]
    order_T: Tensor


def packed_layout(shapes: Sequence[Shape], device: torch.device | str) -> PackedLayout:
    """The layout of a row that holds groups of these shapes one after the other."""
    bundles: list[Bundle] = []
    order: list[Tensor] = []
    row = given = 0
    for some in bundled(shapes):
        bundle = _bundle(some, row)
        (prompts, prompt), (completions, longest) = bundle.prompts_n_P.shape, bundle.completions_C_L.shape
        prompt_starts = iter(range(given, given + prompts * prompt, prompt))
        given += prompts * prompt
        starts = iter(range(given, given + completions * longest, longest))
        given += completions * longest
        for shape in some:
            spans = [(next(prompt_starts), shape.prompt), *((next(starts), length) for length in shape.completions)]
            order += [torch.arange(start, start + length) for start, length in spans]
        row += sum(shape.tokens for shape in some)
        bundles.append(_to(bundle, device))
    return PackedLayout(bundles, torch.cat(order).to(device))


def bundled(shapes: Sequence[Shape]) -> Iterator[list[Shape]]:
    """Cuts a row into runs of groups that are computed together: one more joins while the padding costs less."""
    some: list[Shape] = []
    for shape in shapes:
        if some and _pairs([*some, shape]) > _pairs(some) + _pairs([shape]) + BUNDLE_WASTE:
            yield some
            some = []
        some.append(shape)
    if some:
        yield some


def _pairs(shapes: Sequence[Shape]) -> int:
    """Query-key pairs that a bundle of these shapes computes, padding included."""
    prompt = max(shape.prompt for shape in shapes)
    longest = max(max(shape.completions) for shape in shapes)
    count = sum(len(shape.completions) for shape in shapes)
    return len(shapes) * prompt * prompt + count * longest * (prompt + longest)


def _bundle(shapes: Sequence[Shape], first: int) -> Bundle:
    """The places of some neighbouring groups of which the first begins at place `first`."""
    longest_prompt = max(shape.prompt for shape in shapes)
    longest = max(max(shape.completions) for shape in shapes)
    prompts, completions, owners = [], [], []
    for number, shape in enumerate(shapes):
        prompts.append(_padded(first, shape.prompt, longest_prompt))
        first += shape.prompt
        for length in shape.completions:
            completions.append(_padded(first, length, longest))
            owners.append(number)
            first += length
    prompts_n_P, completions_C_L = torch.stack(prompts), torch.stack(completions)
    lengths_C = torch.tensor([shapes[number].prompt for number in owners])
    return Bundle(
        prompts_n_P,
        completions_C_L,
        torch.cat([prompts_n_P[owners], completions_C_L], dim=1),
        None if bool((lengths_C == longest_prompt).all()) else lengths_C,
    )


def _padded(first: int, length: int, width: int) -> Tensor:
    """`width` places from `first` on, of which those beyond `length` repeat the last one."""
    return torch.arange(first, first + width).clamp(max=first + length - 1)


def _to(bundle: Bundle, device: torch.device | str) -> Bundle:
    lengths = bundle.prompt_lengths_C
    return Bundle(
        bundle.prompts_n_P.to(device),
        bundle.completions_C_L.to(device),
        bundle.keys_C_S.to(device),
        None if lengths is None else lengths.to(device),
    )


def shared_prompt_attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    packed_layout: PackedLayout | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention of one layer, with the signature that transformers gives to attention functions.

    Args:
        module: The attention layer; its `num_key_value_groups` says how many query heads share a key head.
        query: `[1, heads, T, head size]` of a packed row.
        key: `[1, key heads, T, head size]`.
        value: As `key`.
        attention_mask: Used where `packed_layout` is None only.
        dropout: Must be 0 for packed rows.
        scaling: Factor of the scores; 1 / sqrt(head size) if None.
        packed_layout: The layout; None computes transformers' ordinary attention.
        kwargs: What else transformers passes on.

    Raises:
        NotImplementedError: for packed rows with an attention that is not plainly causal (sliding window, soft cap).
    """
    if packed_layout is None:
        output, _ = sdpa_attention_forward(module, query, key, value, attention_mask, dropout, scaling, **kwargs)
        return output, None
    if any(kwargs.get(name) is not None for name in ("sliding_window", "softcap", "s_aux", "position_bias")) or dropout:
        raise NotImplementedError(f"{type(module).__name__} is not plainly causal, so prompts cannot be shared")
    shared = getattr(module, "num_key_value_groups", 1)
    pieces: list[Tensor] = []
    for bundle in packed_layout.bundles:
        prompts = bundle.prompts_n_P
        keys, values = (repeat_kv(_gather(tensor, prompts), shared) for tensor in (key, value))
        attended = scaled_dot_product_attention(_gather(query, prompts), keys, values, is_causal=True, scale=scaling)
        pieces.append(attended.transpose(1, 2).flatten(0, 1))
        keys, values = (repeat_kv(_gather(tensor, bundle.keys_C_S), shared) for tensor in (key, value))
        attended = _completions(bundle, _gather(query, bundle.completions_C_L), keys, values, scaling)
        pieces.append(attended.transpose(1, 2).flatten(0, 1))
    return torch.cat(pieces).index_select(0, packed_layout.order_T)[None], None


def _gather(tensor: Tensor, places: Tensor) -> Tensor:
    """`[1, heads, T, size]` at `[n, L]` places -> `[n, heads, L, size]`."""
    # index_select over whole tokens, because the backward of plain indexing is several times slower on a CPU
    taken = tensor[0].transpose(0, 1).index_select(0, places.flatten())
    return taken.view(*places.shape, *taken.shape[1:]).transpose(1, 2)


def _completions(bundle: Bundle, query: Tensor, key: Tensor, value: Tensor, scaling: float | None) -> Tensor:
    """Attention of all completions of a bundle, `[C, heads, L, head size]`; entries at the padding mean nothing."""
    longest = bundle.completions_C_L.shape[1]
    prompt = bundle.prompts_n_P.shape[1]
    blocks = []
    for first in range(0, longest, QUERY_BLOCK):
        last = min(first + QUERY_BLOCK, longest)
        columns = torch.arange(prompt + last, device=query.device)
        visible = columns <= torch.arange(prompt + first, prompt + last, device=query.device)[:, None]
        if bundle.prompt_lengths_C is not None:
            lengths = bundle.prompt_lengths_C[:, None, None, None]
            visible = visible & ((columns < lengths) | (columns >= prompt))
        blocks.append(
            scaled_dot_product_attention(
                query[:, :, first:last],
                key[:, :, : prompt + last],
                value[:, :, : prompt + last],
                attn_mask=visible,
                scale=scaling,
            )
        )
    return blocks[0] if len(blocks) == 1 else torch.cat(blocks, dim=2)


AttentionInterface.register(NAME, shared_prompt_attention)
AttentionMaskInterface.register(NAME, sdpa_mask)
