"""The reports in headless Chromium: nothing goes wrong or out, filters work, in light and dark, on a phone."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browser import Tab, open_chromium
from groups import judged_group
from playwright.sync_api import expect
from report_folders import (
    HOSTILE,
    write_comparison,
    write_evaluation,
    write_evaluations,
    write_long_run,
    write_run,
    write_steps,
)

from rloo_verify.agreement import agreement
from rloo_verify.report import write_comparison_report, write_evaluation_report, write_report
from rloo_verify.runlog import RunReader
from rloo_verify.samples import group_samples
from rloo_verify.types import Group, Outcome, Problem

pytestmark = pytest.mark.browser

DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 360, "height": 740}
LONG = "unbroken" * 400
NewTab = Callable[..., Tab]


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with open_chromium() as browser:
        yield browser


@pytest.fixture
def new_tab(chromium: Any) -> Iterator[NewTab]:
    """Opens a tab: `new_tab(viewport=..., color_scheme=...)`."""
    contexts = []

    def make(**settings: Any) -> Tab:
        contexts.append(chromium.new_context(**{"viewport": DESKTOP, **settings}))
        return Tab(contexts[-1])

    yield make
    for context in contexts:
        context.close()


def hostile_group(name: str, outcomes: str) -> Group:
    group = judged_group(name, outcomes, text=HOSTILE + LONG)
    problem = Problem(name, HOSTILE, (), HOSTILE, HOSTILE, {}, (5,))
    return Group(problem, group.completions_G, group.verdicts_G)


@pytest.fixture(scope="module")
def training(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of four steps."""
    run = write_run(tmp_path_factory.mktemp("reports") / "run", "[run]\nsteps = 4\n# " + HOSTILE[:-1])
    steps = [
        [
            judged_group("first/train/1", "ppff", text=f"at step {step}"),
            judged_group("hard/train/2", "ffff", cut="x"),
            judged_group("easy/train/3", "pppp"),
            judged_group("broken/train/4", "eeee"),
            hostile_group(HOSTILE + LONG, "pf"),
        ]
        for step in range(1, 5)
    ]
    write_steps(run, steps)
    write_evaluations(run, at_1=[0.25, 0.5, 0.75, 0.7, 0.8])
    return write_report(RunReader(run))


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation of four problems."""
    groups = [
        judged_group("tiny/test/1", "ppff"),
        judged_group("tiny/test/2", "pppp"),
        judged_group("tiny/test/3", "eppe"),
    ]
    folder = tmp_path_factory.mktemp("reports") / "evaluation"
    return write_evaluation_report(write_evaluation(folder, [*groups, hostile_group(LONG, "pfff")], (1, 2)))


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A comparison with one problem gained, and two lost."""
    folder = tmp_path_factory.mktemp("reports")
    a = write_evaluation(
        folder / "old", [judged_group("won", "ffff"), hostile_group("lost", "pppf"), hostile_group(LONG, "pf")]
    )
    b = write_evaluation(
        folder / "new", [judged_group("won", "fppp"), hostile_group("lost", "ffff"), hostile_group(LONG, "ff")]
    )
    return write_comparison_report(write_comparison(folder / "comparison", a, b), a, b)


@pytest.fixture(params=["training", "evaluation", "comparison"])
def report(request: pytest.FixtureRequest) -> Path:
    path: Path = request.getfixturevalue(request.param)
    return path


def test_a_report_opens_from_the_disk_without_complaint_and_asks_for_nothing(report: Path, new_tab: NewTab) -> None:
    tab = new_tab().open(report).draw_everything().open_groups()
    assert tab.page.locator(".group .answer").count() > 4
    assert (tab.complaints, tab.requests) == ([], [])


def test_hostile_text_is_shown_as_text_and_does_nothing(report: Path, new_tab: NewTab) -> None:
    tab = new_tab().open(report).open_groups()
    body = tab.page.locator("body").inner_text()
    assert "</script><script>document.title='owned'</script><img src=http://evil.example/x" in body
    assert "\u241b[2J" in body  # the escape character, made visible
    assert "\u27e8U+202E\u27e9" in body  # so is the mark that reorders text
    assert "owned" not in tab.page.title()
    assert tab.page.locator("img, iframe, object, embed").count() == 0
    assert (tab.complaints, tab.requests) == ([], [])


