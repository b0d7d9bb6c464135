"""Log-probs of given completion tokens under a Hugging Face causal language model."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from enum import Enum

import torch
from torch import Tensor

from rloo_verify import attention
from rloo_verify.head import chunked_logprobs
from rloo_verify.packing import (
    NO_PACKING,
    MicroBatch,
    Packing,
    Row,
    Scored,
    build_rows,
    collate_plain,
    collate_shared,
    micro_batches,
)

log = logging.getLogger(__name__)

SELF_CHECK_TOLERANCE = 1e-3
"""Largest |log-prob difference|, in nats, between a layout and the plain forward in the start-up check."""

GATHERING = 16.0
"""Overhead of a token in a shared row, in plain tokens times the hidden size D: copies cost D, matrix products D * D.
Measured by `benchmarks/packing.py` on a CPU with D = 128 and 576."""

MAX_OVERHEAD = 0.125
"""What was measured at D = 128, the smallest model that anyone trains here."""


class Layout(Enum):
    """How sequences are scored, the cheapest first."""

    SHARED = "prompts shared, head in chunks"
    PLAIN = "one completion a row, head in chunks"
    WHOLE = "one completion a row, the model's own forward with all its logits"


class Scorer:
    """Scores sequences with a model, only at the positions that predict completion tokens.

    On construction it compares its log-probs with plain one-sequence forwards of the same model, and takes the first
    layout that agrees: a model with sliding windows cannot share prompts, one whose head does more than a matrix
    product cannot have it in chunks.

    Attributes:
        layout: How sequences are scored.
        packing: When completions share their prompt, where the layout can.
    """

    def __init__(self, model: torch.nn.Module, vocabulary_size: int, *, layout: Layout | None = None) -> None:
        """Takes a Hugging Face causal LM on its device; with a `layout` the check is left out."""
        self.model = model
        self.packing = Packing(min(MAX_OVERHEAD, GATHERING / int(model.config.hidden_size)))  # type: ignore
        self._own_attention: str = model.config._attn_implementation  # type: ignore[union-attr, assignment]
        self.layout = layout or self._self_check(vocabulary_size)

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return next(self.model.parameters()).device

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """bfloat16 autocast on a GPU (the weights stay float32); nothing on a CPU."""
        if self.device.type == "cuda":
            return torch.autocast("cuda", torch.bfloat16)
        return contextlib.nullcontext()

    def micro_batches(self, sequences: Sequence[Scored], max_tokens: int) -> Iterator[list[Row]]:
        """Splits sequences into micro-batches of at most `max_tokens` tokens in the layout of this model."""
        rows = build_rows(sequences, max_tokens, packing=self.packing if self.layout is Layout.SHARED else NO_PACKING)
        yield from micro_batches([row for row in rows if len(row.scored) > 1], max_tokens)
        yield from micro_batches([row for row in rows if len(row.scored) == 1], max_tokens, padded=True)

    def token_logprobs(self, rows: Sequence[Row], temperature: float) -> tuple[MicroBatch, Tensor]:
        """The micro-batch of some rows and the differentiable log-prob of each of its completion tokens, `[K]`.

        Args:
            rows: One of `self.micro_batches`.
            temperature: Divides the logits, as in the sampler.
        """
        collate = collate_plain if all(len(row.scored) == 1 for row in rows) else collate_shared
        batch = collate(rows, self.device)
        row, column = batch.predictors_2_K
        if self.layout is Layout.WHOLE:
            logits = self.model(**_inputs(batch)).logits[row, column]
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
            return batch, logits.gather(-1, batch.targets_K[:, None]).squeeze(-1) - logits.logsumexp(-1)
        hidden = self.model.base_model(**_inputs(batch)).last_hidden_state  # type: ignore[operator]
        head = self.model.get_output_embeddings()  # type: ignore[operator]
        bias = getattr(head, "bias", None)
        return batch, chunked_logprobs(hidden[row, column], head.weight, bias, batch.targets_K, temperature)

    @torch.no_grad()
    def _self_check(self, vocabulary_size: int) -> Layout:
        generator = torch.Generator().manual_seed(0)
        ids = tuple(torch.randint(vocabulary_size, (24,), generator=generator).tolist())
        prompt, other = ids[:8], ids[4:8]
        pairs = [(prompt, ids[8:13]), (prompt, ids[13:]), (other, ids[10:13]), (other, ids[9:11]), (other[1:], ids[:5])]
        sequences = [Scored(i, *pair) for i, pair in enumerate(pairs)]  # two groups that share, and one completion alone
        training = self.model.training
        self.model.eval()
        plain = torch.cat([self._plain(one) for one in sequences])
        candidates = list(Layout) if self._head_is_last(prompt) else [Layout.WHOLE]
        for self.layout in candidates:
            try:
                self._use_attention()
                scored = [self.token_logprobs(rows, 1.0) for rows in self.micro_batches(sequences, 128)]
            except (RuntimeError, ValueError, TypeError, AttributeError, NotImplementedError) as error:
                log.debug("%s: %s", self.layout.value, error)
                continue
            order = torch.cat([batch.owners_K for batch, _ in scored]).argsort(stable=True)
            in_order = torch.cat([logprobs_K for _, logprobs_K in scored])[order]
            if (in_order - plain).abs().max().item() <= SELF_CHECK_TOLERANCE:
                break
        self.model.train(training)
        if self.layout is not Layout.SHARED:
            log.warning("%s: learning with %s", type(self.model).__name__, self.layout.value)
        return self.layout

    def _head_is_last(self, prompt: tuple[int, ...]) -> bool:
        """Whether the model's logits are the head's output to the bit: no soft cap, scale or bias comes after it."""
        seen: list[Tensor] = []
        head = self.model.get_output_embeddings()  # type: ignore[operator]
        hook = head.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
        try:
            logits = self.model(input_ids=torch.tensor([prompt], device=self.device), use_cache=False).logits
        finally:
            hook.remove()
        return len(seen) == 1 and torch.equal(seen[0].to(logits.dtype), logits)

    def _use_attention(self) -> None:
        """Gives the model the attention that takes packed rows, and its own one back for the other layouts."""
        name = attention.NAME if self.layout is Layout.SHARED else self._own_attention
        self.model.set_attn_implementation(name)  # type: ignore[operator]

    def _plain(self, one: Scored) -> Tensor:
        """Log-probs of one completion by the model's ordinary forward, nothing packed."""
        ids = torch.tensor([[*one.prompt_T, *one.completion_T]], device=self.device)
        logits = self.model(input_ids=ids, use_cache=False).logits[0, len(one.prompt_T) - 1 : -1].float()
        logprobs: Tensor = logits.log_softmax(-1).gather(-1, ids[0, len(one.prompt_T) :, None]).squeeze(-1)
        return logprobs


def _inputs(batch: MicroBatch) -> dict[str, object]:
    inputs: dict[str, object] = {
        "input_ids": batch.token_ids_B_T,
        "position_ids": batch.position_ids_B_T,
        "use_cache": False,
    }
    if batch.packed_layout is None:
        return inputs | {"attention_mask": batch.attention_mask_B_T}
    return inputs | {"packed_layout": batch.packed_layout}
