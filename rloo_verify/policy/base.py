"""The protocol of an engine: token ids in, token ids out."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch

from rloo_verify.types import Completion, Problem

NamedTensors = Iterable[tuple[str, torch.Tensor]]


@dataclass(frozen=True, slots=True)
class Sampling:
    """How tokens are drawn. Only what the learner scores the same way exists here: temperature, and nothing else.

    Attributes:
        max_new_tokens: Longest completion, in tokens.
        temperature: Divides the logits; 0 means greedy (evaluation only).
    """

    max_new_tokens: int
    temperature: float = 1.0


@dataclass(frozen=True, slots=True)
class Request:
    """One completion to draw: a rendered problem, which of its G samples this is, and the seed of this sample alone."""

    problem: Problem
    sample_index: int
    seed: int


class Policy(Protocol):
    """What draws completions from the current weights."""

    version: int
    """Number of weight syncs seen; 0 for the weights that the engine started with."""

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Completion]:
        """Draws one completion per request and yields each as soon as it finishes, in any order.

        Drawing goes on while the consumer is between two `next` calls only as far as the engine batches steps, so
        consumers hand each completion to the verifier pool and come back at once.

        Raises:
            PolicyError: if the engine breaks, or a prompt does not fit the context together with `max_new_tokens`.
        """
        ...

    def load_weights(self, weights: NamedTensors, version: int) -> None:
        """Replaces the weights in place by Hugging Face parameter names, drops cached prefixes, sets `version`."""
        ...

    def score(self, sequences: Sequence[tuple[Sequence[int], Sequence[int]]], temperature: float) -> list[list[float]]:
        """Log-probs of given tokens: for each `(prompt ids, completion ids)`, one natural log-prob per completion id.

        The distribution is the one that `generate` samples from at this temperature (> 0).
        """
        ...

    def differing_layers(self, weights: NamedTensors) -> list[str]:
        """Names of the parameters or layers whose values in the engine differ from `weights`; for error messages."""
        ...

    def sleep(self) -> None:
        """Gives device memory back until `wake`; meanwhile drawing and scoring are refused."""
        ...

    def wake(self) -> None:
        """Takes the memory again, with the weights that it had."""
        ...

    def close(self) -> None:
        """Frees the engine. Safe to call twice."""
        ...
