"""Sequences -> micro-batches, packed so that the completions of a problem share their prompt.

Two layouts hold the same tokens:

    shared   one row [prompt, c1, ..., cG, next prompt, ...]: a prompt's activations are computed once, position ids
             restart after the prompt for each completion, nothing is padded. `attention.py` computes its attention.
    plain    one row a completion, [prompt, ci], padded at the right: for models that cannot take the first.
"""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rloo_verify.attention import PackedLayout, Shape, packed_layout


@dataclass(frozen=True, slots=True)
class Scored:
    """One completion to score: a number chosen by the caller, its prompt's token ids and its own."""

    index: int
    prompt_T: tuple[int, ...]
    completion_T: tuple[int, ...]


@dataclass(slots=True)
class Row:
    """A prompt and the completions that are laid out after it."""

    prompt_T: tuple[int, ...]
    scored: list[Scored]

    def __len__(self) -> int:
        return len(self.prompt_T) + sum(len(one.completion_T) for one in self.scored)

    @property
    def pairs(self) -> int:
        """Pairs of a query and a key that attention computes: a completion sees its prompt and itself."""
        prompt, lengths = len(self.prompt_T), [len(one.completion_T) for one in self.scored]
        return prompt * (prompt + 1) // 2 + sum(length * prompt + length * (length + 1) // 2 for length in lengths)


NOTHING = [Row((0,), [Scored(-1, (0,), (0,))])]
"""A micro-batch of weight 0: two tokens for a worker that takes part in a computation without work of its own."""


@dataclass(frozen=True, slots=True)
class Packing:
    """When completions share their prompt's row: when that costs fewer token-equivalents than rows of their own.

    A token of a shared row costs `1 + overhead` tokens of a plain one, for gathering what it attends to. The choice
    depends on lengths only, never on a clock, so a resumed run makes it again.

    Attributes:
        overhead: Share of a token's cost; infinite: rows are never shared.
    """

    overhead: float

    def pays(self, row: Row) -> bool:
        """Whether a row of several completions is cheaper than a row for each."""
        apart = len(row) + (len(row.scored) - 1) * len(row.prompt_T)
        return len(row.scored) > 1 and len(row) * (1 + self.overhead) < apart


