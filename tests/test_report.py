"""report.html: one file that opens from disk and shows hostile text as text."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from groups import judged_group
from tiny import character_tokenizer

from rloo_verify.metrics import step_metrics
from rloo_verify.records import group_records
from rloo_verify.report import write_report
from rloo_verify.runlog import RunReader
from rloo_verify.types import Group, Problem
from rloo_verify.update import Gap, Update

HOSTILE = "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>\"'&{{ 7 * 7 }}</pre></svg>"


class Page(HTMLParser):
    """Collects tags, attributes and text of a page, and refuses tags that do not nest."""

    VOID = ("meta", "link", "img", "br", "hr", "input", "path", "use", "rect")

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        if tag not in self.VOID:
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def write_steps(folder: Path, groups: list[Group], *, steps: int = 3) -> None:
    """A run folder with some steps, as the trainer would write it."""
    (folder / "rollouts").mkdir()
    update = Update(updated=True, grad_norm=1.0, lr=1e-3, completions=4, tokens=12, gap=Gap(1e-7, 1e-6))
    rows = [step_metrics(step, groups, update, {"sample": 1.0, "learn": 0.5}) for step in range(1, steps + 1)]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for step in range(1, steps + 1):
        lines = group_records(groups, character_tokenizer(), step=step)
        (folder / "rollouts" / f"step-{step:06d}.jsonl").write_text("".join(f"{line}\n" for line in lines))


def write_evaluations(folder: Path, **rates: list[float | None]) -> None:
    (folder / "eval").mkdir()
    for step in range(len(next(iter(rates.values())))):
        values = {f"pass@{key.removeprefix('at_')}": value[step] for key, value in rates.items()}
        content = {"step": step, **values, "seconds": 1.0}
        (folder / "eval" / f"step-{step:06d}.json").write_text(json.dumps(content))


@pytest.fixture
def run(tmp_path: Path) -> Path:
    (tmp_path / "config.toml").write_text(f"# {HOSTILE}\n")
    return tmp_path


def page_of(run: Path) -> Page:
    path = write_report(RunReader(run))
    assert path == run / "report.html"
    return Page(path.read_text(encoding="utf-8"))


def test_a_report_shows_curves_rates_and_the_groups_of_the_last_step(run: Path) -> None:
    write_steps(run, [judged_group("gsm8k/train/1", "ppff"), judged_group("gsm8k/train/2", "ff")])
    write_evaluations(run, at_1=[0.25, 0.5, 0.75])
    page = page_of(run)
    assert page.tags.count("svg") == 6
    for part in ("0.250 → 0.750", "gsm8k/train/1 · mixed · 2 of 4 pass", "gsm8k/train/2 · all_fail · 0 of 2 pass"):
        assert part in page.text
    assert "advantage +0.667" in page.text  # of ppff: 1 - (1 + 0 + 0) / 3
    assert {"pass", "fail"} <= {word for name, value in page.attributes if name == "class" for word in value.split()}


def test_nothing_in_it_is_fetched_from_anywhere(run: Path) -> None:
    write_steps(run, [judged_group("a", "pf")])
    write_evaluations(run, at_1=[0.25, 0.5])
    page = page_of(run)
    for name, value in page.attributes:
        if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
            assert value.startswith("#"), (name, value)
    assert not {"script", "link", "iframe", "object", "embed", "img", "base"} & set(page.tags)
    html = (run / "report.html").read_text()
    for url in re.findall(r"url\(([^)]*)\)", html):
        assert url.startswith("#")
    assert "@import" not in html


def test_hostile_answers_problems_and_configs_stay_text(run: Path) -> None:
    group = judged_group(HOSTILE, "pfe", text=HOSTILE)
    problem = Problem(HOSTILE, HOSTILE, (), HOSTILE, HOSTILE, {}, (5,))
    write_steps(run, [Group(problem, group.completions_G, group.verdicts_G)])
    page = page_of(run)
    assert not {"script", "img"} & set(page.tags)
    assert not [name for name, _ in page.attributes if name.startswith("on")]
    assert page.text.count(HOSTILE) >= 5  # id, reference, three answers, config
    assert "49" not in page.text.replace(HOSTILE, "")


def test_a_run_that_did_nothing_yet_has_a_report(run: Path) -> None:
    page = page_of(run)
    assert page.tags.count("svg") == 0
    assert "0 steps, 0 updates, 0 s" in page.text


def test_a_run_without_evaluations_has_a_report(run: Path) -> None:
    write_steps(run, [judged_group("a", "pf")], steps=1)
    page = page_of(run)
    assert page.tags.count("svg") == 6
    assert "held-out" not in page.text.partition("Curves")[0]


def test_a_run_of_which_only_the_first_evaluation_is_done_has_a_report(run: Path) -> None:
    write_evaluations(run, at_1=[0.25])
    assert "0.250 → 0.250" in page_of(run).text


def test_what_could_not_be_judged_is_not_available_and_not_zero(run: Path) -> None:
    write_steps(run, [judged_group("a", "ee")])
    write_evaluations(run, at_1=[None, None], at_2=[0.5, None])
    page = page_of(run)
    assert "n/a → n/a" in page.text
    assert "0.500 → n/a" in page.text


def test_it_is_the_same_file_every_time(run: Path) -> None:
    write_steps(run, [judged_group("a", "pf")])
    first = write_report(RunReader(run)).read_text()
    assert write_report(RunReader(run)).read_text() == first
