"""What a weight sync must hold, known before vLLM sees it: a wrong name inside vLLM leaves the engine half loaded."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from rloo_verify.errors import SyncError
from rloo_verify.policy.base import NamedTensors

SharedTensor = tuple[str, Callable[..., torch.Tensor], tuple[Any, ...]]
"""A name, and the function and arguments with which another process of this machine maps the CUDA tensor."""


class ParameterList:
    """Names and shapes of a checkpoint's parameters, from a model without memory.

    Args:
        model: A model folder or a hub id.
    """

    def __init__(self, model: str | Path) -> None:
        config = AutoConfig.from_pretrained(str(model))
        with torch.device("meta"):
            skeleton = AutoModelForCausalLM.from_config(config)
        self._required = {name for name, _ in skeleton.named_parameters()}
        self._shapes = {name: value.shape for name, value in skeleton.named_parameters(remove_duplicate=False)}

    def checked(self, weights: NamedTensors) -> Iterator[tuple[str, torch.Tensor]]:
        """Passes the weights on one by one, detached, and fails at the first that is not the model's.

        A parameter that shares its tensor with another (a tied `lm_head.weight`) may come or not.

        Raises:
            SyncError: if a name is unknown, a shape is wrong, or at the end a parameter is missing.
        """
        missing = set(self._required)
        for name, tensor in weights:
            if name not in self._shapes:
                raise SyncError(f"The model has no parameter {name}, so vLLM cannot load it.")
            if tensor.shape != self._shapes[name]:
                raise SyncError(f"{name} has shape {tuple(tensor.shape)}, the model's is {tuple(self._shapes[name])}.")
            missing.discard(name)
            yield name, tensor.detach()
        if missing:
            raise SyncError(f"The weight sync lacks {len(missing)} parameters of the model, such as {min(missing)}.")


def shared_handles(weights: Sequence[tuple[str, torch.Tensor]]) -> list[SharedTensor]:
    """Handles by which other processes map these CUDA tensors (CUDA IPC); the tensors must outlive their use."""
    from torch.multiprocessing.reductions import reduce_tensor

    return [(name, *reduce_tensor(tensor)) for name, tensor in weights]  # type: ignore[no-untyped-call]