NO_PACKING = Packing(math.inf)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Tensors of one forward pass. K is the number of completion tokens in it.

    Attributes:
        token_ids_B_T: One packed row, or padded rows.
        position_ids_B_T: Positions, restarting after the prompt for each completion.
        attention_mask_B_T: 1 where there is a token; None for a packed row.
        packed_layout: The layout of a packed row; None for padded ones.
        predictors_2_K: For each completion token the (row, column) whose output predicts it.
        targets_K: The completion tokens.
        owners_K: `Scored.index` of each completion token.
    """

    token_ids_B_T: Tensor
    position_ids_B_T: Tensor
    attention_mask_B_T: Tensor | None
    packed_layout: PackedLayout | None
    predictors_2_K: Tensor
    targets_K: Tensor
    owners_K: Tensor


def build_rows(sequences: Iterable[Scored], max_tokens: int, *, packing: Packing = NO_PACKING) -> list[Row]:
    """Lays sequences out in rows, in the order given; neighbours with one prompt share a row where that is cheaper.

    A group that is longer than `max_tokens` is split by completions and repeats its prompt. Empty completions are left
    out: the log-prob of no token is 0.
    """
    rows: list[Row] = []
    for one in sequences:
        if not one.completion_T:
            continue
        last = rows[-1] if rows else None
        fits = last is not None and len(last) + len(one.completion_T) <= max_tokens
        if last is not None and fits and last.prompt_T == one.prompt_T:
            last.scored.append(one)
        else:
            rows.append(Row(one.prompt_T, [one]))
    return [part for row in rows for part in ([row] if packing.pays(row) else _alone(row))]


def _alone(row: Row) -> list[Row]:
    return [Row(row.prompt_T, [one]) for one in row.scored]


def micro_batches(rows: Sequence[Row], max_tokens: int) -> list[list[Row]]:
    """Splits rows into micro-batches of at most `max_tokens` tokens; a longer row goes alone.

    Rows of several completions are packed, and fill their micro-batches equally; rows of one are padded, and those of
    similar length go together. The split does not change the gradient.

    Args:
        rows: Rows of `build_rows`.
        max_tokens: Budget of a micro-batch, padding included.
    """
    packed = sorted((row for row in rows if len(row.scored) > 1), key=len, reverse=True)
    padded = sorted((row for row in rows if len(row.scored) == 1), key=len, reverse=True)
    filled = _filled(packed, max_tokens)
    equal = shares(packed, len(filled), cost=len)
    fits = all(sum(map(len, share)) <= max_tokens for share in equal)
    return [*(equal if fits else filled), *_filled(padded, max_tokens, padded=True)]


def _filled(rows: Sequence[Row], max_tokens: int, *, padded: bool = False) -> list[list[Row]]:
    """Fills one micro-batch after the other; in a padded one every row is as long as the first."""
    batches: list[list[Row]] = []
    used = 0
    for row in rows:
        cost = len(batches[-1][0]) if padded and batches else len(row)
        if batches and used + cost <= max_tokens:
            batches[-1].append(row)
            used += cost
        else:
            batches.append([row])
            used = len(row)
    return batches


def shares(rows: Sequence[Row], count: int, *, cost: Callable[[Row], float]) -> list[list[Row]]:
    """Distributes rows over `count` shares of nearly equal cost: the longest first, each to the least share so far."""
    parts: list[list[Row]] = [[] for _ in range(count)]
    loads = [0.0] * count
    for row in sorted(rows, key=cost, reverse=True):
        least = loads.index(min(loads))
        parts[least].append(row)
        loads[least] += cost(row)
    return parts


def collate_shared(rows: Sequence[Row], device: torch.device | str = "cpu") -> MicroBatch:
    """Builds the tensors of one packed row that holds all given rows, one after the other."""
    tokens: list[int] = []
    positions: list[int] = []
    shapes: list[Shape] = []
    predictors: list[int] = []
    for row in rows:
        start, length = len(tokens), len(row.prompt_T)
        shapes.append(Shape(length, tuple(len(one.completion_T) for one in row.scored)))
        tokens += row.prompt_T
        positions += range(length)
        for one in row.scored:
            predictors += [start + length - 1, *range(len(tokens), len(tokens) + len(one.completion_T) - 1)]
            tokens += one.completion_T
            positions += range(length, length + len(one.completion_T))
    return _micro_batch(
        rows,
        torch.tensor([tokens], device=device),
        torch.tensor([positions], device=device),
        None,
        packed_layout(shapes, device),
        torch.tensor([[0] * len(predictors), predictors], device=device),
    )


def collate_plain(rows: Sequence[Row], device: torch.device | str = "cpu") -> MicroBatch:
    """Builds the tensors of padded rows with one completion each. Padding repeats token 0 and is seen by nothing."""
    width = max(len(row) for row in rows)
    tokens = torch.zeros(len(rows), width, dtype=torch.long)
    mask = torch.zeros_like(tokens)
    predictor_rows: list[int] = []
    predictor_columns: list[int] = []
    for b, row in enumerate(rows):
        (one,) = row.scored
        ids = row.prompt_T + one.completion_T
        tokens[b, : len(ids)] = torch.tensor(ids)
        mask[b, : len(ids)] = 1
        predictor_rows += [b] * len(one.completion_T)
        predictor_columns += range(len(row.prompt_T) - 1, len(ids) - 1)
    return _micro_batch(
        rows,
        tokens.to(device),
        (mask.cumsum(1) - 1).clamp(min=0).to(device),
        mask.to(device),
        None,
        torch.tensor([predictor_rows, predictor_columns], device=device),
    )


def _micro_batch(
    rows: Sequence[Row],
    token_ids: Tensor,
    position_ids: Tensor,
    mask: Tensor | None,
    layout: PackedLayout | None,
    predictors: Tensor,
) -> MicroBatch:
    every = [one for row in rows for one in row.scored]
    targets = torch.tensor([token for one in every for token in one.completion_T], device=token_ids.device)
    owners = torch.tensor([one.index for one in every for _ in one.completion_T], device=token_ids.device)
    return MicroBatch(token_ids, position_ids, mask, layout, predictors, targets, owners)
