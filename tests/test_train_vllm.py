"""A whole run with vLLM as the engine, killed and resumed."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from runs import read_jsonl, rows_of, wait_until, write_run

from rloo_verify.checkpoint import list_checkpoints

pytestmark = [pytest.mark.vllm, pytest.mark.slow]

SAME = ("step", "problem", "prompt", "sample_index", "seed", "policy_version")


class Child:
    """`rloo-verify train` in a process of its own."""

    def __init__(self, path: Path) -> None:
        command = [sys.executable, "-m", "rloo_verify", "train", str(path), "--policy.engine=vllm", "--run.steps=5"]
        self.log = path.with_suffix(".log")
        with self.log.open("a") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def is_alive(self) -> bool:
        return self.process.poll() is None


def columns(run: Path) -> list[dict[str, Any]]:
    """What must not depend on where a run was interrupted."""
    files = sorted((run / "rollouts").glob("*.jsonl")) + sorted((run / "eval").glob("*.jsonl"))
    return [{key: record[key] for key in SAME} for file in files for record in read_jsonl(file)]


def test_kill_9_with_vllm_resumes_with_the_same_prompts_seeds_and_steps(tmp_path: Path) -> None:
    for name in ("whole", "killed"):
        write_run(tmp_path / name)
    whole = Child(tmp_path / "whole" / "tiny.toml")
    assert whole.process.wait() == 0, whole.log.read_text()
    path, run = tmp_path / "killed" / "tiny.toml", tmp_path / "killed" / "runs" / "tiny"
    child = Child(path)
    assert wait_until(lambda: rows_of(run) >= 3, child), child.log.read_text()
    child.process.kill()
    child.process.wait()
    saved = int(list_checkpoints(run / "checkpoints")[-1].name.removeprefix("step-"))
    assert saved in (2, 4)
    child = Child(path)
    assert child.process.wait() == 0, child.log.read_text()
    assert f"after step {saved} of 5" in child.log.read_text()
    expected = columns(tmp_path / "whole" / "runs" / "tiny")
    assert len(expected) == 5 * 16 + 3 * 16  # five steps; evaluations before, at step 3 and after
    assert columns(run) == expected
    for row in read_jsonl(run / "metrics.jsonl"):
        assert row["logprob_gap_max"] < 1e-3
