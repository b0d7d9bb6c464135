"""Several processes that learn together: who there is, how a model is sharded over them, and what they tell each other.

`torchrun` starts N processes with the same command; `joined` gives each its `World`. One process is the common case:
then no process group exists and nothing here does anything. `collective.py` has the calls that all of them make.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import timedelta
from typing import Any, TypeVar, cast

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor

from rloo_verify.errors import ConfigError, ParallelError

COLLECTIVE_LIMIT = timedelta(minutes=10)
"""How long a rank waits for the others inside a computation that all of them do."""
ANNOUNCEMENT_LIMIT = timedelta(hours=12)
"""How long the other ranks wait while rank 0 samples, verifies and evaluates."""

Call = tuple[str, tuple[Any, ...]]
"""Name of a method and its arguments."""
T = TypeVar("T")


class World:
    """The processes of a run.

    Attributes:
        rank: Number of this process, from 0.
        size: Number of processes.
    """

    def __init__(
        self, rank: int = 0, size: int = 1, mesh: DeviceMesh | None = None, control: dist.ProcessGroup | None = None
    ) -> None:
        """A single process, or with `mesh` and `control` one of several (see `joined`).

        Args:
            rank: Number of this process.
            size: Number of processes.
            mesh: All processes, for sharding.
            control: A CPU group of all processes, for objects.
        """
        self.rank, self.size = rank, size
        self.mesh, self.control = mesh, control
        self._busy = False

    @property
    def leads(self) -> bool:
        """Whether this is rank 0."""
        return self.rank == 0

    def gather(self, value: T) -> list[T]:
        """One value (anything that can be pickled) of each rank, in order of rank, on every rank."""
        if self.size == 1:
            return [value]
        values: list[Any] = [None] * self.size
        dist.all_gather_object(values, value, group=self.control)
        return values

    def together(self, action: Callable[[], T]) -> T:
        """Does something on every rank, and fails on every rank if it failed on one.

        Raises:
            ParallelError: with the first message, if another rank failed.
        """
        if self.size == 1:
            return action()
        if self.leads:
            self.announce(("together", ()))
        with self.occupied():
            failure, result = None, None
            try:
                result = action()
            except Exception as error:  # noqa: BLE001 (it is raised again below, on every rank)
                failure = error
            messages = self.gather(f"{type(failure).__name__}: {failure}" if failure else None)
            if failure is not None:
                raise failure
            for rank, message in enumerate(messages):
                if message is not None:
                    raise ParallelError(f"process {rank} failed: {message}")
        return cast(T, result)

    def shard(self, module: torch.nn.Module, layers: Iterable[torch.nn.Module]) -> None:
        """Shards parameters, gradients and optimizer state over the ranks with FSDP2, in place.

        Gradients are summed over the ranks, not averaged. Parameters are gathered around the forward and the backward
        of the layer that they belong to, and sharded at any other time. On a GPU the shards are float32 (master
        weights and gradient sums) and what is gathered is bfloat16.

        Args:
            module: The outermost module; parameters of no layer are gathered around its forward.
            layers: Its layers, each gathered on its own.
        """
        if self.mesh is None:
            return
        on_gpu = self.mesh.device_type == "cuda"
        precision = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if on_gpu else MixedPrecisionPolicy()
        for one in (*layers, module):
            # also outermost: whatever runs between two forwards (optimizer, sync, checkpoints) meets shards only
            sharded = fully_shard(one, mesh=self.mesh, mp_policy=precision, reshard_after_forward=True)
            sharded.set_gradient_divide_factor(1.0)
            sharded.set_force_sum_reduction_for_comms(True)  # gloo has no other
        if on_gpu:
            torch.cuda.empty_cache()  # of the whole copy that the shards came from

    def sum_gradients_at(self, module: torch.nn.Module, last: bool) -> None:
        """Before a backward: whether it is the step's last one, at which gradients are summed over the ranks."""
        if self.mesh is not None:
            module.set_requires_gradient_sync(last)  # type: ignore[operator]

    def close(self, *, failed: bool) -> None:
        """Sends the other ranks home, if this one leads and they are listening, and ends the process groups."""
        if self.size == 1 or (failed and self._busy):
            return  # in the middle of a computation nobody listens; they notice that this process ends
        with _peers_may_be_lost():
            if self.leads:
                self.announce(None)
            dist.destroy_process_group()

    def announce(self, call: Call | None) -> None:
        """Tells the other ranks what to do next; None sends them home."""
        with _peers_may_be_lost():
            dist.broadcast_object_list([call], src=0, group=self.control)

    def hear(self) -> Call | None:
        """What rank 0 announces next."""
        received: list[Any] = [None]
        with _peers_may_be_lost():
            dist.broadcast_object_list(received, src=0, group=self.control)
        return cast(Call | None, received[0])

    @contextlib.contextmanager
    def occupied(self) -> Iterator[None]:
        """Marks what all ranks do at the same time; left as it is by a failure in which the ranks may have parted."""
        self._busy = True
        with _peers_may_be_lost():
            yield
        self._busy = False


@contextlib.contextmanager
def joined() -> Iterator[World]:
    """The world that `torchrun` set up for this process, or a world of one.

    Raises:
        ConfigError: if the environment is not that of torchrun, or there are more processes than GPUs on this machine.
        ParallelError: if the others cannot be reached.
    """
    rank, size, local_rank = (int(os.environ.get(name, "0")) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
    if size <= 1:
        yield World()
        return
    world = _join(rank, size, local_rank)
    try:
        yield world
    except BaseException:
        with contextlib.suppress(ParallelError):  # the first error is the one to tell
            world.close(failed=True)
        raise
    world.close(failed=False)


def _join(rank: int, size: int, local_rank: int) -> World:
    on_gpu = torch.cuda.is_available()
    if on_gpu:
        if local_rank >= torch.cuda.device_count():
            raise ConfigError(
                f"torchrun started more processes than this machine has GPUs ({torch.cuda.device_count()}); "
                f"lower --nproc-per-node"
            )
        torch.cuda.set_device(local_rank)
    with _peers_may_be_lost():
        backend = "cpu:gloo,cuda:nccl" if on_gpu else "gloo"
        try:
            dist.init_process_group(backend, timeout=COLLECTIVE_LIMIT)
        except ValueError as error:
            raise ConfigError(
                f"WORLD_SIZE = {size}, but this is not the environment of torchrun ({error}); start several processes "
                "with: torchrun --nproc-per-node N -m rloo_verify train CONFIG"
            ) from error
        mesh = init_device_mesh("cuda" if on_gpu else "cpu", (size,))
        control = dist.new_group(backend="gloo", timeout=ANNOUNCEMENT_LIMIT)
    return World(rank, size, mesh, control)


def full(tensor: Tensor) -> Tensor:
    """The whole of a sharded tensor, gathered by all ranks at the same time; any other tensor as it is."""
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


@contextlib.contextmanager
def _peers_may_be_lost() -> Iterator[None]:
    """Turns what gloo and NCCL say when another process is gone into one sentence."""
    try:
        yield
    except ParallelError:
        raise
    except RuntimeError as error:
        text = str(error)
        lost = isinstance(error, dist.DistError) or any(word in text for word in ("gloo", "NCCL", "Connection closed"))
        if not lost:
            raise
        raise ParallelError(
            f"another process of this run ended or did not answer in time ({text.splitlines()[0][:200]}); "
            "its own message says why"
        ) from error
