"""Whole runs under the real launcher: `torchrun --nproc-per-node 2 -m rloo_verify train`."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from processes import free_port
from runs import SLOW_CHECK, TIMES, read_jsonl, rows_of, run_here, story, wait_until, write_run

from rloo_verify.checkpoint import list_checkpoints

pytestmark = pytest.mark.slow


class Job:
    """A run of two processes."""

    def __init__(self, path: Path, *overrides: str) -> None:
        command = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2", f"--master-port={free_port()}"]
        command += ["-m", "rloo_verify", "train", str(path), *overrides]
        self.log = path.with_suffix(".log")
        environment = os.environ | {"OMP_NUM_THREADS": "1"}
        with self.log.open("w") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, env=environment)

    def is_alive(self) -> bool:
        return self.process.poll() is None

    def wait(self) -> tuple[int, str]:
        """Exit code and everything that was printed."""
        try:
            code = self.process.wait(timeout=200)
        finally:
            self.process.kill()
        return code, self.log.read_text()


def assert_close(one: Any, other: Any) -> None:
    """Equality of nested values, with numbers to a tolerance."""
    if isinstance(other, dict):
        assert one.keys() == other.keys()
        for key in other:
            assert_close(one[key], other[key])
    elif isinstance(other, list):
        for a, b in zip(one, other, strict=True):
            assert_close(a, b)
    elif isinstance(other, float):
        assert one == pytest.approx(other, rel=1e-3, abs=1e-5)
    else:
        assert one == other


def test_two_processes_train_as_one_does(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_run(tmp_path / name)
    code, log = Job(tmp_path / "two" / "tiny.toml", "--run.steps=4").wait()
    assert code == 0, log
    assert log.count("step 4/4") == 1  # one process speaks
    run, alone = tmp_path / "two" / "runs" / "tiny", run_here(tmp_path / "one" / "tiny.toml", "--run.steps=4")[0]
    rows, expected = (read_jsonl(folder / "metrics.jsonl") for folder in (run, alone))
    for row, other in zip(rows, expected, strict=True):
        for key in other:
            if key not in (*TIMES, "tokens_computed", "tokens_saved", "padding_share"):
                assert_close(row[key], other[key])
    assert story(run)["evaluations"] == story(alone)["evaluations"]
    assert run_here(tmp_path / "two" / "tiny.toml", "--run.steps=5")[1]["steps"] == 5  # one process goes on


def test_a_user_error_is_one_sentence_and_nobody_waits(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    (tmp_path / "letters" / "rows.jsonl").unlink()
    started = time.monotonic()
    code, log = Job(path).wait()
    assert code != 0
    assert time.monotonic() - started < 60
    assert log.count("error: ") == 1, log
    assert "rows.jsonl" in log


def test_ctrl_c_finishes_the_step_saves_and_the_same_command_goes_on(tmp_path: Path) -> None:
    path = write_run(tmp_path, check=SLOW_CHECK)
    run = tmp_path / "runs" / "tiny"
    job = Job(path, "--run.steps=9", "--save.every=100")
    assert wait_until(lambda: rows_of(run) == 1, job)
    job.process.send_signal(signal.SIGINT)
    _, log = job.wait()
    assert f"interrupted; {run} is saved, the same command goes on from there" in log, log
    (saved,) = [int(folder.name.removeprefix("step-")) for folder in list_checkpoints(run / "checkpoints")]
    assert saved == rows_of(run) < 9
    code, log = Job(path, "--run.steps=9", "--save.every=100").wait()
    assert code == 0, log
    assert f"after step {saved} of 9" in log


@pytest.mark.vllm
def test_vllm_draws_for_two_learner_processes(tmp_path: Path) -> None:
    path = write_run(tmp_path)
    code, log = Job(path, "--policy.engine=vllm", "--run.steps=2", "--eval.problems=0").wait()
    assert code == 0, log
    rows = read_jsonl(tmp_path / "runs" / "tiny" / "metrics.jsonl")
    assert [row["updated"] for row in rows] == [True, True]
    assert all(row["logprob_gap_max"] < 1e-3 for row in rows)  # step 2 was drawn with the weights of step 1
