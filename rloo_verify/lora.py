"""Low-rank adapters through `peft`: added to the learner's model, merged on the fly for the engine."""

import contextlib
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from rloo_verify.config import LoraConfig
from rloo_verify.errors import ModelError


def add_adapters(model: torch.nn.Module, config: LoraConfig) -> torch.nn.Module:
    """Injects adapters in place and freezes everything else; returns the same Hugging Face model.

    Raises:
        ModelError: if `peft` is not installed or a target module does not exist.
    """
    try:
        import peft
    except ImportError:
        raise ModelError("[model.lora] needs peft; install it with: pip install 'rloo-verify[lora]'") from None
    settings = peft.LoraConfig(
        r=config.rank, lora_alpha=config.alpha, lora_dropout=0.0, target_modules=config.target_modules
    )
    try:
        adapted = peft.get_peft_model(model, settings)
    except ValueError as error:
        raise ModelError(f"model.lora.target_modules = {config.target_modules}: {error}") from None
    return adapted.get_base_model()  # type: ignore[no-any-return]


@contextlib.contextmanager
def without_adapters(model: torch.nn.Module, switch_off: bool) -> Iterator[None]:
    """Inside the context the model computes with its base weights alone, if `switch_off`."""
    layers: list[Any] = [m for m in model.modules() if hasattr(m, "get_delta_weight")] if switch_off else []
    for layer in layers:
        layer.enable_adapters(False)
    try:
        yield
    finally:
        for layer in layers:
            layer.enable_adapters(True)


@torch.no_grad()
def merged_weights(model: torch.nn.Module) -> Iterator[tuple[str, Tensor]]:
    """Every parameter by its Hugging Face name, with `W + B A * alpha / rank` where a layer has an adapter.

    Nothing is written to the model, so merging any number of times leaves its base weights bit-identical. A parameter
    that two names share (tied embeddings) comes once, under its first name.
    """
    layers = {name: module for name, module in model.named_modules() if hasattr(module, "get_delta_weight")}
    for name, parameter in model.named_parameters():
        if ".lora_" in name:
            continue
        if ".base_layer." not in name:
            yield name, parameter.detach()
            continue
        layer_name, _, field = name.partition(".base_layer.")
        value = parameter.detach()
        if field == "weight":
            value = value + layers[layer_name].get_delta_weight("default")
        yield f"{layer_name}.{field}", value
