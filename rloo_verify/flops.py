"""Floating-point operations of a learner's step, and the most that this device can do of them.

Model FLOPs utilisation (Chowdhery et al., 2022, "PaLM", appendix B) is the share of the device's peak that the
operations of the model itself make up; what is computed twice (the chunked head, gradient checkpointing) counts once.
The peak is not taken from a data sheet: it is the rate of a large matrix product, measured here.
"""

import functools
import time
from collections.abc import Iterable

import torch

from rloo_verify.packing import Row

_TRIES = 5
_SIDE = {"cpu": 1024, "cuda": 8192}


class ModelFlops:
    """Counts the operations of forward and backward passes of a causal language model.

    Args:
        model: The model; a matrix whose gradient is not wanted (adapters train instead) costs no third product.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        body: torch.nn.Module = model.base_model  # type: ignore[assignment]
        embeddings = {id(p) for m in body.modules() if isinstance(m, torch.nn.Embedding) for p in m.parameters()}
        head: torch.nn.Parameter = model.get_output_embeddings().weight  # type: ignore[operator]
        matrices = [p for p in body.parameters() if p.ndim == 2 and id(p) not in embeddings]
        self._per_token = sum(_passes(p) * 2 * p.numel() for p in matrices)
        self._per_prediction = _passes(head) * 2 * head.numel()
        config = model.config
        width = int(config.num_attention_heads) * _head_size(config)  # type: ignore[union-attr, arg-type]
        self._per_pair = 3 * 2 * 2 * int(config.num_hidden_layers) * width  # type: ignore[union-attr, arg-type]

    def of(self, rows: Iterable[Row]) -> float:
        """Operations of one forward and backward over some rows, padding left out.

        Each weight takes 2 operations a token forward and 4 backward, the head only where a completion token is
        predicted; each visible pair of query and key takes 2 products of the heads' width forward and 4 backward.
        """
        total = 0.0
        for row in rows:
            predictions = sum(len(one.completion_T) for one in row.scored)
            total += len(row) * self._per_token + predictions * self._per_prediction + row.pairs * self._per_pair
        return total


def _passes(parameter: torch.nn.Parameter) -> int:
    """Products that a matrix takes part in: forward, gradient of its input, and gradient of itself if it is trained."""
    return 3 if parameter.requires_grad else 2


def _head_size(config: object) -> int:
    size = getattr(config, "head_dim", None)
    return int(size or config.hidden_size // config.num_attention_heads)  # type: ignore[attr-defined]


@functools.cache
def peak_flops(device_type: str, dtype: torch.dtype) -> float:
    """Operations a second of the fastest of a few large matrix products on this device.

    Args:
        device_type: "cpu" or "cuda".
        dtype: What the learner computes in.
    """
    side = _SIDE.get(device_type, 1024)
    left, right = (torch.ones(side, side, dtype=dtype, device=device_type) for _ in range(2))
    left @ right  # the first product pays for start-up
    seconds = []
    for _ in range(_TRIES):
        _finish(device_type)
        started = time.perf_counter()
        left @ right
        _finish(device_type)
        seconds.append(time.perf_counter() - started)
    return float(2 * side**3 / min(seconds))


def _finish(device_type: str) -> None:
    if device_type == "cuda":
        torch.cuda.synchronize()
