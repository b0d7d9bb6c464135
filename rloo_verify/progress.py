"""What people see while a run goes on: a live table on a terminal, one plain line a step otherwise."""

import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bar
from rich.table import Table

from rloo_verify.config import Config

RECENT_STEPS = 12
COLUMNS = (
    "step",
    "reward",
    "mixed",
    "all_pass",
    "all_fail",
    "unjudged",
    "length",
    "truncated",
    "gap",
    "tok/s",
    "phases",
    "left",
)


class Progress:
    """Shows steps and evaluations. A context manager, so that the terminal is left in order whatever happens."""

    def __init__(self, console: Console | None = None) -> None:
        """Writes to `console`, by default standard output; live only on a terminal."""
        self.console = console or Console(file=sys.stdout, soft_wrap=True)
        self._rows: deque[Mapping[str, Any]] = deque(maxlen=RECENT_STEPS)
        self._evaluations: list[tuple[int, Mapping[str, Any]]] = []
        self._live: Live | None = None
        self._total = self._done = 0
        self._step_seconds: deque[float] = deque(maxlen=20)
        self._bar = Bar(TextColumn("steps"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        self._task = self._bar.add_task("steps")
        self._last = time.monotonic()

    def __enter__(self) -> "Progress":
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def start(self, config: Config, earlier: Sequence[Mapping[str, Any]], done: int) -> None:
        """Begins the display of a run that has `done` steps behind it."""
        self._total, self._done = config.run.steps, done
        self._rows.extend(earlier)
        self._bar.update(self._task, total=self._total, completed=done)
        if done:
            self.console.print(f"resuming {config.run.out}/{config.run.name} after step {done} of {self._total}")
        if self.console.is_terminal:
            self._live = Live(self._render(), console=self.console, refresh_per_second=4)
            self._live.start()
        self._last = time.monotonic()

    def step(self, row: Mapping[str, Any]) -> None:
        """Shows one finished step, a row of metrics.jsonl."""
        now = time.monotonic()
        self._step_seconds.append(now - self._last)
        self._last, self._done = now, row["step"]
        self._rows.append(row)
        self._bar.update(self._task, completed=self._done)
        if self._live is None:
            self.console.print(plain_line(row, self._total, self.seconds_left), highlight=False)
        else:
            self._live.update(self._render())

    def finished(self, folder: Path, steps: int) -> None:
        """Says that a run has nothing left to do."""
        self.console.print(f"{folder} is finished after {steps} steps; raise --run.steps to go on, or start --fresh")

    def evaluation(self, step: int, result: Mapping[str, Any]) -> None:
        """Shows one finished evaluation."""
        self._evaluations.append((step, result))
        line = f"eval at step {step}: {evaluation_line(result)}"
        if self._live is None:
            self.console.print(line, highlight=False)
        else:
            self._live.update(self._render())
        self._last = time.monotonic()

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the last step, from the median of the recent ones."""
        if not self._step_seconds:
            return None
        return sorted(self._step_seconds)[len(self._step_seconds) // 2] * (self._total - self._done)

    def _render(self) -> Group:
        table = Table(box=None, pad_edge=False, header_style="bold")
        for name in COLUMNS:
            table.add_column(name, justify="left" if name == "phases" else "right", no_wrap=True)
        for row in self._rows:
            left = self.seconds_left if row is self._rows[-1] else None
            table.add_row(*_cells(row, left))
        evaluations = [f"eval at step {step}: {evaluation_line(result)}" for step, result in self._evaluations[-4:]]
        return Group(*evaluations, table, self._bar)


def evaluation_line(result: Mapping[str, Any]) -> str:
    """One line for an evaluation: rates and their 95% intervals first, then the counts that they rest on."""
    rates = "  ".join(
        f"{name} {rate_text(value, result['intervals'][name])}" for name, value in result.items() if "@" in name
    )
    counts = f"{result['judged']} judged, {result['errors']} errors, {result['truncated']} truncated"
    length = _number(result["mean_tokens"], ".1f")
    return f"{rates}  ({result['problems']} problems, {counts}, {length} tokens on average)"


def rate_text(rate: float | None, interval: Sequence[float] | None) -> str:
    """A rate with its interval, `0.412 [0.361, 0.463]`, or `n/a`."""
    if rate is None:
        return "n/a"
    return f"{rate:.3f}" if interval is None else f"{rate:.3f} [{interval[0]:.3f}, {interval[1]:.3f}]"


def plain_line(row: Mapping[str, Any], total: int, seconds_left: float | None) -> str:
    """One step as one line of text."""
    cells = dict(zip(COLUMNS, _cells(row, seconds_left), strict=True))
    parts = [f"{name} {cells[name]}" for name in COLUMNS[1:] if cells[name]]
    return f"step {row['step']}/{total}  " + "  ".join(parts)


def _cells(row: Mapping[str, Any], seconds_left: float | None) -> list[str]:
    phases = [f"{name} {value:.1f}s" for name, value in row["seconds"].items() if name != "total"]
    return [
        str(row["step"]),
        _number(row["reward"], ".3f"),
        f"{row['frac_mixed']:.0%}",
        f"{row['frac_all_pass']:.0%}",
        f"{row['frac_all_fail']:.0%}",
        f"{row['frac_unjudged']:.0%}",
        f"{row['length_mean']:.1f}",
        f"{row['truncated_share']:.0%}",
        _number(row["logprob_gap_mean"], ".1e"),
        _number(row["tokens_per_second"], ".0f"),
        " ".join(phases),
        "" if seconds_left is None else duration(seconds_left),
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


def duration(seconds: float) -> str:
    """Seconds for people: `42s`, `3m10s`, `2h05m`."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    return f"{whole // 3600}h{whole % 3600 // 60:02d}m"
