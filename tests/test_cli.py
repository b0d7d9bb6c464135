"""The command line: one sentence and exit code 2 for what a user can mend, and what each command prints."""

import contextlib
import json
import subprocess
import sys
from pathlib import Path

import pytest
from commands import Command, assert_user_error
from runs import CHECK, config_of, rows_of, small_disk, write_run

from rloo_verify.configfile import load_config
from rloo_verify.errors import RlooVerifyError

GSM8K = Path(__file__).parents[2] / "shared" / "data" / "gsm8k" / "test.jsonl"


@pytest.mark.parametrize(
    ("arguments", "parts"),
    [
        (["--learner.warmup", "5"], ["command line: unknown key learner.warmup; did you mean warmup_steps?"]),
        (["--run.steps", "many"], ["command line: run.steps = 'many': must be a valid integer"]),
        (["--sample.group_size", "1"], ["sample.group_size = 1: must be greater than or equal to 2"]),
        (["--sample.top_p", "0.9"], ["sample.top_p: refused because it truncates the distribution"]),
        (["--frsh"], ["unknown argument --frsh"]),
        (["--model.path", "no-such-model"], ["model.path = no-such-model: no such folder, and no hub id"]),
        (["--model.path", "/no/such/folder"], ["model.path = /no/such/folder: no such folder"]),
        (["--model.path", "{tmp}"], ["the folder has no config.json, so it is not a Hugging Face model"]),
        (["--model.path", "no-one/nothing"], ["model.path = no-one/nothing: cannot load the"]),
        (["--tasks.0.name", "arithmetik"], ["no task is named `arithmetik`", "arithmetic"]),
        (["--tasks.0.split", "holdout"], ["task letters has no split `holdout`"]),
        (["--tasks.0.data", "/no/such/file.jsonl"], ["no such data file: /no/such/file.jsonl"]),
        (["--tasks.1.options", "{{ level = 9 }}"], ["level must be 1 to 6, not 9"]),
        (
            ["--sample.max_prompt_tokens", "1"],
            ["letters/train/0: the prompt is 2 tokens long, but max_prompt_tokens is 1"],
        ),
        (
            ["--sample.max_prompt_tokens", "250", "--learner.micro_batch_tokens", "300"],
            ["sample.max_prompt_tokens + sample.max_new_tokens = 258 tokens", "holds 256"],
        ),
        (["--run.out", "/proc/nothing"], ["cannot write /proc/nothing"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) and value[0].startswith("--") else "",
)
def test_a_mistake_in_the_config_is_one_sentence(
    run_file: Path, command: Command, arguments: list[str], parts: list[str]
) -> None:
    arguments = [argument.format(tmp=run_file.parent) for argument in arguments]
    assert_user_error(command("train", run_file, *arguments), *parts)
    assert not (run_file.parent / "runs").exists()  # found out before anything is written


def test_unknown_keys_name_file_and_line(run_file: Path, command: Command) -> None:
    run_file.write_text(run_file.read_text().replace("[learner]\n", "[learner]\nlearning_rate = 1.0\n"))
    line = run_file.read_text().splitlines().index("learning_rate = 1.0") + 1
    assert_user_error(command("train", run_file), f"{run_file}:{line}: unknown key learner.learning_rate")


def test_a_config_that_does_not_exist_names_the_built_in_ones(command: Command) -> None:
    assert_user_error(command("train", "quikstart"), "no config file quikstart", "quickstart")


@pytest.mark.parametrize(
    ("rows", "part"),
    [([{"question": "1?", "a": "b"}], "`q`"), ([], "has no rows"), ([{"q": "1?"}], "`a`")],
)
def test_wrong_columns_and_empty_data_are_one_sentence(
    run_file: Path, command: Command, rows: list[dict[str, str]], part: str
) -> None:
    data = run_file.parent / "data.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert_user_error(command("train", run_file, "--tasks.0.data", data), part, "data.jsonl")


def test_without_vllm_the_setting_vllm_is_refused_and_auto_falls_back(
    run_file: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rloo_verify.setup.vllm_unavailable", lambda: "vLLM is not installed; do this.")
    assert_user_error(
        command("train", run_file, "--policy.engine", "vllm"), "policy.engine = vllm: vLLM is not installed; do this."
    )
    code, out, _ = command("train", run_file, "--policy.engine", "auto", "--dry-run")
    assert code == 0
    assert "# engine: transformers (vLLM is not installed; do this.)" in out


def test_a_dry_run_prints_the_resolved_config_which_loads_again_and_writes_nothing(
    run_file: Path, command: Command
) -> None:
    code, out, _ = command("train", run_file, "--dry-run", "--learner.lr=2e-4")
    assert code == 0
    printed = run_file.parent / "printed.toml"
    printed.write_text(out)
    assert load_config(printed) == config_of(run_file, "--learner.lr=2e-4")
    assert "# first prompt: " in out
    assert not (run_file.parent / "runs").exists()


def test_debug_shows_the_traceback_wherever_it_is_typed(run_file: Path, command: Command) -> None:
    for arguments in (["--debug", "train", run_file], ["train", run_file, "--debug"]):
        with pytest.raises(RlooVerifyError, match="warmup_steps"):
            command(*arguments, "--learner.warmup", "5")


def test_a_training_run_ends_with_before_after_and_the_report(run_file: Path, command: Command) -> None:
    code, out, _ = command("train", run_file, "--run.steps=2")
    assert code == 0
    run = run_file.parent / "runs" / "tiny"
    assert "step 2/2  reward " in out
    assert "held-out pass@1: " in out
    assert f"report: {run / 'report.html'}" in out.splitlines()[-1]
    code, out, _ = command("train", run_file, "--run.steps=2")
    assert code == 0
    assert "is finished after 2 steps" in out
    assert_user_error(command("train", run_file, "--learner.lr=5e-3"), "different config (learner.lr: 0.001 -> 0.005)")
    code, out, _ = command("train", run_file, "--run.steps=1", "--learner.lr=5e-3", "--fresh")
    assert (code, rows_of(run)) == (0, 1)
    (run / "report.html").unlink()
    code, out, _ = command("view", run)
    assert (code, out.strip()) == (0, str(run / "report.html"))
    assert (run / "report.html").exists()


def test_where_nothing_was_judged_the_rates_are_not_available(tmp_path: Path, command: Command) -> None:
    path = write_run(tmp_path, check="def check(completion, answer, row):\n    raise ValueError\n")
    path.write_text(path.read_text().replace('[[tasks]]\nname = "arithmetic"\noptions = { level = 1 }\n', ""))
    code, out, err = command("train", path, "--run.steps=1", "--verify.max_error_share=1")
    assert code == 0, err
    assert "held-out pass@1: n/a before, n/a after" in out


def test_a_checker_that_raises_stops_the_run_with_exit_code_2(tmp_path: Path, command: Command) -> None:
    path = write_run(tmp_path, check="def check(completion, answer, row):\n    raise ValueError('bad luck')\n")
    result = command("train", path, "--eval.problems=0")
    assert_user_error(result, "could not be judged, above verify.max_error_share = 20%", "bad luck")


def test_a_checker_that_cannot_be_imported_is_found_before_anything_starts(tmp_path: Path, command: Command) -> None:
    path = write_run(tmp_path, check="import nonsense_that_is_not_there\n" + CHECK)
    assert_user_error(command("train", path), f"{tmp_path}/letters/check.py", "nonsense_that_is_not_there")
    assert not (tmp_path / "runs").exists()


def test_viewing_something_else_is_one_sentence(tmp_path: Path, command: Command) -> None:
    assert_user_error(command("view", tmp_path), "is no run folder (config.toml)")


def test_the_doctor_reports_every_part_of_the_machine(command: Command) -> None:
    code, out, _ = command("doctor")
    assert code == 0
    for part in ("python", "torch", "transformers engine", "vllm engine", "docker", "bwrap"):
        assert part in out


@pytest.mark.skipif(not GSM8K.exists(), reason="the copy of GSM8K beside the checkout is not here")
def test_a_dry_run_reads_a_real_gsm8k_file(run_file: Path, command: Command) -> None:
    model = run_file.parent / "model"
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 2048}))
    overrides = ["--tasks.1.name=gsm8k", "--tasks.1.options={}", f"--tasks.1.data={GSM8K}", "--eval.problems=0"]
    code, _, err = command("train", run_file, "--dry-run", "--sample.max_prompt_tokens=1800", *overrides,
                           "--learner.micro_batch_tokens=4096")  # fmt: skip
    assert code == 0, err  # every prompt of the file was rendered
    result = command("train", run_file, "--dry-run", *overrides)
    assert_user_error(result, "gsm8k/train/0: the prompt is", "but max_prompt_tokens is 16")


