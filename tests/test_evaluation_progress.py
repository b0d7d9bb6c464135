"""What people see while an evaluation goes on."""

import io

import pytest
from rich.console import Console

from rloo_verify import evaluation_progress
from rloo_verify.evaluation_progress import EvaluationProgress
from rloo_verify.samples import Sample
from rloo_verify.types import Outcome


def samples(letters: str) -> list[Sample]:
    outcomes = {"p": Outcome.PASS, "f": Outcome.FAIL, "e": Outcome.ERROR}
    return [Sample(problem=str(i), task="t", outcome=outcomes[letter]) for i, letter in enumerate(letters)]


def test_a_log_gets_a_line_now_and_then_with_the_time_left(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr(evaluation_progress.time, "monotonic", lambda: now[0])
    screen = io.StringIO()
    with EvaluationProgress(Console(file=screen, width=200), 10, samples("pf")) as progress:
        for sample in samples("pfepp"):
            now[0] += 20  # seconds a sample
            progress.show(sample)
    # lines after 40 and 80 s, when two and four more are done; of ten, six and four are left, 20 s each
    assert screen.getvalue().splitlines() == [
        "resuming after 2 of 10 samples",
        "4/10 samples  pass@1 0.500 so far  left 2m00s",
        "6/10 samples  pass@1 0.600 so far, 1 errors  left 1m20s",
    ]


def test_a_terminal_gets_a_bar_that_leaves_nothing_behind() -> None:
    screen = io.StringIO()
    console = Console(file=screen, width=200, force_terminal=True)
    with EvaluationProgress(console, 3, []) as progress:
        for sample in samples("ppf"):
            progress.show(sample)
    assert "3/3" in screen.getvalue()
    assert "pass@1 0.667 so far" in screen.getvalue()
    assert screen.getvalue().count("\x1b[?25l") == screen.getvalue().count("\x1b[?25h") == 1  # the cursor is back


def test_before_anything_is_judged_there_is_no_rate() -> None:
    screen = io.StringIO()
    with EvaluationProgress(Console(file=screen, width=200, force_terminal=True), 3, []) as progress:
        progress.show(samples("e")[0])
    assert "pass@1 n/a, 1 errors" in screen.getvalue()
