"""Whole runs: what they write, what they count, and how they resume."""

import json
import os
import random
import re
import signal
import subprocess
from functools import partial
from pathlib import Path

import pytest
import torch
from runs import (
    CHECK,
    SLOW_CHECK,
    assert_same_bits,
    final_state,
    rows_of,
    run_here,
    small_disk,
    start,
    story,
    trained,
    wait_until,
    write_run,
)
from transformers import AutoModelForCausalLM

import rloo_verify.train
from rloo_verify.checkpoint import list_checkpoints
from rloo_verify.errors import RunError, StorageError, VerifyError
from rloo_verify.interrupt import StopRequest
from rloo_verify.storage import read_jsonl
from rloo_verify.train import Trainer
from rloo_verify.types import Signal

STEPS = 8
EIGHT = "--run.steps=8"

METRICS = {
    "step", "reward", "groups", "completions", "groups_mixed", "groups_all_pass", "groups_all_fail", "groups_unjudged",
    "frac_mixed", "frac_all_pass", "frac_all_fail", "frac_unjudged", "errors", "error_share", "reasons", "length_mean",
    "length_max", "truncated_share", "logprob_gap_mean", "logprob_gap_max", "updated", "loss", "grad_norm", "lr", "kl",
    "reward_shaped", "tokens_sampled", "tokens_trained", "tokens_skipped", "tokens_computed", "tokens_saved",
    "tokens_per_second", "seconds", "padding_share", "learner_tokens_per_second", "mfu", "entropy",
    "importance_effective_share", "importance_capped_share",
}  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that nothing interrupted."""
    return run_here(write_run(tmp_path_factory.mktemp("whole")), EIGHT, report=True)[0]


def same_outcome(run: Path, whole: Path) -> None:
    """Parameters and optimizer to the bit, and every row, sample and evaluation."""
    assert_same_bits(final_state(run), final_state(whole))
    assert story(run) == story(whole)


def test_the_loop_fits_in_150_lines() -> None:
    text = Path(rloo_verify.train.__file__).read_text()
    assert len(text.splitlines()) < 150


def test_a_row_of_metrics_has_every_documented_key_and_no_other(whole: Path) -> None:
    rows = read_jsonl(whole / "metrics.jsonl")
    assert [row["step"] for row in rows] == list(range(1, STEPS + 1))
    for row in rows:
        assert set(row) == METRICS
        assert set(row["seconds"]) == {"sample", "verify_wait", "learn", "sync", "total"}
        parts = [value for name, value in row["seconds"].items() if name != "total"]
        assert row["seconds"]["total"] == pytest.approx(sum(parts))
    text = (Path(rloo_verify.train.__file__).parents[1] / "docs" / "metrics.md").read_text()
    documented = set(re.findall(r"`([a-z_]+)`", text))
    assert {key for key in METRICS if not key.startswith("groups_") and key != "step"} <= documented


def test_the_signals_of_a_step_add_up_to_its_groups_and_its_reward_to_its_verdicts(whole: Path) -> None:
    for row in read_jsonl(whole / "metrics.jsonl"):
        records = read_jsonl(whole / "rollouts" / f"step-{row['step']:06d}.jsonl")
        assert row["groups"] == 4  # problems_per_step
        assert row["completions"] == len(records) == 16
        assert sum(row[f"groups_{signal}"] for signal in Signal) == 4
        assert sum(row[f"frac_{signal}"] for signal in Signal) == pytest.approx(1)
        assert row["reward"] == pytest.approx(sum(record["outcome"] == "pass" for record in records) / 16)
        assert row["length_mean"] == pytest.approx(sum(record["tokens"] for record in records) / 16)
        assert row["truncated_share"] == sum(record["finish_reason"] == "length" for record in records) / 16
        mixed = [record for record in records if record["signal"] == "mixed"]
        assert len(mixed) == 4 * row["groups_mixed"]
        assert row["tokens_trained"] == sum(record["tokens"] for record in mixed)


def test_samples_carry_the_version_that_drew_them_and_seeds_of_their_own(whole: Path) -> None:
    records = [one for file in sorted((whole / "rollouts").iterdir()) for one in read_jsonl(file)]
    versions = {record["step"]: record["policy_version"] for record in records}
    updated = [row["updated"] for row in read_jsonl(whole / "metrics.jsonl")]
    assert versions == {step: sum(updated[: step - 1]) for step in range(1, STEPS + 1)}
    assert len({record["seed"] for record in records}) == len(records) == 16 * STEPS


def test_the_summary_has_pass_rates_before_and_after_and_totals(whole: Path) -> None:
    summary = json.loads((whole / "summary.json").read_text())
    rows = read_jsonl(whole / "metrics.jsonl")
    evaluations = [json.loads(file.read_text()) for file in sorted((whole / "eval").glob("*.json"))]
    assert [row["step"] for row in evaluations] == [0, 3, 6, 8]  # before, every three steps, after
    for rate in ("pass@1", "pass@2"):
        assert summary[rate] == {"before": evaluations[0][rate], "after": evaluations[-1][rate]}
    assert summary["steps"] == STEPS
    assert summary["updates"] == sum(row["updated"] for row in rows) > 4
    assert summary["signals"] == {str(signal): sum(row[f"groups_{signal}"] for row in rows) for signal in Signal}
    assert sum(summary["signals"].values()) == 4 * STEPS
    assert summary["seconds"] == pytest.approx(
        sum(row["seconds"]["total"] for row in rows) + sum(row["seconds"] for row in evaluations)
    )
    assert (whole / "report.html").stat().st_size > 10_000


def test_only_the_newest_checkpoints_are_there_and_the_last_opens(whole: Path) -> None:
    assert [path.name for path in list_checkpoints(whole / "checkpoints")] == ["step-000006", "step-000008"]
    model = AutoModelForCausalLM.from_pretrained(whole / "checkpoints" / "step-000008", dtype=torch.float32)
    assert_same_bits(dict(model.named_parameters()), trained(final_state(whole)))


def test_two_runs_of_one_seed_are_the_same_to_the_bit_and_another_seed_is_not(tmp_path: Path, whole: Path) -> None:
    path = write_run(tmp_path)
    torch.manual_seed(99)  # what the process did before does not matter
    same_outcome(run_here(path, EIGHT)[0], whole)
    other, _, _ = run_here(path, "--run.steps=2", "--run.seed=1", "--run.name=other")
    assert story(other)["metrics"][0] != story(whole)["metrics"][0]


def test_adapters_start_the_same_in_every_run_of_one_seed(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    runs = []
    for name in ("one", "two"):
        torch.manual_seed(len(runs))
        runs.append(run_here(path, "--run.steps=2", "--model.lora.rank=4", f"--run.name={name}")[0])
    same_outcome(*runs)


def test_a_finished_run_says_so_and_trains_nothing(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    run, summary, _ = run_here(path, "--run.steps=1")
    before = {file: file.stat().st_mtime_ns for file in run.glob("**/step-*")}
    _, again, screen = run_here(path, "--run.steps=1")
    assert again == summary
    assert "is finished after 1 steps; raise --run.steps to go on" in screen
    assert {file: file.stat().st_mtime_ns for file in run.glob("**/step-*")} == before
    _, fresh, screen = run_here(path, "--run.steps=1", fresh=True)
    assert "step 1/1" in screen
    assert fresh["signals"] == summary["signals"]


def test_more_steps_go_on_where_the_run_ended_and_fewer_are_refused(tmp_path: Path, whole: Path) -> None:
    path = write_run(tmp_path)
    run, _, _ = run_here(path, "--run.steps=3")
    _, _, screen = run_here(path, EIGHT)
    assert f"resuming {run} after step 3 of 8" in screen
    same_outcome(run, whole)
    with pytest.raises(RunError, match=r"has done 8 steps; run\.steps = 5 cannot undo them"):
        run_here(path, "--run.steps=5")


def test_an_evaluation_that_a_kill_prevented_is_made_up_for(
    tmp_path: Path, whole: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_run(tmp_path)
    with monkeypatch.context() as patch:
        evaluate = Trainer.evaluate
        patch.setattr(Trainer, "evaluate", lambda self, step: 1 / 0 if step == 6 else evaluate(self, step))
        with pytest.raises(ZeroDivisionError):  # the kill, after checkpoint 6 was saved
            run_here(path, EIGHT)
    same_outcome(run_here(path, EIGHT)[0], whole)


def has_more_rows(run: Path, count: int) -> bool:
    return rows_of(run) > count


@pytest.mark.slow
def test_kill_9_at_any_moment_resumes_to_the_same_bits(tmp_path: Path) -> None:
    steps = "--run.steps=20"
    whole, _, _ = run_here(write_run(tmp_path / "whole"), steps)
    path = write_run(tmp_path / "killed")
    run, rng, kills, torn = tmp_path / "killed" / "runs" / "tiny", random.Random(2024), [], 0
    for attempt in range(12):
        child = start(path, steps)
        if attempt % 4 == 0:  # anywhere from the first import to the first steps
            child.join(rng.uniform(0, 1))
        elif attempt % 4 == 1:  # while a checkpoint is being written
            wait_until(lambda: any((run / "checkpoints").glob(".step-*.tmp")), child)
        else:  # somewhere in a step, an evaluation or a save
            wait_until(partial(has_more_rows, run, rows_of(run) + rng.randint(0, 2)), child)
            child.join(rng.uniform(0, 0.1))
        child.kill()
        child.join()
        kills.append(child.exitcode == -signal.SIGKILL)
        torn += any((run / "checkpoints").glob(".step-*.tmp"))
    child = start(path, steps)
    child.join()
    assert child.exitcode == 0, path.with_suffix(".log").read_text()
    assert sum(kills) >= 10
    assert torn > 0  # at least one checkpoint was half written
    same_outcome(run, whole)


def test_ctrl_c_finishes_the_step_saves_and_exits_130_and_the_same_command_goes_on(tmp_path: Path, whole: Path) -> None:
    path = write_run(tmp_path, check=SLOW_CHECK)
    run = tmp_path / "runs" / "tiny"
    child = start(path, EIGHT)
    assert wait_until(lambda: rows_of(run) == 1, child)
    os.kill(child.pid, signal.SIGINT)
    child.join()
    log = path.with_suffix(".log").read_text()
    assert child.exitcode == 130, log
    assert "Traceback" not in log
    assert f"interrupted; {run} is saved, the same command goes on from there" in log
    (saved,) = [int(file.name.removeprefix("step-")) for file in list_checkpoints(run / "checkpoints")[-1:]]
    assert saved == rows_of(run) < STEPS  # nothing done is lost, whatever save.every says
    (tmp_path / "letters" / "check.py").write_text(CHECK)  # the quick checker from here on
    same_outcome(run_here(path, EIGHT)[0], whole)


def test_the_second_signal_ends_at_once_and_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with StopRequest() as stop:
        assert not stop.requested
        signal.raise_signal(signal.SIGTERM)
        assert stop.requested
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before


def test_a_full_disk_stops_the_run_and_with_more_room_it_goes_on(tmp_path: Path, whole: Path) -> None:
    path = write_run(tmp_path)
    with small_disk(tmp_path / "disk", "2m") as disk:  # room for one checkpoint and a half
        out = f"--run.out={disk}"
        with pytest.raises(StorageError, match="the disk is full"):
            run_here(path, EIGHT, out)
        run = disk / "tiny"
        assert [file.name for file in list_checkpoints(run / "checkpoints")] == ["step-000002"]
        subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        run_here(path, EIGHT, out)
        same_outcome(run, whole)


def test_steps_without_signal_change_no_weight_and_send_none(tmp_path: Path) -> None:
    never = "def check(completion, answer, row):\n    return False\n"
    run, summary, _ = run_here(write_run(tmp_path, check=never), "--run.steps=3", "--tasks.1.weight=0.0001")
    assert (summary["updates"], summary["signals"]["all_fail"], summary["tokens_trained"]) == (0, 12, 0)
    rows = read_jsonl(run / "metrics.jsonl")
    assert all(not row["updated"] and "sync" not in row["seconds"] and row["grad_norm"] is None for row in rows)
    assert all(row["logprob_gap_mean"] is not None for row in rows)
    state = final_state(run)
    assert state["version"] == 0
    assert set(state) == {"version", *(f"parameter.{name}" for name in trained(state))}  # nothing of the optimizer
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "model", dtype=torch.float32)
    assert_same_bits(trained(state), {name: p.detach() for name, p in model.named_parameters()})


BROKEN = """
def check(completion, answer, row):
    if completion[:1] in "acegikmoq": raise ValueError("bad luck")
    return completion[:1] in answer
