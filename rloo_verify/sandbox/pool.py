"""A pool of warm sandboxes: replacements are started ahead, in the background, so nobody waits for one."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator

from rloo_verify.sandbox.box import Box, BoxError

_RETRY_SECONDS = 0.5


class Pool:
    """Keeps `size` sandboxes ready or in use.

    Args:
        start: Starts one; may raise BoxError.
        size: How many; at least 1.
        runs_per_box: A sandbox is replaced after so many runs.
        seconds_per_box: A sandbox is replaced at this age.
        patience_seconds: How long `borrow` waits while none can be started.
    """

    def __init__(
        self,
        start: Callable[[], Box],
        size: int,
        *,
        runs_per_box: int,
        seconds_per_box: float,
        patience_seconds: float = 60.0,
    ) -> None:
        self._start = start
        self._size = size
        self._runs = runs_per_box
        self._seconds = seconds_per_box
        self._patience = patience_seconds
        self._condition = threading.Condition()
        self._ready: list[Box] = []
        self._owned = 0  # ready or in use
        self._closed = False
        self._reason = ""
        self._filler = threading.Thread(target=self._fill, daemon=True, name="sandbox-filler")
        self._filler.start()

    @contextlib.contextmanager
    def borrow(self) -> Iterator[Box]:
        """A sandbox for one run. Whatever goes wrong inside the block costs the sandbox.

        Raises:
            BoxError: None could be started for `patience_seconds`.
        """
        box = self._take()
        sound = False
        try:
            yield box
            sound = box.anomaly is None
        finally:
            old = box.runs >= self._runs or time.monotonic() - box.born > self._seconds
            with self._condition:
                keep = sound and not old and not self._closed
                if keep:
                    self._ready.append(box)
                else:
                    self._owned -= 1
                self._condition.notify_all()
            if not keep:
                box.close()

    def close(self) -> None:
        """Ends every sandbox. Those in use end when their block does."""
        with self._condition:
            self._closed = True
            ready, self._ready = self._ready, []
            self._owned -= len(ready)
            self._condition.notify_all()
        for box in ready:
            box.close()
        self._filler.join()

    def _take(self) -> Box:
        deadline = time.monotonic() + self._patience
        with self._condition:
            while not self._ready:
                if self._closed:
                    raise BoxError("the sandbox is closed")
                waiting_for_others = self._owned >= self._size and not self._reason
                left = deadline - time.monotonic()
                if left <= 0 and not waiting_for_others:
                    raise BoxError(self._reason or "no sandbox became ready")
                self._condition.wait(max(0.05, min(left, 1.0)))
            return self._ready.pop()

    def _fill(self) -> None:
        while True:
            with self._condition:
                while self._owned >= self._size and not self._closed:
                    self._condition.wait()
                if self._closed:
                    return
                self._owned += 1
            try:
                box = self._start()
            except Exception as error:  # noqa: BLE001 - whatever it is, `borrow` reports it
                with self._condition:
                    self._owned -= 1
                    self._reason = str(error) or type(error).__name__
                    self._condition.notify_all()
                time.sleep(_RETRY_SECONDS)
                continue
            with self._condition:
                self._reason = ""
                closed = self._closed
                if not closed:
                    self._ready.append(box)
                self._condition.notify_all()
            if closed:
                box.close()
                return