def test_even_a_script_that_got_into_the_page_would_neither_run_nor_fetch(training: Path, new_tab: NewTab) -> None:
    breach = training.with_name("breach.html")
    html = training.read_text(encoding="utf-8")
    breach.write_text(
        html.replace("</main>", "<script>document.title='owned'</script><img src='http://evil.example/x'></main>")
    )
    tab = new_tab().open(breach)
    assert tab.page.title() != "owned"
    assert sum("Content Security Policy" in complaint for complaint in tab.complaints) >= 2
    breach.unlink()


def test_rollouts_are_filtered_by_signal_verdict_step_and_text(training: Path, new_tab: NewTab) -> None:
    tab = new_tab().open(training)
    assert len(tab.shown()) == 20  # 5 groups in each of 4 steps
    assert tab.shown()[0] == "first/train/1"
    tab.choose("label", "all_fail")
    assert tab.shown() == ["hard/train/2"] * 4
    tab.choose("step", "3")
    assert tab.shown() == ["hard/train/2"]
    tab.choose("label", "").choose("outcome", "error")
    assert tab.shown() == ["broken/train/4"]
    tab.choose("outcome", "").choose("step", "").choose("text", "AT STEP 2")
    assert tab.shown() == ["first/train/1"]
    assert "1 of 20 groups" in tab.page.locator("[data-part=found]").inner_text()
    tab.page.locator("[data-part=clear]").click()
    assert len(tab.shown()) == 20


def test_an_opened_group_shows_prompt_verdicts_reasons_and_advantages(training: Path, new_tab: NewTab) -> None:
    tab = new_tab().open(training).choose("text", "first/train/1").choose("step", "4")
    group = tab.page.locator(".group")  # the only one left is open
    text = group.inner_text()
    assert text.count("Prompt") == 1
    for part in (
        "wrong_answer",
        "correct",
        "advantage +0.667",
        "advantage \N{MINUS SIGN}0.667",
        "3 tokens",
        "at step 4",
    ):
        assert part in text
    assert "2 of 4 pass" in text


def test_a_verdict_filter_shows_the_answers_with_it_and_the_others_on_demand(training: Path, new_tab: NewTab) -> None:
    tab = new_tab().open(training).choose("text", "first/train/1").choose("step", "4").choose("outcome", "pass")
    assert tab.page.locator(".answer.pass").count() == 2
    assert tab.page.locator(".answer.fail").count() == 0
    tab.page.get_by_text("show the other 2 of 4 answers").click()
    assert tab.page.locator(".answer.fail").count() == 2


def test_a_problem_of_the_tables_is_found_in_the_rollouts(training: Path, new_tab: NewTab) -> None:
    tab = new_tab().open(training)
    tab.page.get_by_role("button", name="hard/train/2").click()
    assert tab.shown() == ["hard/train/2"] * 4


def test_a_comparison_shows_both_sides_beside_each_other(comparison: Path, new_tab: NewTab) -> None:
    tab = new_tab().open(comparison).choose("label", "gained")
    assert tab.shown() == ["won"]
    left, right = (tab.page.locator(".sides > div").nth(side).bounding_box() for side in (0, 1))
    assert left["y"] == right["y"]
    assert left["x"] + left["width"] <= right["x"]
    assert tab.page.locator(".sides > div").nth(1).locator(".answer.pass").count() == 3


def test_answers_judged_otherwise_than_before_are_found(tmp_path: Path, new_tab: NewTab) -> None:
    groups = [judged_group("same", "pf"), judged_group("other", "pf")]
    folder = write_evaluation(tmp_path / "e", groups)
    old = [Outcome.PASS, Outcome.FAIL, Outcome.PASS, Outcome.ERROR]
    agreed = agreement((line, *pair) for line, pair in enumerate(zip(old, group_samples(groups), strict=True)))
    assert agreed is not None
    (folder / "agreement.json").write_text(json.dumps(agreed.as_json()))
    tab = new_tab().open(write_evaluation_report(folder)).choose("earlier", "error")
    assert tab.shown() == ["other"]
    assert "was error" in tab.page.locator(".answer.fail").inner_text()


def test_pointing_at_a_curve_shows_its_values(training: Path, new_tab: NewTab) -> None:
    tab = new_tab().open(training)
    plot = tab.page.locator("figure[data-chart='0']")
    assert "held-out pass@1 0.800 [0.700, 0.900]" in _line(plot)  # the last value, while nobody points
    area = plot.locator(".u-over")
    box = area.bounding_box()
    area.hover(position={"x": 1, "y": box["height"] / 2})
    assert "step 0" in _line(plot)
    assert "held-out pass@1 0.250 [0.150, 0.350]" in _line(plot)


