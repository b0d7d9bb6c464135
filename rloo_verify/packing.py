"""Sequences -> packed micro-batches whose completions share their prompt.

A row is [prompt, c1, c2, ...]: the prompt's activations are computed once, position ids restart after the prompt for
each completion, and the mask lets a completion see the prompt and itself. Every token gets the log-prob that it would
get in a sequence of its own. A dense mask pays for the pairs that it forbids, so a row takes further completions only
while it stays under `ROW_TOKENS`; longer completions get a row each and plain causal attention.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

ROW_TOKENS = 1024
"""Rows longer than this hold one completion: the forbidden pairs would cost more than the repeated prompt."""


@dataclass(frozen=True, slots=True)
class Scored:
    """One completion to score: a place in the step chosen by the caller, its prompt's token ids and its own."""

    index: int
    prompt_T: tuple[int, ...]
    completion_T: tuple[int, ...]


@dataclass(slots=True)
class Row:
    """A prompt and completions of it that are laid out one after the other."""

    prompt_T: tuple[int, ...]
    scored: list[Scored]

    def __len__(self) -> int:
        return len(self.prompt_T) + sum(len(one.completion_T) for one in self.scored)


@dataclass(frozen=True, slots=True)
class MicroBatch:
    """Tensors of one forward pass. K is the number of completion tokens in it.

    Attributes:
        token_ids_B_T: Rows, padded at the right.
        position_ids_B_T: Positions, restarting after the prompt for each completion.
        attention_mask: `[B, T]` (1 = a token) where every row holds one completion, else `[B, 1, T, T]` booleans
            (True = may attend).
        predictors_2_K: For each completion token the (row, column) whose output predicts it.
        targets_K: The completion tokens.
        owners_K: `Scored.index` of each completion token.
    """

    token_ids_B_T: Tensor
    position_ids_B_T: Tensor
    attention_mask: Tensor
    predictors_2_K: Tensor
    targets_K: Tensor
    owners_K: Tensor


def build_rows(sequences: Iterable[Scored], *, share_prompts: bool = True) -> list[Row]:
    """Lays sequences out in rows, in the order given; neighbours with the same prompt share a row where it pays.

    Empty completions are left out: the log-prob of no token is 0.
    """
    rows: list[Row] = []
    for one in sequences:
        if not one.completion_T:
            continue
        last = rows[-1] if rows else None
        if (
            share_prompts
            and last is not None
            and last.prompt_T == one.prompt_T
            and len(last) + len(one.completion_T) <= ROW_TOKENS
        ):
            last.scored.append(one)
        else:
            rows.append(Row(one.prompt_T, [one]))
    return rows


def micro_batches(rows: Sequence[Row], max_tokens: int) -> list[list[Row]]:
    """Splits rows into micro-batches of at most `max_tokens` tokens, padding included; a longer row goes alone.

    Rows of similar length go together, so that little is padded. The split does not change the gradient.
    """
    batches: list[list[Row]] = []
    for row in sorted(rows, key=len, reverse=True):
        if batches and len(batches[-1][0]) * (len(batches[-1]) + 1) <= max_tokens:
            batches[-1].append(row)
        else:
            batches.append([row])
    return batches


def collate(rows: Sequence[Row], device: torch.device | str = "cpu") -> MicroBatch:
    """Builds the tensors of one micro-batch. Padding repeats token 0 and is seen by nothing."""
    width = max(len(row) for row in rows)
    token_ids = torch.zeros(len(rows), width, dtype=torch.long)
    positions = torch.zeros(len(rows), width, dtype=torch.long)
    segments = torch.full((len(rows), width), -1, dtype=torch.long)  # -1 padding, 0 prompt, 1... completions
    predictor_rows: list[int] = []
    predictor_columns: list[int] = []
    targets: list[int] = []
    owners: list[int] = []
    for b, row in enumerate(rows):
        start = len(row.prompt_T)
        token_ids[b, :start] = torch.tensor(row.prompt_T)
        positions[b, :start] = torch.arange(start)
        segments[b, :start] = 0
        column = start
        for segment, one in enumerate(row.scored, start=1):
            length = len(one.completion_T)
            token_ids[b, column : column + length] = torch.tensor(one.completion_T)
            positions[b, column : column + length] = torch.arange(start, start + length)
            segments[b, column : column + length] = segment
            predictor_rows += [b] * length
            predictor_columns += [start - 1, *range(column, column + length - 1)]
            targets += one.completion_T
            owners += [one.index] * length
            column += length
    shared = any(len(row.scored) > 1 for row in rows)
    mask = _shared_prompt_mask(segments) if shared else (segments >= 0).long()
    return MicroBatch(
        token_ids.to(device),
        positions.to(device),
        mask.to(device),
        torch.tensor([predictor_rows, predictor_columns]).to(device),
        torch.tensor(targets).to(device),
        torch.tensor(owners).to(device),
    )


def _shared_prompt_mask(segments_B_T: Tensor) -> Tensor:
    """`[B, 1, T, T]`: causal, within the own segment or towards the prompt; padding sees itself only (no NaN rows)."""
    width = segments_B_T.shape[1]
    query, key = segments_B_T[:, :, None], segments_B_T[:, None, :]
    causal = torch.ones(width, width, dtype=torch.bool).tril()
    visible = causal & (query >= 0) & ((query == key) | (key == 0))
    return (visible | torch.eye(width, dtype=torch.bool))[:, None]
