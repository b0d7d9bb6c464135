"""The resume state on disk: safetensors files, written and read shard by shard with torch.distributed.checkpoint.

A file holds tensors, and nothing that is executed when it is read. Each process writes the shards that it has; on
reading each takes the parts that it needs, whatever the number of processes that wrote them.
"""

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from torch import Tensor
from torch.distributed.checkpoint.api import CheckpointException
from torch.distributed.checkpoint.hf_storage import HuggingFaceStorageReader, HuggingFaceStorageWriter
from torch.distributed.checkpoint.state_dict_loader import load
from torch.distributed.checkpoint.state_dict_saver import save

from rloo_verify.parallel import World

FILE_BYTES = 2**30
"""Size of the tensors that share a file. A file is put together in memory before it is written."""


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


def stored_names(folder: Path) -> set[str]:
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
