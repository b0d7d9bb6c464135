"""The command `rloo-verify view`: the report of a run, an evaluation or a comparison."""

import sys
from pathlib import Path
from typing import Annotated

import typer


def view(
    folder: Annotated[Path, typer.Argument(help="A run folder, an evaluation folder, or the folder of a comparison.")],
    watch: Annotated[
        bool, typer.Option("--watch", help="Write live.html again and again while the run goes on; Ctrl-C ends it.")
    ] = False,
    every: Annotated[int, typer.Option(min=1, help="Seconds between two writes of --watch.")] = 5,
) -> None:
    """Write the report of a folder as one HTML file, and open it."""
    from rloo_verify.report.watch import subject_of
    from rloo_verify.report.watch import watch as follow

    subject = subject_of(folder)
    if watch:
        print(f"{follow(subject, every, _open)}: {folder}")
    else:
        _open(subject.write())


def _open(path: Path) -> None:
    print(path, flush=True)
    if sys.stdout.isatty():
        typer.launch(str(path))
