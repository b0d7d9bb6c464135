"""report.html: one file whose numbers are those of the folder, and in which hostile text stays text."""

import base64
import hashlib
import itertools
import json
import multiprocessing
import re
from pathlib import Path

import pytest
from groups import judged_group
from report_folders import (
    HOSTILE,
    Page,
    page_at,
    write_comparison,
    write_evaluation,
    write_evaluations,
    write_long_run,
    write_run,
    write_steps,
)

from rloo_verify.agreement import agreement
from rloo_verify.errors import RunError
from rloo_verify.report import groups as report_groups
from rloo_verify.report import write_comparison_report, write_evaluation_report, write_report
from rloo_verify.report.chart import Curves, histogram
from rloo_verify.report.groups import cut, evenly, fitting, natural
from rloo_verify.report.visits import Story, Visit
from rloo_verify.report.words import duration, percent, signed
from rloo_verify.runlog import RunReader
from rloo_verify.samples import group_samples
from rloo_verify.storage import write_atomically
from rloo_verify.types import Group, Outcome, Problem


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path / "tiny")


def page_of(run: Path) -> Page:
    path = write_report(RunReader(run))
    assert path == run / "report.html"
    return page_at(path)


def hostile_group(outcomes: str) -> Group:
    group = judged_group(HOSTILE, outcomes, text=HOSTILE)
    problem = Problem(HOSTILE, HOSTILE, (), HOSTILE, HOSTILE, {}, (5,))
    return Group(problem, group.completions_G, group.verdicts_G)


# --- training ---------------------------------------------------------------------------------------------------------


def test_a_training_report_shows_rates_with_intervals_signals_and_rollouts(run: Path) -> None:
    groups = [judged_group("gsm8k/train/1", "ppff"), judged_group("gsm8k/train/2", "ff")]
    write_steps(run, [groups] * 3)
    write_evaluations(run, at_1=[0.25, 0.5, 0.75])
    page = page_of(run)
    assert "0.250 → 0.750" in page.text
    assert "95% [0.150, 0.350] → [0.650, 0.850]" in page.text
    assert "50%" in page.text  # 3 of 6 groups are mixed
    assert "3 of 6 groups mixed" in page.text
    assert page.curve("Signal", "mixed") == [0.5] * 3
    assert page.curve("Reward and held-out pass rate", "held-out pass@1") == [0.25, 0.5, 0.75, None]
    first = page.data["browser"]["groups"][0]
    assert (first["step"], first["problem"], first["label"]) == (3, "gsm8k/train/1", "mixed")
    assert first["sides"][0][0]["advantage"] == pytest.approx(2 / 3)  # of ppff: 1 - (1 + 0 + 0) / 3
    assert page.data["browser"]["groups"][1]["sides"][0][0]["advantage"] == 0  # shown, unlike one that is not known


def test_every_metric_of_docs_metrics_that_people_judge_a_run_by_has_a_curve(run: Path) -> None:
    write_steps(run, [[judged_group("a", "pf")]] * 2)
    page = page_of(run)
    assert page.curve("Length", "mean") == [3, 3]
    assert page.curve("Truncated and not judged", "truncated") == [0, 0]
    assert page.curve("Sampler against learner", "largest") == [1e-6, 1e-6]
    assert page.curve("Seconds", "sample") == [1, 1]
    assert page.curve("Verdict reasons", "wrong_answer") == [0.5, 0.5]
    assert page.curve("Learner tokens", "trained") == [12, 12]
    assert page.curve("Learner tokens", "skipped") == [-6, -6]  # 2 answers of 3 tokens, of which the update claims 12


def test_dead_problems_are_counted_by_their_visits_and_learning_ones_by_their_change(run: Path) -> None:
    steps = [
        [
            judged_group("hard", "ff"),
            judged_group("easy", "pp"),
            judged_group("won", "ffpf"),
            judged_group("lost", "pf"),
        ],
        [judged_group("hard", "ff"), judged_group("broken", "ee"), judged_group("won", "ppfp")],
        [judged_group("hard", "fe"), judged_group("lost", "ff")],
    ]
    write_steps(run, steps)
    text = re.sub(r"\s+", " ", page_of(run).text)
    assert "4 problems seen in 8 judged visits; 3 more than once" in text  # nothing is known of `broken`
    assert "Dead: 1 always failed" in text
    assert "hard 3 1–3 5" in text.replace("hard3", "hard 3 ").replace("1–35", "1–3 5")  # 2 + 2 + 1 judged answers
    assert "Dead: 1 always passed" in text
    assert re.search(r"Learning: 1.*won ?2 ?1–2 ?25% ?75%", text)
    assert re.search(r"Slipping: 1.*lost ?2 ?1–3 ?50% ?0%", text)


