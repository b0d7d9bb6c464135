"""Log-probs of given completion tokens under a Hugging Face causal language model."""

import contextlib
import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from rloo_verify.packing import MicroBatch, Row, Scored, build_rows, collate

log = logging.getLogger(__name__)

SELF_CHECK_TOLERANCE = 1e-3
"""Largest |log-prob difference|, in nats, between the packed and the plain forward in the start-up check (float32)."""


class Scorer:
    """Scores packed sequences with a model, only at the positions that predict completion tokens.

    On construction it compares its packed log-probs with plain one-sequence forwards of the same model. A model whose
    attention does not take the shared-prompt mask, or whose head does more than one matrix product, is scored in the
    plain way from then on, with a log line.

    Attributes:
        share_prompts: Whether completions of one prompt may be packed into one row.
        head_alone: Whether backbone and head are called apart, so that prompt positions never get logits.
    """

    def __init__(self, model: torch.nn.Module, vocabulary_size: int, *, check: bool = True) -> None:
        self.model = model
        self.share_prompts = True
        self.head_alone = True
        if check:
            self._self_check(vocabulary_size)

    @property
    def device(self) -> torch.device:
        """Where the model's weights are."""
        return next(self.model.parameters()).device

    def autocast(self) -> contextlib.AbstractContextManager[object]:
        """bfloat16 autocast on a GPU (the weights stay float32); nothing on a CPU."""
        if self.device.type == "cuda":
            return torch.autocast("cuda", torch.bfloat16)
        return contextlib.nullcontext()

    def rows(self, sequences: Sequence[Scored]) -> list[Row]:
        """Lays sequences out in rows in the way that this model can score."""
        return build_rows(sequences, share_prompts=self.share_prompts)

    def token_logprobs(self, rows: Sequence[Row], temperature: float) -> tuple[MicroBatch, Tensor]:
        """The micro-batch of some rows and the differentiable log-prob of each of its completion tokens, `[K]`.

        Args:
            rows: Rows made by `self.rows`.
            temperature: Divides the logits, as in the sampler.
        """
        batch = collate(rows, self.device)
        inputs = {
            "input_ids": batch.token_ids_B_T,
            "attention_mask": batch.attention_mask,
            "position_ids": batch.position_ids_B_T,
            "use_cache": False,
        }
        row, column = batch.predictors_2_K
        if self.head_alone:
            hidden = self.model.base_model(**inputs).last_hidden_state  # type: ignore[operator]
            logits_K_V = self.model.get_output_embeddings()(hidden[row, column])  # type: ignore[operator]
        else:
            logits_K_V = self.model(**inputs).logits[row, column]
        dtype = torch.promote_types(logits_K_V.dtype, torch.float32)
        logits_K_V = logits_K_V.to(dtype) / temperature
        chosen = logits_K_V.gather(-1, batch.targets_K[:, None]).squeeze(-1)
        return batch, chosen - logits_K_V.logsumexp(-1)

    @torch.no_grad()
    def _self_check(self, vocabulary_size: int) -> None:
        generator = torch.Generator().manual_seed(0)
        ids = torch.randint(vocabulary_size, (12,), generator=generator).tolist()
        sequences = [Scored(0, tuple(ids[:4]), tuple(ids[4:7])), Scored(1, tuple(ids[:4]), tuple(ids[7:]))]
        plain = torch.cat([self._plain(one) for one in sequences])
        training = self.model.training
        self.model.eval()
        for self.share_prompts, self.head_alone in ((True, True), (True, False), (False, False)):
            try:
                packed = torch.cat([self.token_logprobs([row], 1.0)[1] for row in self.rows(sequences)])
            except (RuntimeError, ValueError, TypeError, AttributeError) as error:
                log.debug("packed forward failed in the self-check: %s", error)
                continue
            if (packed - plain).abs().max().item() <= SELF_CHECK_TOLERANCE:
                break
        self.model.train(training)
        if not (self.share_prompts and self.head_alone):
            log.warning(
                "%s: packed log-probs differ from plain ones; scoring %s",
                type(self.model).__name__,
                "without a separate head" if self.share_prompts else "one completion a row",
            )

    def _plain(self, one: Scored) -> Tensor:
        """Log-probs of one completion by the model's ordinary forward, nothing packed."""
        training = self.model.training
        self.model.eval()
        ids = torch.tensor([[*one.prompt_T, *one.completion_T]], device=self.device)
        logits = self.model(input_ids=ids, use_cache=False).logits[0, len(one.prompt_T) - 1 : -1].float()
        self.model.train(training)
        logprobs: Tensor = logits.log_softmax(-1).gather(-1, ids[0, len(one.prompt_T) :, None]).squeeze(-1)
        return logprobs
