"""The tests of one answer on their way through a sandbox: which are to come, which were sent and wait for a result."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from rloo_verify.sandbox.box import Job, RunResult


class Batch:
    """Jobs in their order, until a result ends them. Survives the sandbox that runs them.

    Args:
        jobs: The jobs; each is asked for once, and only when it is needed.
        go_on: Called with each result in the order of the jobs; False ends the batch.

    Attributes:
        ended: Whether `go_on` said no.
    """

    def __init__(self, jobs: Iterable[Job], go_on: Callable[[RunResult], bool]) -> None:
        self.ended = False
        self._jobs = iter(jobs)
        self._go_on = go_on
        self._unjudged: deque[Job] = deque()

    def issue(self) -> Iterator[Job]:
        """The jobs without a result: those that a sandbox broke on, then new ones."""
        yield from tuple(self._unjudged)
        for job in self._jobs:
            self._unjudged.append(job)
            yield job

    def judge(self, result: RunResult) -> bool:
        """Takes the result of the first job without one; returns whether the batch goes on."""
        self._unjudged.popleft()
        self.ended = not self._go_on(result)
        return not self.ended
