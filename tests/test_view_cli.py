"""`rloo-verify view`: which report belongs to a folder, and how a watch ends."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from groups import judged_group
from report_folders import page_at, write_comparison, write_evaluation, write_run, write_steps

from rloo_verify.report import watch as watching
from rloo_verify.report import write_comparison_report

Command = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    folder = write_run(tmp_path / "run")
    write_steps(folder, [[judged_group("a", "pf")]] * 3)
    return folder


def test_view_writes_the_report_that_belongs_to_the_folder(run: Path, tmp_path: Path, command: Command) -> None:
    a = write_evaluation(tmp_path / "a", [judged_group("x", "pf")])
    b = write_evaluation(tmp_path / "b", [judged_group("x", "pp")])
    comparison = write_comparison(tmp_path / "c", a, b)
    assert command("view", run) == (0, f"{run}/report.html\n", "")
    assert "3 steps" in page_at(run / "report.html").text
    assert command("view", a) == (0, f"{a}/report.html\n", "")
    assert "model-1b" in page_at(a / "report.html").text
    code, _, err = command("view", comparison)
    assert (code, err) == (
        2,
        f"error: {comparison}/report.html is missing; run rloo-verify compare A B --out {comparison} again\n",
    )
    write_comparison_report(comparison, a, b)
    assert command("view", comparison) == (0, f"{comparison}/report.html\n", "")


def test_what_is_no_folder_of_ours_is_one_sentence(tmp_path: Path, command: Command) -> None:
    code, _, err = command("view", tmp_path)
    assert code == 2
    kinds = "no run folder (config.toml), no evaluation (samples.jsonl) and no comparison (compare.json)"
    assert err == f"error: {tmp_path} is {kinds}\n"


def test_a_comparison_cannot_be_watched(tmp_path: Path, command: Command) -> None:
    a = write_evaluation(tmp_path / "a", [judged_group("x", "pf")])
    code, _, err = command("view", write_comparison(tmp_path / "c", a, a), "--watch")
    assert code == 2
    assert err.endswith("is a comparison, which does not change; leave --watch out\n")


def test_a_watch_ends_with_the_run_and_leaves_a_page_at_rest(run: Path, command: Command) -> None:
    (run / "summary.json").write_text(json.dumps({"steps": 3}))
    assert command("view", run, "--watch") == (0, f"{run}/live.html\nfinished: {run}\n", "")
    page = page_at(run / "live.html")
    assert page.data["watch"] == 0
    assert "loads itself again" not in page.text


def test_a_watch_of_an_evaluation_ends_with_its_summary(tmp_path: Path, command: Command) -> None:
    folder = write_evaluation(tmp_path / "e", [judged_group("x", "pf")])
    assert command("view", folder, "--watch") == (0, f"{folder}/live.html\nfinished: {folder}\n", "")


def test_a_watch_of_something_that_died_ends_after_an_hour(
    run: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0.0]
    monkeypatch.setattr(watching.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(watching.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds))
    code, out, _ = command("view", run, "--watch", "--every", "60")
    assert (code, out.splitlines()[-1]) == (0, f"nothing has changed for 60 minutes: {run}")
    assert 3600 < clock[0] <= 3660


def test_a_watched_page_is_written_again_only_when_something_changed_or_it_would_look_abandoned(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, written = [0.0], []
    monkeypatch.setattr(watching.time, "monotonic", lambda: clock[0])

    def sleep(seconds: float) -> None:
        clock[0] += seconds
        if clock[0] == 60:
            (run / "summary.json").write_text("{}")
        if clock[0] == 1000:
            (run / "summary.json").write_text(json.dumps({"steps": 3}))

    monkeypatch.setattr(watching.time, "sleep", sleep)
    subject = watching.subject_of(run)
    monkeypatch.setattr(watching, "write_atomically", lambda *_: written.append(clock[0]))
    assert watching.watch(subject, 10, lambda _: None) == "finished"
    assert written == [
        0,
        60,
        360,
        660,
        960,
        1000,
        1000,
    ]  # at first, changed, three times after 300 s, changed, at the end
