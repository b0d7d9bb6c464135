"""Ctrl-C and SIGTERM: the first asks the run to finish its step and save, the second ends it at once."""

import signal
from types import FrameType


class StopRequest:
    """Use as a context manager around a run, in the main thread; `requested` turns True at the first signal."""

    def __init__(self) -> None:
        self.requested = False

    def __enter__(self) -> "StopRequest":
        self._before = {one: signal.signal(one, self._handle) for one in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        for one, handler in self._before.items():
            signal.signal(one, handler)

    def _handle(self, number: int, frame: FrameType | None) -> None:  # noqa: ARG002 (the signature is Python's)
        if self.requested:
            raise KeyboardInterrupt
        self.requested = True
