"""The resume state on disk: safetensors files, written and read shard by shard with torch.distributed.checkpoint.

A file holds tensors, and nothing that is executed when it is read. Each process writes the shards that it has; on
reading each takes the parts that it needs, whatever the number of processes that wrote them.
"""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from rloo_verify.optimizer import keep, start_state, state_tensors
from rloo_verify.parallel import World

FILE_BYTES = 2**30
"""Size of the tensors that share a file. A file is put together in memory before it is written."""


def training_state(
    trained: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer, version: int
) -> dict[str, Tensor]:
    """All that a resumed learner needs, by name: trained parameters, what the optimizer keeps for each, the version."""
    state = {"version": torch.tensor(version)}
    for name, parameter in trained.items():
        state[f"parameter.{name}"] = parameter.detach()
        for kind, value in state_tensors(optimizer, parameter):
            state[f"optimizer.{name}.{kind}"] = value
    return state


def restore(
    folder: Path, trained: Mapping[str, torch.nn.Parameter], optimizer: torch.optim.Optimizer, world: World
) -> int:
    """Puts a stored `training_state` back in place, to the same bits, and returns its version.

    Raises:
        KeyError, ValueError, OSError: if it is not the state of these parameters and this optimizer.
    """
    stored = _stored_names(folder)
    if any(name.startswith("optimizer.") for name in stored):
        start_state(optimizer)
    state = training_state(trained, optimizer, 0)
    if stored != set(state):
        raise KeyError(f"it holds other tensors than this learner has, such as {min(stored ^ set(state))}")
    read_state(folder, state, world)
    for name, parameter in trained.items():
        for kind, _ in state_tensors(optimizer, parameter):
            keep(optimizer, parameter, kind, state[f"optimizer.{name}.{kind}"])
    return int(state["version"])


def write_state(folder: Path, state: Mapping[str, Tensor], world: World) -> None:
    """Writes named tensors; where they are sharded, every process calls this and writes its part.

    Raises:
        OSError: if a file cannot be written.
    """
    files: dict[str, int] = {}
    used = 0
    for name, tensor in state.items():
        files[name] = 1 + used // FILE_BYTES
        used += tensor.numel() * tensor.element_size()
    writer = HuggingFaceStorageWriter(str(folder), fqn_to_index_mapping=files, save_distributed=True)
    with _first_cause():
        save(dict(state), storage_writer=writer, no_dist=world.size == 1, process_group=world.control)


def read_state(folder: Path, state: Mapping[str, Tensor], world: World) -> None:
    """Fills tensors in place with what is stored under their names; sharded ones with their part of it.

    Raises:
        KeyError: if a name is not stored.
        ValueError: if it is stored with another shape.
        OSError: if a file cannot be read.
    """
    reader = HuggingFaceStorageReader(str(folder))
    with _first_cause():
        load(dict(state), storage_reader=reader, no_dist=world.size == 1, process_group=world.control)


def _stored_names(folder: Path) -> set[str]:
    """The names of all tensors of a folder."""
    return set(HuggingFaceStorageReader(str(folder)).read_metadata().state_dict_metadata)


@contextmanager
def _first_cause() -> Iterator[None]:
    """Raises what went wrong on the first process that failed, in place of the list of all failures."""
    logging.getLogger("torch.distributed.checkpoint").setLevel(logging.ERROR)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*torch.distributed is disabled")
        try:
            yield
        except CheckpointException as error:
            raise error.failures[min(error.failures)][0] from error
