"""What people see: a table on a terminal, plain lines in a log."""

import io
from pathlib import Path

import pytest
from groups import judged_group
from rich.console import Console
from test_runlog import config

from rloo_verify.metrics import step_metrics
from rloo_verify.progress import Progress, duration, evaluation_line, plain_line
from rloo_verify.update import Gap, Update

UPDATE = Update(updated=True, grad_norm=1.0, lr=1e-3, gap=Gap(2e-7, 1e-6))
ROW = step_metrics(
    3, [judged_group("a", "ppff", cut="x"), judged_group("b", "fe")], UPDATE, {"sample": 2.0, "learn": 1}
)
RESULT = {
    "pass@1": 0.5, "pass@4": None, "intervals": {"pass@1": (0.25, 0.7501), "pass@4": None},
    "problems": 7, "judged": 12, "errors": 1, "truncated": 2, "mean_tokens": 3.25,
}  # fmt: skip


def test_a_step_is_one_plain_line_with_every_number() -> None:
    line = plain_line(ROW, 10, 75.0)
    # judged: 2 of 4 and 0 of 1 pass; one group of two is mixed, one has a single judged answer; one of six is cut
    for part in ("step 3/10", "reward 0.400", "mixed 50%", "all_pass 0%", "all_fail 0%", "unjudged 50%", "length 3.0"):
        assert part in line
    for part in ("truncated 17%", "2.0e-07", "tok/s 6", "sample 2.0s learn 1.0s", "left 1m15s"):
        assert part in line  # 18 tokens in 3 seconds


def test_what_is_not_known_is_a_dash() -> None:
    line = plain_line(step_metrics(1, [judged_group("a", "ee")], Update(updated=False), {}), 2, None)
    assert "reward -" in line
    assert "left" not in line


def test_an_evaluation_is_one_line_with_its_counts() -> None:
    assert evaluation_line(RESULT) == (
        "pass@1 0.500 [0.250, 0.750]  pass@4 n/a  (7 problems, 12 judged, 1 errors, 2 truncated, 3.2 tokens on average)"
    )


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.4, "0s"), (59.4, "59s"), (59.6, "1m00s"), (190, "3m10s"), (3599.6, "1h00m"), (7500, "2h05m")],
)
def test_durations_are_for_people(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def shown(tmp_path: Path, *, terminal: bool) -> str:
    screen = io.StringIO()
    with Progress(Console(file=screen, force_terminal=terminal, width=200, color_system=None)) as progress:
        progress.start(config(tmp_path), [], 0)
        progress.evaluation(0, RESULT)
        for step in (1, 2):
            progress.step({**ROW, "step": step})
    return screen.getvalue()


def test_in_a_log_every_step_and_evaluation_is_a_line(tmp_path: Path) -> None:
    lines = shown(tmp_path, terminal=False).splitlines()
    assert [line.split("  ")[0] for line in lines] == [
        "eval at step 0: pass@1 0.500 [0.250, 0.750]",
        "step 1/4",
        "step 2/4",
    ]


def test_on_a_terminal_a_table_is_left_behind(tmp_path: Path) -> None:
    text = shown(tmp_path, terminal=True)
    last = text[text.rindex("eval at step 0") :]
    assert last.count("0.400") == 2
    assert "2/4" in last  # the bar


def test_a_terminal_is_left_in_order_when_the_run_fails(tmp_path: Path) -> None:
    screen = io.StringIO()
    progress = Progress(Console(file=screen, force_terminal=True, width=200))
    with pytest.raises(ZeroDivisionError), progress:  # noqa: PT012
        progress.start(config(tmp_path), [], 0)
        1 / 0  # noqa: B018
    assert screen.getvalue().count("\x1b[?25l") == screen.getvalue().count("\x1b[?25h") == 1  # the cursor is back


def test_resuming_shows_where_it_goes_on_and_the_steps_before(tmp_path: Path) -> None:
    screen = io.StringIO()
    with Progress(Console(file=screen, force_terminal=True, width=200, color_system=None)) as progress:
        progress.start(config(tmp_path), [{**ROW, "step": 1}, {**ROW, "step": 2}], 2)
    assert "after step 2 of 4" in screen.getvalue()
    assert screen.getvalue().count("0.400") >= 2
