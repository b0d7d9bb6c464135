"""A page that is written again while a run or an evaluation goes on."""

import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rloo_verify.errors import RunError
from rloo_verify.evaluation_folder import SAMPLES, SUMMARY
from rloo_verify.report.comparison import COMPARISON
from rloo_verify.report.evaluation import evaluation_page, write_evaluation_report
from rloo_verify.report.training import planned_steps, training_page, write_report
from rloo_verify.runlog import RunReader
from rloo_verify.storage import write_atomically

LIVE = "live.html"
"""The watched page. Not report.html: that is written by the process that is being watched."""
IDLE_SECONDS = 3600
"""A watch ends when nothing has changed for so long."""
REFRESH_SECONDS = 300
"""The page is written at least this often, so that it knows that it is still being watched."""
EFFORT = 10
"""Seconds of waiting for each second of writing: a watch leaves the cores to what it watches."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What a report is about.

    Attributes:
        folder: Its folder.
        write: Writes its report.html and returns the path.
        page: Its HTML; the argument is the seconds after which the page loads itself again (0: never). None where
            nothing changes any more.
        finished: Whether nothing more is going to happen.
    """

    folder: Path
    write: Callable[[], Path]
    page: Callable[[int], str] | None
    finished: Callable[[], bool]


def subject_of(folder: Path) -> Subject:
    """What a folder holds: a training run, an evaluation, or a comparison.

    Raises:
        RunError: if it is none of them.
    """
    if (folder / COMPARISON).is_file():
        return Subject(folder, lambda: _written(folder), None, lambda: True)
    if (folder / SAMPLES).is_file():
        return Subject(
            folder,
            lambda: write_evaluation_report(folder),
            lambda seconds: evaluation_page(folder, watch=seconds),
            lambda: (folder / SUMMARY).is_file(),
        )
    if (folder / "config.toml").is_file():
        run = RunReader(folder)
        return Subject(
            folder,
            lambda: write_report(run),
            lambda seconds: training_page(run, watch=seconds),
            lambda: _run_finished(folder),
        )
    raise RunError(
        f"{folder} is no run folder (config.toml), no evaluation ({SAMPLES}) and no comparison ({COMPARISON})"
    )


def watch(subject: Subject, every: int, opened: Callable[[Path], None]) -> str:
    """Writes `live.html` whenever something changed, until the subject is finished, Ctrl-C, or `IDLE_SECONDS` of rest.

    The last thing written is a page that does not load itself any more.

    Args:
        subject: What to watch.
        every: The least seconds between two writes, and those after which the page loads itself again.
        opened: Called with the page's path once it is there.

    Returns:
        Why the watch ended, for people.

    Raises:
        RunError: if there is nothing to watch.
        StorageError: if the page cannot be written.
    """
    if subject.page is None:
        raise RunError(f"{subject.folder} is a comparison, which does not change; leave --watch out")
    path, why = subject.folder / LIVE, "stopped"
    try:
        write_atomically(path, subject.page(every))
        opened(path)
        why = _follow(subject, path, every)
    except KeyboardInterrupt:
        pass
    write_atomically(path, subject.page(0))
    return why


def _follow(subject: Subject, path: Path, every: int) -> str:
    assert subject.page is not None
    state, changed, written, pause = _state(subject.folder), time.monotonic(), time.monotonic(), float(every)
    while not subject.finished():
        time.sleep(every)
        if time.monotonic() - written < pause:  # the end is noticed at once all the same
            continue
        now = _state(subject.folder)
        if now == state:
            if time.monotonic() - changed > IDLE_SECONDS:
                return f"nothing has changed for {IDLE_SECONDS // 60} minutes"
            if time.monotonic() - written < REFRESH_SECONDS:
                continue
        else:
            state, changed = now, time.monotonic()
        started = time.monotonic()
        write_atomically(path, subject.page(every))
        written = time.monotonic()
        pause = max(float(every), EFFORT * (written - started))
    return "finished"


def _state(folder: Path) -> list[tuple[str, int, int]]:
    """What tells whether something was written since."""

    def states() -> Iterator[tuple[str, int, int]]:
        for name in ("metrics.jsonl", "eval", "rollouts", "summary.json", SAMPLES):
            if (folder / name).exists():
                state = (folder / name).stat()
                yield name, state.st_mtime_ns, state.st_size

    return list(states())


def _run_finished(folder: Path) -> bool:
    """Whether the summary is that of all steps; it is written last of all, and goes when a run is resumed."""
    try:
        summary: dict[str, Any] = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
        config = (folder / "config.toml").read_text(encoding="utf-8", errors="replace")
    except (OSError, ValueError):
        return False
    return summary.get("steps") == planned_steps(config)


def _written(folder: Path) -> Path:
    """The report of a comparison, which was written when it was made: its evaluations may be gone by now."""
    path = folder / "report.html"
    if not path.is_file():
        raise RunError(f"{path} is missing; run rloo-verify compare A B --out {folder} again")
    return path