def _line(figure: Any) -> str:
    """What the legend says, for instance `step 4, training reward 0.500`."""
    rows = figure.locator(".u-legend tr:not(.band)").all()
    return ", ".join(" ".join(row.locator("th, td").all_inner_texts()) for row in rows)


def test_the_signal_chart_fills_its_height_with_the_four_shares(training: Path, new_tab: NewTab) -> None:
    tab = new_tab().open(training).draw_everything()
    figure = tab.page.locator("figure", has_text="Shares of the groups")
    assert "mixed 40%, all_pass 20%, all_fail 20%, unjudged 20%" in _line(figure)  # 2, 1, 1 and 1 of 5 groups


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_and_its_charts_follow_the_colour_scheme(training: Path, new_tab: NewTab, scheme: str) -> None:
    tab = new_tab(color_scheme=scheme).open(training).draw_everything()
    assert _brightness(tab, "body") == (scheme == "light")
    other = "dark" if scheme == "light" else "light"
    marker = "getComputedStyle(document.querySelector('.u-legend .u-series:nth-child(2) .u-marker')).background"
    before = tab.page.evaluate(marker)
    tab.page.emulate_media(color_scheme=other)
    assert _brightness(tab, "body") == (other == "light")
    assert tab.page.evaluate(marker) != before  # the charts were drawn again


def _brightness(tab: Tab, selector: str) -> bool:
    """Whether the background is brighter than the text."""
    style = f"getComputedStyle(document.querySelector('{selector}'))"
    colours = tab.page.evaluate(f"[{style}.backgroundColor, {style}.color]")
    background, ink = (sum(int(part) for part in value[4:-1].split(",")) for value in colours)
    return background > ink


def test_nothing_is_wider_than_a_phone(report: Path, new_tab: NewTab) -> None:
    tab = new_tab(viewport=PHONE).open(report).draw_everything().open_groups()
    assert tab.page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    for canvas in tab.page.locator("canvas").all():
        assert canvas.bounding_box()["width"] <= PHONE["width"]


def test_charts_keep_their_place_when_the_window_changes(training: Path, new_tab: NewTab) -> None:
    tab = new_tab().open(training).draw_everything()
    tab.page.set_viewport_size(PHONE)
    for plot in tab.page.locator(".uplot").all():
        expect(plot).not_to_have_css("width", re.compile(r"\d{4}px|[4-9]\d\dpx"))
    assert tab.complaints == []


def test_a_long_run_can_be_browsed(tmp_path: Path, new_tab: NewTab) -> None:
    path = write_report(RunReader(write_long_run(tmp_path / "long", 2000)))
    tab = new_tab().open(path).draw_everything()
    assert "128 of 128 groups" in tab.page.locator("[data-part=found]").inner_text()  # 2 in each of 64 steps
    assert len(tab.shown()) == 25
    tab.page.locator("[data-part=more]").click()
    assert len(tab.shown()) == 50
    assert tab.choose("step", "2000").shown() == ["long/train/0", "long/train/1"]
    assert tab.complaints == []


def test_a_watched_page_follows_the_run_keeps_its_filters_and_comes_to_rest(tmp_path: Path, new_tab: NewTab) -> None:
    run = write_run(tmp_path / "run", "[run]\nsteps = 3\n")
    write_steps(run, [[judged_group("a", "pf"), judged_group("b", "ff")]])
    command = [sys.executable, "-m", "rloo_verify", "view", str(run), "--watch", "--every", "1"]
    viewer = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert viewer.stdout is not None
        live = Path(viewer.stdout.readline().strip())  # printed once the page is there
        tab = new_tab().open(live).choose("label", "all_fail")
        assert tab.shown() == ["b"]
        (run / "rollouts").rename(run / "old")
        write_steps(run, [[judged_group("a", "pf"), judged_group("b", "ff")]] * 2)
        expect(tab.page.locator(".lead")).to_contain_text("2 steps")
        expect(tab.page.locator("#browser .problem")).to_have_count(2)
        assert tab.shown() == ["b", "b"]
        assert tab.page.locator("#watch").count() == 1
        viewer.send_signal(signal.SIGINT)
        assert viewer.wait(timeout=60) == 0
        expect(tab.page.locator("#watch")).to_have_count(0)
        assert not (run / "report.html").exists()  # that one belongs to the trainer
        assert tab.complaints == []
    finally:
        if viewer.poll() is None:
            os.kill(viewer.pid, signal.SIGKILL)
        viewer.wait(timeout=60)
