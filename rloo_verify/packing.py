"""Sequences -> micro-batches, packed so that the completions of a problem share their prompt.

Two layouts hold the same tokens:

    shared   one row [prompt, c1, ..., cG, next prompt, ...]: a prompt's activations are computed once, position ids
             restart after the prompt for each completion, nothing is padded. `attention.py` computes its attention.
    plain    one row a completion, [prompt, ci], padded at the right: for models that cannot take the first.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rloo_verify.attention import PackedGroup, packed_group


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
class MicroBatch:
    """Tensors of one forward pass. K is the number of completion tokens in it.

    Attributes:
        token_ids_B_T: One packed row, or padded rows.
        position_ids_B_T: Positions, restarting after the prompt for each completion.
        attention_mask_B_T: 1 where there is a token; None for a packed row.
        packed_groups: The layout of a packed row; None for padded ones.
        predictors_2_K: For each completion token the (row, column) whose output predicts it.
        targets_K: The completion tokens.
        owners_K: `Scored.index` of each completion token.
    """

    token_ids_B_T: Tensor
    position_ids_B_T: Tensor
    attention_mask_B_T: Tensor | None
    packed_groups: list[PackedGroup] | None
    predictors_2_K: Tensor
    targets_K: Tensor
    owners_K: Tensor


def build_rows(sequences: Iterable[Scored], max_tokens: int, *, share_prompts: bool = True) -> list[Row]:
    """Lays sequences out in rows, in the order given; neighbours with the same prompt share a row up to `max_tokens`.

    A group that is longer is split by completions and repeats its prompt. Empty completions are left out: the log-prob
    of no token is 0.
    """
    rows: list[Row] = []
    for one in sequences:
        if not one.completion_T:
            continue
        last = rows[-1] if rows else None
        fits = last is not None and len(last) + len(one.completion_T) <= max_tokens
        if share_prompts and last is not None and fits and last.prompt_T == one.prompt_T:
            last.scored.append(one)
        else:
            rows.append(Row(one.prompt_T, [one]))
    return rows


def micro_batches(rows: Sequence[Row], max_tokens: int, *, padded: bool = False) -> list[list[Row]]:
    """Splits rows into micro-batches of at most `max_tokens` tokens; a longer row goes alone.

    Rows of similar length go together, the longest first. The split does not change the gradient.

    Args:
        rows: Rows of `build_rows`.
        max_tokens: Budget of a micro-batch.
        padded: Whether every row counts as long as the longest one of its micro-batch (plain layout).
    """
    batches: list[list[Row]] = []
    used = 0
    for row in sorted(rows, key=len, reverse=True):
        cost = len(batches[-1][0]) if padded and batches else len(row)
        if batches and used + cost <= max_tokens:
            batches[-1].append(row)
            used += cost
        else:
            batches.append([row])
            used = len(row)
    return batches


def shares(
    sequences: Sequence[Scored], max_tokens: int, workers: int, *, share_prompts: bool, hidden_size: int
) -> list[list[list[Row]]]:
    """The micro-batches of each worker: equal cost as far as rows allow, equal in number by `NOTHING` at the end.

    The most expensive row goes to the worker with the least so far, and so on (longest processing time first). A group
    longer than a fair share is split, so that a step of few groups still occupies every worker.

    Args:
        sequences: Neighbours with the same prompt can share a row.
        max_tokens: Budget of a micro-batch.
        workers: Number of workers.
        share_prompts: Whether completions share their prompt's row.
        hidden_size: Of the model, for the share of attention in a row's cost: per layer and token about 24 hidden^2
            operations, per pair 4 hidden.
    """
    rows = build_rows(sequences, max_tokens, share_prompts=share_prompts)
    if workers > 1:
        fair = -(-sum(map(len, rows)) // workers)
        rows = build_rows(sequences, min(max_tokens, fair), share_prompts=share_prompts)
    parts: list[list[Row]] = [[] for _ in range(workers)]
    loads = [0.0] * workers
    costs = [len(row) + row.pairs / (6 * hidden_size) for row in rows]
    for cost, row in sorted(zip(costs, rows, strict=True), key=lambda pair: pair[0], reverse=True):
        lightest = loads.index(min(loads))
        parts[lightest].append(row)
        loads[lightest] += cost
    each = [micro_batches(part, max_tokens, padded=not share_prompts) for part in parts]
    count = max(map(len, each))
    return [batches + [NOTHING] * (count - len(batches)) for batches in each]


def collate_shared(rows: Sequence[Row], device: torch.device | str = "cpu") -> MicroBatch:
    """Builds the tensors of one packed row that holds all given rows, one after the other."""
    tokens: list[int] = []
    positions: list[int] = []
    groups: list[PackedGroup] = []
    predictors: list[int] = []
    for row in rows:
        start, length = len(tokens), len(row.prompt_T)
        groups.append(packed_group(length, [len(one.completion_T) for one in row.scored], device))
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
        groups,
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
    groups: list[PackedGroup] | None,
    predictors: Tensor,
) -> MicroBatch:
    every = [one for row in rows for one in row.scored]
    targets = torch.tensor([token for one in every for token in one.completion_T], device=token_ids.device)
    owners = torch.tensor([one.index for one in every for _ in one.completion_T], device=token_ids.device)
    return MicroBatch(token_ids, position_ids, mask, groups, predictors, targets, owners)
