"""Rank 0 leads, the others follow.

Rank 0 alone samples, verifies, evaluates and writes the run folder, and its code is that of a single process. The
methods of the learner that need everybody are marked `@collective`: when rank 0 calls one, the call is announced, and
the other ranks, which wait in `follow`, make it too.
"""

import functools
import inspect
import logging
from collections.abc import Callable, Iterator
from typing import Any, TypeVar, cast

from rloo_verify.errors import ParallelError, RlooVerifyError
from rloo_verify.interrupt import StopRequest
from rloo_verify.parallel import World

log = logging.getLogger(__name__)

Method = TypeVar("Method", bound=Callable[..., Any])


def collective(method: Method) -> Method:
    """A method of an object with a `world` that all ranks run: rank 0 calls it, the others follow.

    Arguments go by place and are sent to the other ranks. A generator method is run to its end on all ranks, also where
    rank 0 stops early. Such methods do not call each other.
    """

    @functools.wraps(method)
    def call(*arguments: Any) -> Any:
        world: World = arguments[0].world
        if world.size == 1:
            return method(*arguments)
        if world.leads:
            world.announce((method.__name__, arguments[1:]))
        with world.occupied():
            return method(*arguments)

    @functools.wraps(method)
    def iterate(*arguments: Any) -> Iterator[Any]:
        world: World = arguments[0].world
        values = method(*arguments)
        if world.size == 1:
            yield from values
            return
        if world.leads:
            world.announce((method.__name__, arguments[1:]))
        with world.occupied():
            for value in values:
                try:
                    yield value
                except GeneratorExit:  # the other ranks go on to the end, and need this one for it
                    for _ in values:
                        pass

    return cast(Method, iterate if inspect.isgeneratorfunction(method) else call)


def follow(world: World, build: Callable[[], Any]) -> None:
    """What the other ranks do: build the learner together with rank 0, then make every call that it announces.

    The first signal (Ctrl-C, SIGTERM) is left to rank 0, which finishes its step and then sends everybody home.

    Args:
        world: Of several processes; this one does not lead.
        build: Builds the learner with `World.together`.

    Raises:
        RlooVerifyError: where all ranks fail together, this one failed, or another process was lost.
    """
    learner = None
    try:
        with StopRequest():
            while (call := world.hear()) is not None:
                name, arguments = call
                if learner is None:
                    learner = build()
                    continue
                result = getattr(learner, name)(*arguments)
                for _ in result if isinstance(result, Iterator) else ():
                    pass
    except RlooVerifyError:
        raise
    except Exception as error:
        message = f"process {world.rank} failed: {type(error).__name__}: {error}"
        log.log(logging.ERROR, "error: %s", message)  # rank 0 cannot tell, it only sees that this process is gone
        raise ParallelError(message) from error
