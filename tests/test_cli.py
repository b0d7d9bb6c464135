"""The command line: one sentence and exit code 2 for what a user can mend, and what each command prints."""

import contextlib
import gzip
import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from runs import CHECK, config_of, rows_of, small_disk, write_run

from rloo_verify.cli import main
from rloo_verify.configfile import load_config
from rloo_verify.errors import RlooVerifyError

GSM8K = Path(__file__).parents[2] / "shared" / "data" / "gsm8k" / "test.jsonl"


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    return write_run(tmp_path)


@pytest.fixture
def command(capsys: pytest.CaptureFixture[str]) -> Iterator[Callable[..., tuple[int, str, str]]]:
    """Runs the command line in this process; returns exit code, standard output, standard error."""
    handlers, level = logging.root.handlers[:], logging.root.level

    def run(*arguments: object) -> tuple[int, str, str]:
        capsys.readouterr()
        code: object = 0
        try:
            main([str(argument) for argument in arguments])
        except SystemExit as end:
            code = end.code or 0
        captured = capsys.readouterr()
        assert isinstance(code, int)
        return code, captured.out, captured.err

    yield run
    logging.root.handlers[:] = handlers  # the command line's own would write to a stream that is closed by now
    logging.root.setLevel(level)


Command = Callable[..., tuple[int, str, str]]


def assert_user_error(result: tuple[int, str, str], *parts: str) -> None:
    """Exit code 2 and one sentence on standard error that has all parts; progress notes may precede it."""
    code, out, err = result
    assert code == 2, out + err
    (error,) = [line for line in err.splitlines() if line.startswith("error: ")]
    for part in parts:
        assert part in error
    assert "Traceback" not in out + err


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
    assert_user_error(command("view", tmp_path), "is not a run folder: it has no config.toml")


def test_the_doctor_reports_every_part_of_the_machine(command: Command) -> None:
    code, out, _ = command("doctor")
    assert code == 0
    for part in ("python", "torch", "transformers engine", "vllm engine", "docker", "bwrap"):
        assert part in out


EVAL_KEYS = {
    "task", "model", "split", "pass@1", "pass@2", "problems", "problems_at", "completions", "judged", "passed",
    "errors", "truncated", "mean_tokens", "reasons",
}  # fmt: skip


def test_eval_prints_rates_with_their_counts(run_file: Path, command: Command) -> None:
    common = ["eval", "arithmetic", "--model", run_file.parent / "model", "--engine", "transformers"]
    options = [*common, "--problems", 5, "--n", 4, "--k", "1,2", "--max-new-tokens", 6, "--max-prompt-tokens", 16]
    samples = run_file.parent / "samples.jsonl"
    code, out, err = command(*options, "--json", "--out", samples)
    assert code == 0, err
    result = json.loads(out)
    assert set(result) == EVAL_KEYS
    assert (result["problems"], result["completions"]) == (5, 20)
    assert result["judged"] + result["errors"] == 20
    assert result["problems_at"] == {"1": 5, "2": 5}
    records = [json.loads(line) for line in samples.read_text().splitlines()]
    assert len(records) == 20
    assert sum(record["outcome"] == "pass" for record in records) == result["passed"]
    code, out, _ = command(*options)
    assert out.startswith(f"arithmetic/test, {run_file.parent / 'model'}: pass@1 ")
    assert "(5 problems, 20 judged, 0 errors, " in out


def test_the_same_evaluation_twice_is_the_same(run_file: Path, command: Command) -> None:
    common = ["eval", run_file.parent / "letters", "--model", run_file.parent / "model", "--engine", "transformers"]
    options = [*common, "--n", 3, "--max-new-tokens", 4, "--max-prompt-tokens", 8, "--json"]
    first, again, other = (json.loads(command(*options, "--seed", seed)[1]) for seed in (1, 1, 2))
    assert first == again
    assert first != other


@pytest.mark.skipif(not GSM8K.exists(), reason="the copy of GSM8K beside the checkout is not here")
@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_eval_and_a_dry_run_read_a_real_gsm8k_file(
    run_file: Path, command: Command, tmp_path: Path, suffix: str
) -> None:
    data = tmp_path / f"test{suffix}"
    data.write_bytes(GSM8K.read_bytes() if suffix == ".jsonl" else gzip.compress(GSM8K.read_bytes()))
    model = run_file.parent / "model"
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 2048}))
    # characters of GSM8K that the tiny tokenizer lacks become <unk>
    options = ["--problems", 3, "--max-new-tokens", 4, "--engine", "transformers", "--json"]
    code, out, err = command("eval", "gsm8k", "--model", model, "--data", data, *options)
    assert code == 0, err
    assert (json.loads(out)["problems"], json.loads(out)["errors"]) == (3, 0)
    overrides = ["--tasks.1.name=gsm8k", "--tasks.1.options={}", f"--tasks.1.data={data}", "--eval.problems=0"]
    code, out, err = command("train", run_file, "--dry-run", "--sample.max_prompt_tokens=1800", *overrides,
                             "--learner.micro_batch_tokens=4096")  # fmt: skip
    assert code == 0, err  # every prompt of the file was rendered
    result = command("train", run_file, "--dry-run", *overrides)
    assert_user_error(result, "gsm8k/train/0: the prompt is", "but max_prompt_tokens is 16")


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--k", "4", "--n", "2"], "--k 4 is larger than --n 2"),
        (["--engine", "sglang"], "--engine sglang: must be one of auto, vllm, transformers"),
        (["--model", "nothing"], "nothing: no such folder, and no hub id"),
        (["--max-new-tokens", "1000"], "tokens, but the context of"),
        (["--data", "/no/such/file.jsonl"], "no such data file"),
        (["--split", "holdout"], "has no split `holdout`"),
        (["--out", "/proc/nothing/samples.jsonl"], "cannot write /proc/nothing/samples.jsonl"),
    ],
)
def test_a_mistake_in_an_evaluation_is_one_sentence(
    run_file: Path, command: Command, arguments: list[str], part: str
) -> None:
    base = ["--model", run_file.parent / "model", "--engine", "transformers", "--problems", 1, "--max-new-tokens", 4]
    result = command("eval", "arithmetic", *base, "--max-prompt-tokens", 16, *arguments)
    assert_user_error(result, part)


@pytest.mark.parametrize("k", ["0", "one", "", "1,,2"])
def test_a_list_of_k_that_is_none_is_one_sentence(run_file: Path, command: Command, k: str) -> None:
    result = command("eval", "arithmetic", "--model", run_file.parent / "model", "--k", k)
    assert_user_error(result, f"--k {k!r} is not a list of positive integers such as 1,4,16")


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
