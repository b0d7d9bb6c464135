"""Runs a function in N processes that form one world over gloo, as `torchrun` would start them."""

import multiprocessing
import os
import socket
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

SECONDS = 100


def free_port() -> int:
    """A port that nobody listens on at the moment."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _child(
    rank: int, size: int, port: int, function: Callable[..., Any], arguments: tuple[Any, ...], out: Path
) -> None:
    from rloo_verify.parallel import joined

    os.environ.update(
        RANK=str(rank), WORLD_SIZE=str(size), LOCAL_RANK=str(rank), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port)
    )
    torch.set_num_threads(1)
    try:
        with joined() as world:
            result = function(world, *arguments)
    except BaseException:
        (out / f"{rank}.error").write_text(traceback.format_exc())
        raise
    torch.save(result, out / f"{rank}.pt")


def start(size: int, function: Callable[..., Any], *arguments: Any, out: Path) -> list[Any]:
    """Starts `function(world, *arguments)` in `size` processes, which leave results and tracebacks in `out`."""
    out.mkdir(parents=True)
    port = free_port()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rloo_verify.train", "transformers.models.llama.modeling_llama", "processes"])
    children = [
        context.Process(target=_child, args=(rank, size, port, function, arguments, out)) for rank in range(size)
    ]
    for child in children:
        child.start()
    return children


def join(children: list[Any], seconds: float = SECONDS) -> list[int]:
    """Waits for the processes and returns their exit codes; one that hangs is killed and fails the test."""
    limit = time.monotonic() + seconds
    for child in children:
        child.join(max(0.0, limit - time.monotonic()))
    hanging = [i for i, child in enumerate(children) if child.is_alive()]
    for i in hanging:
        children[i].kill()
    assert not hanging, f"processes {hanging} hang"
    return [child.exitcode for child in children]


def run(size: int, function: Callable[..., Any], *arguments: Any, out: Path) -> list[Any]:
    """What `function(world, *arguments)` returns in each of `size` processes, in order of rank."""
    codes = join(start(size, function, *arguments, out=out))
    errors = "\n".join(file.read_text() for file in sorted(out.glob("*.error")))
    assert codes == [0] * size, errors
    return [torch.load(out / f"{rank}.pt", weights_only=False) for rank in range(size)]
