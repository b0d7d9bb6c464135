"""The optimizer, and where its state lives between two updates."""

from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from rloo_verify.config import LearnerConfig
from rloo_verify.errors import ModelError


def build_optimizer(parameters: Sequence[torch.nn.Parameter], config: LearnerConfig) -> torch.optim.Optimizer:
    """AdamW, with moments in the parameters' type or in 8 bit.

    Raises:
        ModelError: if the 8-bit optimizer's package cannot be imported, or does not take these shards.
    """
    settings: dict[str, Any] = {"lr": config.lr, "betas": config.betas, "weight_decay": config.weight_decay}
    if config.optimizer == "adamw":
        return torch.optim.AdamW(parameters, **settings)
    for parameter in parameters:
        if isinstance(parameter, DTensor) and len(parameter) % parameter.device_mesh.size():
            raise ModelError(
                f"learner.optimizer = adamw8bit needs equal shards, but a parameter has {len(parameter)} rows for "
                f"{parameter.device_mesh.size()} processes; use adamw, or another number of processes"
            )
    return _eight_bit_type()(parameters, **settings)  # type: ignore[no-any-return]


def check_optimizer(config: LearnerConfig) -> None:
    """Refuses an optimizer that cannot be imported.

    Raises:
        ModelError: naming the extra to install.
    """
    if config.optimizer == "adamw8bit":
        _eight_bit_type()


def _eight_bit_type() -> Any:
    try:
        from torchao.optim import AdamW8bit
    except (ImportError, AttributeError, RuntimeError) as error:  # a build for another torch fails in any of these ways
        raise ModelError(
            f"learner.optimizer = adamw8bit needs torchao ({error}); install it with: pip install 'rloo-verify[adam8]'"
        ) from error
    return AdamW8bit


def state_tensors(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter) -> Iterator[tuple[str, Tensor]]:
    """Name and tensor of all that the optimizer keeps for one parameter; nothing before its first update.

    8-bit moments come as new float32 tensors, for `keep` to put back.
    """
    for name, value in optimizer.state.get(parameter, {}).items():
        if isinstance(value, Tensor):
            yield name, _plain(value)


@torch.no_grad()
def keep(optimizer: torch.optim.Optimizer, parameter: torch.nn.Parameter, name: str, value: Tensor) -> None:
    """Puts back one tensor of `state_tensors`. 8-bit moments are rounded anew, by less than 1% of the largest."""
    own = optimizer.state[parameter][name]
    if own is not value:
        _local(own).copy_(_local(value))


def _local(value: Tensor) -> Tensor:
    return value.to_local() if isinstance(value, DTensor) else value


def _plain(value: Tensor) -> Tensor:
    """A tensor of an ordinary type, sharded or not."""
    local = _local(value)
    if not hasattr(local, "dequantize") or type(local) is Tensor:
        return value
    whole: Tensor = local.dequantize()
    if not isinstance(value, DTensor):
        return whole
    return DTensor.from_local(
        whole, value.device_mesh, value.placements, run_check=False, shape=value.shape, stride=value.stride()
    )


def set_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Sets the learning rate; some optimizers keep it as a tensor of their own."""
    for settings in optimizer.param_groups:
        if isinstance(settings["lr"], Tensor):
            settings["lr"].fill_(lr)
        else:
            settings["lr"] = lr


@torch.no_grad()
def start_state(optimizer: torch.optim.Optimizer) -> None:
    """Makes the optimizer keep its state, all zeros but for the step count, as it otherwise does at its first update.

    A step of length 0 with gradients of 0 changes no parameter, and works for any optimizer and any sharding.
    """
    rate = float(optimizer.param_groups[0]["lr"])
    set_rate(optimizer, 0.0)
    for settings in optimizer.param_groups:
        for parameter in settings["params"]:
            parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    set_rate(optimizer, rate)


def move_state(optimizer: torch.optim.Optimizer, device: torch.device | str) -> None:
    """Moves the optimizer's state to a device; scalars, which optimizers keep on the CPU, stay where they are."""
    for state in optimizer.state.values():
        for name, value in state.items():
            if isinstance(value, Tensor) and value.dim() > 0:
                state[name] = value.to(device)