def test_the_installed_program_exits_with_2_and_no_traceback(run_file: Path) -> None:
    program = Path(sys.executable).with_name("rloo-verify")
    done = subprocess.run(
        [program, "train", run_file, "--run.steps", "many"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "error: command line: run.steps = 'many': must be a valid integer\n"


def test_the_help_names_every_command(command: Command) -> None:
    code, out, _ = command("--help")
    assert code == 0
    for name in ("train", "eval", "tasks", "view", "doctor"):
        assert name in out


@pytest.mark.parametrize("room_kib", [0, 40, 2000])
def test_a_full_disk_is_one_sentence_and_exit_code_2(
    run_file: Path, command: Command, tmp_path: Path, room_kib: int
) -> None:
    # Room for nothing, for the first files, and for the first checkpoint; the log file is on that disk, too.
    with small_disk(tmp_path / "disk", "4m") as disk:
        (disk / "filler").write_bytes(bytes(4096 * 1024 - room_kib * 1024 - 64 * 1024))
        with contextlib.suppress(OSError), (disk / "rest").open("wb") as file:
            while room_kib == 0:
                file.write(bytes(4096))
        result = command("train", run_file, f"--run.out={disk}", "--run.steps=8")
    assert_user_error(result, "the disk is full; what was written before is intact, make room and run the same")
