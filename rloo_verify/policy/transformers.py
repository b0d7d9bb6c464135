"""The embedded engine: plain transformers, one seeded stream of randomness a completion, the same bits every time."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from rloo_verify.errors import PolicyError, SyncError
from rloo_verify.logprobs import Layout, Scorer
from rloo_verify.packing import Scored
from rloo_verify.policy.base import NamedTensors, Request, Sampling
from rloo_verify.types import Completion, FinishReason

SCORE_TOKENS = 8192
"""Tokens of one scoring forward."""


@dataclass(slots=True)
class _Drawing:
    """A completion being drawn: its request, its uniform random numbers, and what was sampled so far."""

    request: Request
    uniforms_T: Tensor
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class TransformersPolicy:
    """Draws with a Hugging Face model of its own. Finished sequences leave the batch, so short answers come early.

    Each completion consumes a stream of uniforms from its own seed by inverse transform sampling, so its randomness
    does not depend on what else is in the batch.
    """

    def __init__(
        self, model: Any, tokenizer: Any, end_token_ids: Sequence[int], *, max_length: int, batch_size: int = 256
    ) -> None:
        """Takes a loaded model.

        Args:
            model: A Hugging Face causal LM in evaluation mode, owned by this engine from now on.
            tokenizer: Its tokenizer, for the text of completions.
            end_token_ids: Ids that end a completion; the sampled one is part of it.
            max_length: Longest prompt plus completion, in tokens.
            batch_size: Most sequences drawn at a time.
        """
        self.version = 0
        self._model = model.eval().requires_grad_(False)
        self._tokenizer = tokenizer
        self._ends = frozenset(end_token_ids)
        self._max_length = max_length
        self._batch_size = batch_size
        self._unusable = ""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Completion]:
        """See `Policy.generate`; requests are checked at the call, before anything is drawn."""
        if self._unusable:
            raise PolicyError(f"this engine cannot draw: {self._unusable}")
        for request in requests:
            length = len(request.problem.prompt_token_ids_T)
            if not length or length + sampling.max_new_tokens > self._max_length:
                raise PolicyError(
                    f"{request.problem.id}: a prompt of {length} tokens and {sampling.max_new_tokens} new ones do not "
                    f"fit the context of {self._max_length} tokens"
                )
        return self._draw_in_batches(requests, sampling)

    @torch.no_grad()
    def _draw_in_batches(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Completion]:
        for start in range(0, len(requests), self._batch_size):
            yield from self._draw(requests[start : start + self._batch_size], sampling)

    def _draw(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Completion]:
        device = self._model.device
        drawings = [_start(request, sampling.max_new_tokens) for request in requests]
        cache, mask, logits = self._prefill([request.problem.prompt_token_ids_T for request in requests])
        while drawings:
            uniforms = torch.stack([d.uniforms_T[len(d.token_ids)] for d in drawings]).to(device)
            tokens, logprobs = _sample(logits, uniforms, sampling.temperature)
            going = []
            for i, (drawing, token, logprob) in enumerate(
                zip(drawings, tokens.tolist(), logprobs.tolist(), strict=True)
            ):
                drawing.token_ids.append(token)
                drawing.logprobs.append(logprob)
                if token in self._ends:
                    yield self._finish(drawing, FinishReason.STOP)
                elif len(drawing.token_ids) == sampling.max_new_tokens:
                    yield self._finish(drawing, FinishReason.LENGTH)
                else:
                    going.append(i)
            if not going:
                return
            if len(going) < len(drawings):
                keep = torch.tensor(going, device=device)
                cache.batch_select_indices(keep)
                mask, tokens = mask[keep], tokens[keep]
                drawings = [drawings[i] for i in going]
            mask = torch.cat([mask, mask.new_ones(len(drawings), 1)], dim=1)
            logits = self._model(
                input_ids=tokens[:, None],
                attention_mask=mask,
                position_ids=mask.sum(dim=1, keepdim=True) - 1,
                past_key_values=cache,
                use_cache=True,
            ).logits[:, -1]

    def _prefill(self, prompts: Sequence[tuple[int, ...]]) -> tuple[Any, Tensor, Tensor]:
        """Reads each distinct prompt once, left-padded, and gives every request its copy of cache, mask and logits."""
        from transformers import DynamicCache

        device = self._model.device
        distinct = list(dict.fromkeys(prompts))
        width = max(map(len, distinct))
        ids = torch.zeros(len(distinct), width, dtype=torch.long, device=device)
        mask = torch.zeros_like(ids)
        for i, prompt in enumerate(distinct):
            ids[i, width - len(prompt) :] = torch.tensor(prompt, device=device)
            mask[i, width - len(prompt) :] = 1
        cache = DynamicCache(config=self._model.config)
        logits = self._model(
            input_ids=ids,
            attention_mask=mask,
            position_ids=(mask.cumsum(dim=1) - 1).clamp(min=0),
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        ).logits[:, -1]
        place = {prompt: i for i, prompt in enumerate(distinct)}
        copies = torch.tensor([place[prompt] for prompt in prompts], device=device)
        cache.batch_select_indices(copies)
        return cache, mask[copies], logits[copies]

    def _finish(self, drawing: _Drawing, reason: FinishReason) -> Completion:
        request = drawing.request
        return Completion(
            problem_id=request.problem.id,
            sample_index=request.sample_index,
            token_ids_T=tuple(drawing.token_ids),
            logprobs_T=tuple(drawing.logprobs),
            text=self._tokenizer.decode(drawing.token_ids, skip_special_tokens=True),
            finish_reason=reason,
            policy_version=self.version,
            seed=request.seed,
        )

    @torch.no_grad()
    def load_weights(self, weights: NamedTensors, version: int) -> None:
        """See `Policy.load_weights`.

        Raises:
            SyncError: if a name or a shape is not one of this model's; the engine refuses to draw until a whole set
                of weights was loaded.
        """
        self._unusable = "a weight sync failed half-way"
        own = dict(self._model.named_parameters())
        missing = set(own)
        for name, value in weights:
            if name not in own or own[name].shape != value.shape:
                known = f"has shape {tuple(own[name].shape)} here" if name in own else "is not a parameter here"
                raise SyncError(f"cannot load {name} of shape {tuple(value.shape)} into the policy: it {known}")
            own[name].copy_(value)
            missing.discard(name)
        if missing:
            raise SyncError(f"the learner sent no weights for {', '.join(sorted(missing)[:5])}")
        self.version, self._unusable = version, ""

    @torch.no_grad()
    def score(self, sequences: Sequence[tuple[Sequence[int], Sequence[int]]], temperature: float) -> list[list[float]]:
        """See `Policy.score`."""
        if self._unusable:
            raise PolicyError(f"this engine cannot score: {self._unusable}")
        scorer = Scorer(self._model, 0, layout=Layout.WHOLE)
        scored = [Scored(i, tuple(prompt), tuple(own)) for i, (prompt, own) in enumerate(sequences)]
        values: list[list[float]] = [[] for _ in sequences]
        for rows in scorer.micro_batches(scored, SCORE_TOKENS):
            scores = scorer.token_logprobs(rows, temperature)
            for owner, value in zip(scores.batch.owners_K.tolist(), scores.logprobs_K.tolist(), strict=True):
                values[owner].append(value)
        return values

    def differing_layers(self, weights: NamedTensors) -> list[str]:
        """See `Policy.differing_layers`; compares in this engine's floating-point type."""
        own = dict(self._model.named_parameters())
        return [name for name, value in weights if not torch.equal(own[name], value.to(own[name]))]

    def sleep(self) -> None:
        """See `Policy.sleep`; the weights wait in CPU memory."""
        self._device, self._unusable = self._model.device, "it is asleep"
        self._model.to("cpu")
        _free_cached_memory()

    def wake(self) -> None:
        """See `Policy.wake`."""
        _free_cached_memory()
        self._model.to(self._device)
        self._unusable = ""

    def close(self) -> None:
        """See `Policy.close`."""
        self._model, self._unusable = None, "it is closed"


def _free_cached_memory() -> None:
    """Gives memory that torch keeps for later back to the device, for others to use."""
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def _start(request: Request, max_new_tokens: int) -> _Drawing:
    generator = torch.Generator().manual_seed(request.seed)
    return _Drawing(request, torch.rand(max_new_tokens, generator=generator, dtype=torch.float64))


def _sample(logits_B_V: Tensor, uniforms_B: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Next tokens by inverse transform sampling (greedy at temperature 0), and their log-probs, both `[B]`."""
    logits_B_V = logits_B_V.float()
    if temperature == 0:
        tokens = logits_B_V.argmax(-1)
    else:
        logits_B_V = logits_B_V / temperature
        cumulative = logits_B_V.double().softmax(-1).cumsum(-1)
        wanted = uniforms_B[:, None] * cumulative[:, -1:]
        tokens = torch.searchsorted(cumulative, wanted, right=True).squeeze(-1).clamp(max=logits_B_V.shape[-1] - 1)
    logprobs = logits_B_V.gather(-1, tokens[:, None]).squeeze(-1) - logits_B_V.logsumexp(-1)
    return tokens, logprobs