"""


def test_errors_leave_their_groups_are_counted_and_are_no_rewards(tmp_path: Path) -> None:
    run, summary, _ = run_here(write_run(tmp_path, check=BROKEN), "--run.steps=2", "--verify.max_error_share=1")
    for row in read_jsonl(run / "metrics.jsonl"):
        records = read_jsonl(run / "rollouts" / f"step-{row['step']:06d}.jsonl")
        judged = [record for record in records if record["outcome"] != "error"]
        assert row["errors"] == len(records) - len(judged) > 0
        assert row["error_share"] == row["errors"] / 16
        assert row["reward"] == pytest.approx(sum(record["outcome"] == "pass" for record in judged) / len(judged))
        assert row["tokens_trained"] == sum(r["tokens"] for r in judged if r["signal"] == "mixed")
    assert summary["errors"] > 0


def test_too_many_errors_stop_the_run_with_a_sentence_and_the_evidence(tmp_path: Path) -> None:
    path = write_run(tmp_path, check=BROKEN)
    with pytest.raises(
        VerifyError, match=r"could not be judged, above verify\.max_error_share = 5%.*bad luck"
    ) as caught:
        run_here(path, "--verify.max_error_share=0.05", "--eval.problems=0")
    (named,) = re.findall(r"all are in (\S+)$", str(caught.value))
    assert len(read_jsonl(Path(named))) == 16
    (tmp_path / "letters" / "check.py").write_text(CHECK)  # mended, the same command goes on
    assert run_here(path, "--verify.max_error_share=0.05", "--eval.problems=0")[1]["steps"] == 6


def test_a_run_in_which_nothing_can_be_judged_still_ends_with_a_report(tmp_path: Path) -> None:
    broken = "def check(completion, answer, row):\n    raise ValueError\n"
    arguments = ["--run.steps=2", "--verify.max_error_share=1", "--tasks.1.weight=0.0001"]
    run, summary, screen = run_here(write_run(tmp_path, check=broken), *arguments, report=True)
    assert summary["signals"] == {"mixed": 0, "all_pass": 0, "all_fail": 0, "unjudged": 8}
    assert summary["errors"] == summary["completions"] == 32
    assert all(row["reward"] is None for row in read_jsonl(run / "metrics.jsonl"))
    assert "reward -" in screen
    assert (run / "report.html").exists()


def test_refill_draws_more_problems_and_counts_every_draw(tmp_path: Path) -> None:
    arguments = ["--run.steps=3", "--sample.no_signal=refill", "--sample.refill_factor=2.5"]
    run, summary, _ = run_here(write_run(tmp_path), *arguments)
    rows = read_jsonl(run / "metrics.jsonl")
    for row in rows:
        assert 4 <= row["groups"] <= 10  # 2.5 times problems_per_step
        assert row["groups_mixed"] >= 4 or row["groups"] > 4
        records = read_jsonl(run / "rollouts" / f"step-{row['step']:06d}.jsonl")
        assert len(records) == row["completions"] == 4 * row["groups"]
    assert sum(summary["signals"].values()) == sum(row["groups"] for row in rows) > 12


def test_without_held_out_problems_nothing_is_evaluated(tmp_path: Path) -> None:
    run, summary, screen = run_here(write_run(tmp_path), "--run.steps=1", "--eval.problems=0", report=True)
    assert summary["evaluations"] == []
    assert not [key for key in summary if "@" in key]
    assert "eval at" not in screen
    assert (run / "report.html").exists()


def test_a_k_added_on_resume_is_reported_from_then_on(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    run_here(path, "--run.steps=1", "--eval.k=[1]")
    _, summary, _ = run_here(path, "--run.steps=2", "--eval.k=[2]", report=True)
    assert not [key for key in summary if "@" in key]  # nothing was measured both before and after
