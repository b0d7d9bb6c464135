"""Judged completions as lines of a file."""

import json
from pathlib import Path

import pytest
from groups import judged_group
from tiny import character_tokenizer

from rloo_verify.errors import RunError
from rloo_verify.records import group_records
from rloo_verify.samples import Sample, group_samples, read_samples
from rloo_verify.types import Outcome

SAMPLE = Sample(
    prompt="2+2=", problem="t/test/0", task="t", family="sums", sample_index=3, outcome=Outcome.PASS, reason="correct",
    answer="4", reference=["4", "four"], tokens=2, finish_reason="stop", logprob_sum=-0.25, policy_version=7, seed=11,
    text="\u2028 \ud800 4",
)  # fmt: skip


def write(path: Path, *lines: str, end: str = "\n") -> Path:
    path.write_text("\n".join(lines) + end)
    return path


def test_a_sample_is_the_same_after_writing_and_reading(tmp_path: Path) -> None:
    assert SAMPLE.line().isascii()
    assert read_samples(write(tmp_path / "s.jsonl", SAMPLE.line(), SAMPLE.line())) == [SAMPLE, SAMPLE]


def test_the_keys_of_a_line_are_the_documented_ones_in_their_order() -> None:
    assert list(json.loads(SAMPLE.line())) == [
        "prompt", "problem", "task", "family", "sample_index", "outcome", "reason", "detail", "answer", "reference",
        "tokens", "finish_reason", "logprob_sum", "policy_version", "seed", "text",
    ]  # fmt: skip


def test_what_a_training_run_writes_is_read_as_samples(tmp_path: Path) -> None:
    group = judged_group("a", "pfe", cut="x..")
    path = write(tmp_path / "step-000003.jsonl", *group_records([group], character_tokenizer(), step=3))
    read = read_samples(path)
    assert [sample.outcome for sample in read] == [Outcome.PASS, Outcome.FAIL, Outcome.ERROR]
    assert [sample.truncated for sample in read] == [True, False, False]
    assert [sample.line() for sample in read] != [sample.line() for sample in group_samples([group])]  # prompts
    assert read[0].prompt == "12"


def test_a_torn_last_line_is_left_out_and_another_broken_line_is_named(tmp_path: Path) -> None:
    torn = SAMPLE.line()[:40]
    assert read_samples(write(tmp_path / "s.jsonl", SAMPLE.line(), torn, end="")) == [SAMPLE]
    with pytest.raises(RunError, match=r"s\.jsonl, line 2 is not JSON"):
        read_samples(write(tmp_path / "s.jsonl", SAMPLE.line(), torn, SAMPLE.line()))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"problem": "a", "task": "t"}', "it lacks `outcome`"),
        ('{"problem": "a", "task": "t", "outcome": "good"}', "'good' is not a valid Outcome"),
        ("[1]", "it is not a JSON object"),
    ],
)
def test_a_line_that_is_no_judged_completion_is_named(tmp_path: Path, line: str, message: str) -> None:
    with pytest.raises(RunError, match=f"line 1 is not a judged completion: {message}"):
        read_samples(write(tmp_path / "s.jsonl", line))


def test_a_file_that_is_not_there_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"cannot be read: No such file"):
        read_samples(tmp_path / "s.jsonl")