def test_what_a_problem_learns_is_the_difference_of_the_halves_of_its_visits() -> None:
    visits = [Visit(step, passed, 4) for step, passed in enumerate((2, 0, 1, 3, 2), start=1)]
    story = Story("a", visits)
    assert story.earlier == 2 / 8  # the first two of five
    assert story.later == 6 / 12
    assert Story("b", visits[:1]).change == 0


def test_a_second_report_reads_only_the_rollouts_that_are_new_or_were_done_again(
    run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from rloo_verify.report import visits

    write_steps(run, [[judged_group("a", "ff")]] * 3)
    page_of(run)
    read: list[str] = []
    tally = visits._tally
    monkeypatch.setattr(visits, "_tally", lambda file: (read.append(file.name), tally(file))[1])
    again = run / "rollouts" / "step-000002.jsonl"
    again.write_text(again.read_text().replace('"fail"', '"pass"'))
    assert "Dead: 0 always failed" in page_of(run).text
    assert read == ["step-000002.jsonl"]


def test_many_held_out_rates_stand_in_a_table(run: Path) -> None:
    write_evaluations(run, at_1=[0.25, 0.5], at_4=[0.5, 0.75], at_16=[0.625, None])
    text = page_of(run).text
    assert "pass@160.625[0.525, 0.725]n/a" in text
    assert "held-out pass@40.500 → 0.750" in text
    assert "held-out pass@16" not in text


def test_a_run_that_did_nothing_yet_has_a_report(run: Path) -> None:
    page = page_of(run)
    assert page.data["charts"] == []
    assert "0 steps of 3, 0 updates, 0.0 s" in page.text
    assert "No step is finished yet." in page.text


def test_a_run_without_evaluations_has_a_report(run: Path) -> None:
    write_steps(run, [[judged_group("a", "pf")]])
    page = page_of(run)
    assert "held-out" not in page.text.partition("Curves")[0]
    assert len(page.data["charts"]) == page.tags.count("figure") == 9


def test_a_run_of_which_only_the_first_evaluation_is_done_shows_it_once(run: Path) -> None:
    write_evaluations(run, at_1=[0.25])
    text = page_of(run).text
    assert "held-out pass@1, measured once0.250" in text
    assert "→" not in text


def test_what_could_not_be_judged_is_not_available_and_not_zero(run: Path) -> None:
    write_steps(run, [[judged_group("a", "ee")]])
    write_evaluations(run, at_1=[None, None], at_2=[0.5, None])
    page = page_of(run)
    assert "n/a → n/a" in page.text
    assert "0.500 → n/a" in page.text
    assert page.curve("Reward and held-out pass rate", "training reward") == [None, None]


def test_torn_lines_missing_rollouts_and_numbers_that_json_lacks_do_no_harm(run: Path) -> None:
    write_steps(run, [[judged_group("a", "pf")]] * 3)
    torn = run / "rollouts" / "step-000002.jsonl"
    torn.write_text(torn.read_text()[:-40])
    (run / "rollouts" / "step-000001.jsonl").unlink()
    (run / "rollouts" / "step-000003.jsonl").write_bytes(b'\xff\xfe\n[]\n{"problem": 3}\n')
    metrics = (run / "metrics.jsonl").read_text().replace('"grad_norm": 1.0', '"grad_norm": NaN')
    (run / "metrics.jsonl").write_text(metrics + '{"step": 4, "rew')
    (run / "environment.json").write_text("{")
    page = page_of(run)
    assert page.curve("Gradient norm", "norm") == [None] * 3
    assert [len(group["sides"][0]) for group in page.data["browser"]["groups"]] == [1]


def test_it_is_the_same_file_every_time(run: Path) -> None:
    write_steps(run, [[judged_group("a", "pf")]])
    first = write_report(RunReader(run)).read_text()
    assert write_report(RunReader(run)).read_text() == first


def _write_often(path: Path, letter: str) -> None:
    for _ in range(100):
        write_atomically(path, letter * 100_000)


def test_a_trainer_and_a_viewer_may_write_the_same_report_at_the_same_time(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    path = tmp_path / "report.html"
    writers = [fork.Process(target=_write_often, args=(path, letter)) for letter in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0]
    assert set(path.read_text()) in ({"a"}, {"b"})
    assert list(tmp_path.iterdir()) == [path]


# --- evaluation and comparison ----------------------------------------------------------------------------------------


def test_an_evaluation_report_shows_rates_spread_lengths_and_reasons(tmp_path: Path) -> None:
    groups = [
        judged_group("tiny/test/10", "ffff", lengths=[5, 5, 5, 25]),
        judged_group("tiny/test/9", "pppf", lengths=[5, 5, 5, 5]),
        judged_group("tiny/test/8", "pppp", lengths=[5, 5, 5, 5]),
    ]
    page = page_at(write_evaluation_report(write_evaluation(tmp_path / "e", groups, (1, 4))))
    assert "tiny: model-1b" in page.text
    assert "0.583" in page.text  # (0 + 3/4 + 1) / 3
    assert page.curve("Pass rates of the problems", "problems") == [1, 0, 0, 1, 1]
    assert page.chart("Length")["x"] == [float(edge) for edge in range(5, 26)]
    assert page.curve("Length", "pass") == [7.0, *[0.0] * 20]
    assert page.curve("Length", "fail") == [4.0, *[0.0] * 19, 1.0]
    assert re.search(r"wrong_answer\s*5\s*42%", page.text)
    assert [group["problem"] for group in page.data["browser"]["groups"]] == [f"tiny/test/{i}" for i in (8, 9, 10)]


def test_errors_are_shown_apart_and_counted_as_failed_in_a_column_of_their_own(tmp_path: Path) -> None:
    groups = [judged_group("a", "pe"), judged_group("b", "ff")]
    text = page_at(write_evaluation_report(write_evaluation(tmp_path / "e", groups))).text
    assert "errors as fail" in text
    assert "0.500" in text  # (1/1 + 0/2) / 2
    assert "0.250" in text  # (1/2 + 0/2) / 2


def test_an_evaluation_that_goes_on_shows_the_rates_of_the_samples_that_are_there(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "e", [judged_group("a", "pf"), judged_group("b", "pp")], finished=False)
    with (folder / "samples.jsonl").open("a") as samples:
        samples.write('{"problem": "c", "task": "ti')
    page = page_at(write_evaluation_report(folder))
    assert "so far; the evaluation is not finished" in page.text
    assert "0.750" in page.text  # (1/2 + 2/2) / 2


def test_answers_judged_otherwise_than_before_say_so(tmp_path: Path) -> None:
    group = judged_group("a", "pff")
    folder = write_evaluation(tmp_path / "e", [group])
    pairs = zip((Outcome.PASS, Outcome.PASS, None), group_samples([group]), strict=True)
    agreed = agreement((line, old, sample) for line, (old, sample) in enumerate(pairs))
    assert agreed is not None
    (folder / "agreement.json").write_text(json.dumps(agreed.as_json()))
    page = page_at(write_evaluation_report(folder))
    assert "1 of 2 answers with an earlier verdict are judged as before" in page.text
    (answers,) = page.data["browser"]["groups"][0]["sides"]
    assert [answer.get("earlier") for answer in answers] == [None, "pass", None]


def test_a_problem_with_one_answer_is_called_by_its_verdict(tmp_path: Path) -> None:
    groups = [judged_group(name, outcome) for name, outcome in (("a", "p"), ("b", "f"), ("c", "e"), ("d", "pe"))]
    page = page_at(write_evaluation_report(write_evaluation(tmp_path / "e", groups)))
    assert [group["label"] for group in page.data["browser"]["groups"]] == ["pass", "fail", "error", "all_pass"]


def test_a_checkpoint_keeps_the_name_of_its_run(tmp_path: Path) -> None:
    folder = write_evaluation(tmp_path / "e", [judged_group("a", "p")])
    summary = json.loads((folder / "summary.json").read_text())
    (folder / "summary.json").write_text(json.dumps({**summary, "model": "runs/x/checkpoints/step-000040"}))
    assert "tiny: x/step-000040" in page_at(write_evaluation_report(folder)).text


def test_a_folder_without_samples_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"has no samples\.jsonl"):
        write_evaluation_report(tmp_path)
    with pytest.raises(RunError, match=r"compare.json cannot be read"):
        write_comparison_report(tmp_path, tmp_path, tmp_path)


def test_a_comparison_report_shows_differences_and_both_sides_of_each_flip(tmp_path: Path) -> None:
    same = [judged_group(f"same/{i}", "pf") for i in range(8)]
    a = write_evaluation(tmp_path / "old", [*same, judged_group("up", "ff", text="no"), judged_group("down", "pf")])
    b = write_evaluation(tmp_path / "new", [*same, judged_group("up", "pp", text="yes"), judged_group("down", "ff")])
    page = page_at(write_comparison_report(write_comparison(tmp_path / "c", a, b), a, b / "samples.jsonl"))
    assert "+0.050" in page.text  # (1 - 1/2) / 10 problems
    up, down = page.data["browser"]["groups"]
    assert (up["label"], down["label"]) == ("gained", "lost")
    assert [[answer["text"] for answer in side] for side in up["sides"]] == [["no"] * 2, ["yes"] * 2]
    assert page.data["browser"]["sides"] == ["old", "new"]
    assert sum(filter(None, page.curve("Changes of the flipped problems", "gained"))) == 1


# --- untrusted text ---------------------------------------------------------------------------------------------------


def pages_with_hostile_text(tmp_path: Path) -> list[Path]:
    run = write_run(tmp_path / HOSTILE[:9].replace("/", ""), f"# {HOSTILE[:-1]}\n")
    write_steps(run, [[hostile_group("pfe")]])
    a = write_evaluation(tmp_path / "a", [hostile_group("pfe")])
    b = write_evaluation(tmp_path / "b<script>", [hostile_group("ffe")])
    comparison = write_comparison(tmp_path / "c", a, b)
    return [
        write_report(RunReader(run)),
        write_evaluation_report(a),
        write_comparison_report(comparison, a, b),
    ]


def test_hostile_text_is_text_wherever_it_comes_from(tmp_path: Path) -> None:
    for path in pages_with_hostile_text(tmp_path):
        page = page_at(path)
        assert page.tags.count("script") == 3  # the data, the library, our own
        assert not {"img", "iframe", "link", "object", "embed", "base"} & set(page.tags)
        assert not [name for name, _ in page.attributes if name.startswith("on")]
        assert "49" not in page.text
        assert not set("<>&\u2028") & set(page.scripts[0])
        assert page.data["browser"]["groups"][0]["sides"][0][0]["text"] == HOSTILE


def test_nothing_is_fetched_and_only_our_own_scripts_may_run(tmp_path: Path) -> None:
    for path in pages_with_hostile_text(tmp_path):
        page = page_at(path)
        for name, value in page.attributes:
            if name in ("src", "href", "xlink:href", "srcset", "action", "data", "poster"):
                assert value is not None
                assert value.startswith("#"), (name, value)
        policy = next(
            value or "" for name, value in page.attributes if name == "content" and "default-src" in (value or "")
        )
        hashes = [base64.b64encode(hashlib.sha256(code.encode()).digest()).decode() for code in page.scripts[1:]]
        assert (
            policy
            == f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{hashes[0]}' 'sha256-{hashes[1]}'"
        )
        html = path.read_text(encoding="utf-8")
        assert "@import" not in html
        assert "url(" not in html


# --- size -------------------------------------------------------------------------------------------------------------


def test_a_run_of_10000_steps_has_a_page_below_20_mb_that_says_what_is_left_out(tmp_path: Path) -> None:
    run = write_long_run(tmp_path / "long", 10_000)
    path = write_report(RunReader(run))
    page = page_at(path)
    assert path.stat().st_size < 20e6
    assert "Each point stands for 10 steps" in page.text
    assert len(page.chart("Length")["x"]) == 1000
    assert page.chart("Length")["x"][-1] == 10_000
    assert "rollouts of 64 of 10,000 steps: the first, the last, and evenly spaced ones" in page.text
    steps = sorted({group["step"] for group in page.data["browser"]["groups"]})
    assert (len(steps), steps[0], steps[-1]) == (64, 1, 10_000)
    assert "20 problems seen in 20,000 judged visits" in page.text  # all rollouts count, also those not shown


def test_however_much_is_written_in_a_step_the_page_stays_below_20_mb(tmp_path: Path) -> None:
    run = write_long_run(tmp_path / "wide", 2, problems=300, group_size=8, text="<" * 3000)
    rollouts = sum(file.stat().st_size for file in (run / "rollouts").iterdir())
    path = write_report(RunReader(run))
    assert rollouts > 14e6
    assert path.stat().st_size < 20e6
    assert re.search(r"Shown here: \d+ of the 600 groups of these steps, evenly spaced", page_at(path).text)


def test_a_large_evaluation_shows_evenly_spaced_problems(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report_groups, "MAX_BYTES", 10_000)
    groups = [judged_group(f"tiny/test/{i}", "pf", text="x" * 500) for i in range(100)]
    page = page_at(write_evaluation_report(write_evaluation(tmp_path / "e", groups)))
    shown = [int(group["problem"].rpartition("/")[2]) for group in page.data["browser"]["groups"]]
    assert (shown[0], shown[-1]) == (0, 99)
    assert len(json.dumps(page.data["browser"]["groups"])) < 12_000
    assert f"{len(shown)} of 100 problems, evenly spaced. Everything is in samples.jsonl." in page.text
    gaps = [after - before for before, after in itertools.pairwise(shown)]
    assert max(gaps) <= 2 * min(gaps)


def test_the_middle_of_a_long_text_is_left_out_and_its_end_with_the_answer_stays() -> None:
    text = "a" * 6000 + "b" * 1234 + "c" * 2000
    assert cut(text) == "a" * 6000 + "\n[... 1,234 characters left out ...]\n" + "c" * 2000
    assert cut(text[:8000]) == text[:8000]


def test_evenly_spaced_items_include_the_first_and_the_last() -> None:
    assert evenly(range(11), 3) == [0, 5, 10]
    assert evenly(range(3), 5) == [0, 1, 2]
    assert evenly(range(3), 1) == [2]
    assert fitting([], 10) == []
    assert fitting([{"text": "x" * 50}], 10) == [{"text": "x" * 50}]  # one is always shown


def test_problems_are_in_the_order_of_their_numbers() -> None:
    assert sorted(["t/10", "t/9", "s/1", "t/9b"], key=natural) == ["s/1", "t/9", "t/9b", "t/10"]


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_the_points_of_a_long_curve_are_means_or_largest_values_of_equally_many_steps() -> None:
    rows = [{"step": step, "x": None if step == 3 else float(step)} for step in range(1, 8)]
    curves = Curves(rows, points=3)
    assert (curves.size, curves.steps) == (3, [3, 6, 7])  # 7 steps in at most 3 points: 3 a point
    assert curves.mean("x") == [1.5, 5.0, 7.0]  # (1 + 2) / 2, (4 + 5 + 6) / 3, 7
    assert curves.largest("x") == [2.0, 6.0, 7.0]


def test_bins_have_a_round_width_and_hold_all_values() -> None:
    assert histogram([3, 97], 10) == ([0.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0], 10.0)
    assert histogram([7, 7], 10) == ([7.0], 1.0)


def test_numbers_are_written_for_people() -> None:
    assert [duration(s) for s in (8.44, 59.6, 115, 12_000)] == ["8.4 s", "1 min 00 s", "1 min 55 s", "3 h 20 min"]
    assert [percent(v) for v in (0.004, 0.5, 0.996, 1.0, 0.0, None)] == ["0.4%", "50%", "99.6%", "100%", "0%", "n/a"]
    assert signed(-0.5) == "\N{MINUS SIGN}0.500"
