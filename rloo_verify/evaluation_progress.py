"""What people see while an evaluation goes on: a live bar on a terminal, a plain line now and then otherwise."""

import time
from collections.abc import Iterable

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from rloo_verify.progress import duration
from rloo_verify.samples import Sample
from rloo_verify.types import Outcome

PLAIN_SECONDS = 30.0
"""Between two lines of a log."""


class EvaluationProgress:
    """Counts samples as they come, with the pass rate so far and the time left. A context manager."""

    def __init__(self, console: Console, total: int, earlier: Iterable[Sample]) -> None:
        """Begins at what an earlier command has done.

        Args:
            console: Where to write.
            total: Samples of the whole evaluation.
            earlier: The samples that are there already.
        """
        self._console, self._total = console, total
        self._passed = self._failed = self._errors = 0
        for sample in earlier:
            self._count(sample)
        self._started, self._begun = time.monotonic(), self._done
        self._told = self._started
        self._bar = Progress(
            TextColumn("evaluating"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task(self._text(), total=total, completed=self._done)

    def __enter__(self) -> "EvaluationProgress":
        if self._begun and self._begun < self._total:
            self._console.print(f"resuming after {self._begun} of {self._total} samples", highlight=False)
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()

    def show(self, sample: Sample) -> None:
        """Counts one more sample."""
        self._count(sample)
        self._bar.update(self._task, completed=self._done, description=self._text())
        now = time.monotonic()
        if not self._console.is_terminal and now - self._told >= PLAIN_SECONDS:
            self._told = now
            left = (now - self._started) / (self._done - self._begun) * (self._total - self._done)
            line = f"{self._done}/{self._total} samples  {self._text()}  left {duration(left)}"
            self._console.print(line, highlight=False)

    @property
    def _done(self) -> int:
        return self._passed + self._failed + self._errors

    def _count(self, sample: Sample) -> None:
        self._passed += sample.outcome is Outcome.PASS
        self._failed += sample.outcome is Outcome.FAIL
        self._errors += sample.outcome is Outcome.ERROR

    def _text(self) -> str:
        judged = self._passed + self._failed
        rate = f"pass@1 {self._passed / judged:.3f} so far" if judged else "pass@1 n/a"
        return f"{rate}, {self._errors} errors" if self._errors else rate
