"""A policy learns from programs that run in Docker: the tiny policy completes the body of a one-line function."""

import contextlib
import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from rloo_verify.configfile import load_config
from rloo_verify.progress import Progress
from rloo_verify.storage import read_jsonl
from rloo_verify.train import train

CONFIG = """\
[run]
name = "code"
out = "{out}"
steps = {steps}

[model]
path = "tiny-arithmetic"

[[tasks]]
name = "sum_program"

[sample]
problems_per_step = 8
group_size = 8
max_new_tokens = 40
max_prompt_tokens = 16

[policy]
engine = "transformers"

[learner]
lr = 1e-4
micro_batch_tokens = 8192

[sandbox]
backend = "docker"

[eval]
problems = 0

[save]
every = 100
"""


@pytest.mark.docker
@pytest.mark.slow
def test_a_policy_trains_on_verdicts_of_programs_in_containers(tmp_path: Path) -> None:
    config = tmp_path / "code.toml"
    config.write_text(CONFIG.format(out=tmp_path / "runs", steps=3))
    with contextlib.redirect_stdout(io.StringIO()):
        train(load_config(config), Progress(Console(file=io.StringIO())))
    rows = list(read_jsonl(tmp_path / "runs" / "code" / "metrics.jsonl"))
    text = json.dumps(rows)
    assert len(rows) == 3
    assert all(row["errors"] == 0 for row in rows), text
    assert any(row["groups_mixed"] and row["updated"] for row in rows), text
    rollouts = list(read_jsonl(tmp_path / "runs" / "code" / "rollouts" / "step-000001.jsonl"))
    assert "accepted" in json.dumps(rollouts)
