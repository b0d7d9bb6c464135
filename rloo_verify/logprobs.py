"""Log-probs of given completion tokens under a Hugging Face causal language model."""

import contextlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from rloo_verify import attention
from rloo_verify.head import chunked_logprobs
from rloo_verify.packing import (
    NO_PACKING,
    NOTHING,
    MicroBatch,
    Packing,
    Row,
    Scored,
    build_rows,
    collate_plain,
    collate_shared,
    micro_batches,
    shares,
)
from rloo_verify.parallel import World

log = logging.getLogger(__name__)

SELF_CHECK_TOLERANCE = 1e-3
"""Largest |log-prob difference|, in nats, between a layout and the plain forward in the start-up check."""

GATHERING = 16.0
"""Overhead of a token in a shared row, in plain tokens times the hidden size D: copies cost D, matrix products D * D.
Measured by `benchmarks/packing.py` on a CPU with D = 128; larger models follow from the ratio."""

MAX_OVERHEAD = 0.125
"""What was measured at D = 128, the smallest model that anyone trains here."""


class Layout(Enum):
    """How sequences are scored, the cheapest first."""

    SHARED = "prompts shared, head in chunks"
    PLAIN = "one completion a row, head in chunks"
    WHOLE = "one completion a row, the model's own forward with all its logits"


@dataclass(frozen=True, slots=True)
class TokenScores:
    """What the model says of the K completion tokens of a micro-batch.

    Attributes:
        batch: The micro-batch.
        logprobs_K: Log-prob of each token, differentiable, in nats.
        entropies_K: Entropy of the distribution that it was drawn from, in nats, where asked for.
    """

    batch: MicroBatch
    logprobs_K: Tensor
    entropies_K: Tensor | None


class Scorer:
    """Scores sequences with a model, only at the positions that predict completion tokens.

    On construction it compares its log-probs with plain one-sequence forwards of the same model, and takes the first
    layout that agrees: a model with sliding windows cannot share prompts, one whose head does more than a matrix
    product cannot have it in chunks.

    Attributes:
        layout: How sequences are scored.
        packing: When completions share their prompt, where the layout can.
        module: The model together with its head's log-probs: the outermost module of every forward.
    """

    def __init__(self, model: torch.nn.Module, vocabulary_size: int, *, layout: Layout | None = None) -> None:
        """Takes a Hugging Face causal LM on its device; with a `layout` the check is left out."""
        self.model = model
        self.module = _TokenLogprobs(model)
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

    def micro_batches(self, sequences: Sequence[Scored], max_tokens: int) -> list[list[Row]]:
        """Splits sequences into micro-batches of at most `max_tokens` tokens in the layout of this model."""
        (mine,) = self.shares(sequences, max_tokens, 1)
        return mine

    def shares(self, sequences: Sequence[Scored], max_tokens: int, workers: int) -> list[list[list[Row]]]:
        """The micro-batches of each of some workers: of equal cost as far as rows allow, and equal in number.

        A group longer than a fair share is split, so that a step of few groups occupies every worker. A worker with
        fewer micro-batches than another gets `NOTHING` for the rest.
        """
        rows = self._rows(sequences, max_tokens)
        if workers > 1:
            fair = -(-sum(map(len, rows)) // workers)
            rows = self._rows(sequences, min(max_tokens, fair))
        hidden_size = int(self.model.config.hidden_size)  # type: ignore[union-attr, arg-type]
        # a layer takes about 24 hidden^2 operations for a token and 4 hidden for a pair
        parts = shares(rows, workers, cost=lambda row: len(row) + row.pairs / (6 * hidden_size))
        each = [micro_batches(part, max_tokens) for part in parts]
        count = max(map(len, each))
        return [batches + [NOTHING] * (count - len(batches)) for batches in each]

    def _rows(self, sequences: Sequence[Scored], max_tokens: int) -> list[Row]:
        return build_rows(sequences, max_tokens, packing=self.packing if self.layout is Layout.SHARED else NO_PACKING)

    def token_logprobs(self, rows: Sequence[Row], temperature: float, *, with_entropy: bool = False) -> TokenScores:
        """The log-probs of the completion tokens of some rows.

        Args:
            rows: One of `self.micro_batches`.
            temperature: Divides the logits, as in the sampler.
            with_entropy: Whether entropies are wanted, too.
        """
        collate = collate_plain if all(len(row.scored) == 1 for row in rows) else collate_shared
        batch = collate(rows, self.device)
        whole = self.layout is Layout.WHOLE
        return TokenScores(batch, *self.module(batch, temperature, whole=whole, with_entropy=with_entropy))

    def shard(self, world: World) -> None:
        """Shards the model over the processes of a run, layer by layer; nothing for a single process."""
        names = set(self.model._no_split_modules or ())  # type: ignore[arg-type]
        world.shard(self.module, [layer for layer in self.model.modules() if type(layer).__name__ in names])

    @torch.no_grad()
    def _self_check(self, vocabulary_size: int) -> Layout:
        generator = torch.Generator().manual_seed(0)
        ids = tuple(torch.randint(vocabulary_size, (24,), generator=generator).tolist())
        prompt, other = ids[:8], ids[4:8]
        # two groups that share, and one completion alone
        pairs = [(prompt, ids[8:13]), (prompt, ids[13:]), (other, ids[10:13]), (other, ids[9:11]), (other[1:], ids[:5])]
        sequences = [Scored(i, *pair) for i, pair in enumerate(pairs)]
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
            order = torch.cat([scores.batch.owners_K for scores in scored]).argsort(stable=True)
            in_order = torch.cat([scores.logprobs_K for scores in scored])[order]
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


class _TokenLogprobs(torch.nn.Module):
    """A causal LM that answers with the log-prob of each completion token.

    The head's matrix is used outside the head's own forward. Here that still is inside the forward of the module that
    it belongs to, and there a sharded matrix is whole (FSDP gathers the parameters of a module around its forward).
    """

    def __init__(self, model: torch.nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(
        self, batch: MicroBatch, temperature: float, *, whole: bool, with_entropy: bool
    ) -> tuple[Tensor, Tensor | None]:
        """`[K]` log-probs, and `[K]` entropies where asked for; from the model's own logits if `whole`."""
        row, column = batch.predictors_2_K
        if whole:
            logits = self.model(**_inputs(batch)).logits[row, column]
            logits = logits.to(torch.promote_types(logits.dtype, torch.float32)) / temperature
            logprobs = logits.log_softmax(-1)
            entropies_K = -(logprobs.detach().exp() * logprobs.detach()).sum(-1) if with_entropy else None
            return logprobs.gather(-1, batch.targets_K[:, None]).squeeze(-1), entropies_K
        hidden = self.model.base_model(**_inputs(batch)).last_hidden_state  # type: ignore[operator]
        head = self.model.get_output_embeddings()  # type: ignore[operator]
        bias = getattr(head, "bias", None)
        return chunked_logprobs(
            hidden[row, column], head.weight, bias, batch.targets_K, temperature, with_entropy=with_entropy
        )


def _inputs(batch: MicroBatch) -> dict[str, object]:
    inputs: dict[str, object] = {
        "input_ids": batch.token_ids_B_T,
        "position_ids": batch.position_ids_B_T,
        "use_cache": False,
    }
    if batch.packed_layout is None:
        return inputs | {"attention_mask": batch.attention_mask_B_T}
    return inputs | {"packed_layout": batch.packed_layout}
