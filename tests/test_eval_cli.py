"""`rloo-verify eval`: what it prints and keeps, how it resumes, and what it says of mistakes."""

import json
import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from commands import Command, assert_user_error
from fake_server import completion, fake_server, hang, refusal
from runs import run_child
from task_folder import write_task

from rloo_verify.evaluation_settings import fingerprint_of_weights
from rloo_verify.samples import read_samples

GSM8K = Path(__file__).parents[2] / "shared" / "data" / "gsm8k" / "test.jsonl"

KEYS = {
    "task", "model", "split", "pass@1", "pass@2", "maj@2", "pass^2", "intervals", "problems", "problems_at",
    "errors_as_fail", "completions", "judged", "passed", "errors", "truncated", "mean_tokens", "reasons",
}  # fmt: skip


@pytest.fixture
def options(run_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """An evaluation of the task `letters`, which a random policy passes about half of the time."""
    monkeypatch.chdir(tmp_path)
    folder = run_file.parent
    return [
        "eval", folder / "letters", "--model", folder / "model", "--engine", "transformers", "--problems", 5, "--n", 4,
        "--k", "1,2", "--max-new-tokens", 6, "--workers", 1,
    ]  # fmt: skip


def test_eval_prints_rates_with_intervals_and_keeps_samples_summary_and_report(
    options: list[object], command: Command, tmp_path: Path
) -> None:
    code, out, err = command(*options, "--json")
    assert code == 0, err
    result = json.loads(out)
    assert set(result) == KEYS
    assert (result["problems"], result["completions"], result["problems_at"]) == (5, 20, {"1": 5, "2": 5})
    low, high = result["intervals"]["pass@1"]
    assert low < result["pass@1"] == result["passed"] / 20 < high
    folder = tmp_path / "evals" / "letters-model-4"
    assert json.loads((folder / "summary.json").read_text()) == result
    assert (folder / "report.html").stat().st_size > 10_000
    samples = read_samples(folder / "samples.jsonl")
    assert len(samples) == 20
    assert sum(sample.outcome == "pass" for sample in samples) == result["passed"]
    code, out, err = command(*options)  # nothing is drawn again
    assert (code, err) == (0, "")
    assert f"letters/test, {tmp_path / 'model'}" in out
    assert "pass@1  " in out
    assert "5 problems, 20 completions: 20 judged, 0 errors" in out
    assert "errors as fail" not in out
    assert len(read_samples(folder / "samples.jsonl")) == 20


def test_the_same_evaluation_twice_is_the_same(options: list[object], command: Command) -> None:
    first, again, other = (
        json.loads(command(*options, "--json", "--seed", seed, "--out", f"evals/{i}")[1])
        for i, seed in enumerate((1, 1, 2))
    )
    assert first == again
    assert first != other


def test_other_k_need_no_new_samples_but_any_other_change_is_named(options: list[object], command: Command) -> None:
    assert command(*options)[0] == 0
    code, out, err = command(*options, "--k", "4", "--json")
    assert (code, err) == (0, "")
    assert json.loads(out)["problems_at"] == {"1": 5, "4": 5}
    assert_user_error(command(*options, "--seed", "7"), "other settings (seed: 0 before, 7 now)", "--fresh")
    assert command(*options, "--seed", "7", "--fresh")[0] == 0


def test_other_weights_or_other_problems_under_the_same_name_are_another_evaluation(
    options: list[object], command: Command, tmp_path: Path
) -> None:
    from tiny import save_tiny_model

    assert command(*options)[0] == 0
    before = fingerprint_of_weights(str(tmp_path / "model"))
    save_tiny_model(tmp_path / "model", seed=1)
    assert fingerprint_of_weights(str(tmp_path / "model")) != before
    assert_user_error(command(*options), "other settings (weights: ")
    save_tiny_model(tmp_path / "model", seed=0)
    assert command(*options)[0] == 0
    for name, old, new in (("rows.jsonl", "0?", "0!"), ("check.py", "[:1]", "[:2]")):
        file = tmp_path / "letters" / name
        before_edit = file.read_text()
        file.write_text(before_edit.replace(old, new))
        assert_user_error(command(*options), "other settings (contents: ")
        file.write_text(before_edit)


def test_several_tasks_are_printed_one_by_one_and_together(options: list[object], command: Command) -> None:
    code, out, err = command(*options, "arithmetic", "--json")
    assert code == 0, err
    result = json.loads(out)
    assert (result["task"], result["problems"]) == ("letters+arithmetic", 10)
    assert {name: part["problems"] for name, part in result["tasks"].items()} == {"letters": 5, "arithmetic": 5}
    assert result["passed"] == sum(part["passed"] for part in result["tasks"].values())
    code, out, _ = command(*options, "arithmetic")
    assert [line.split("/")[0] for line in out.splitlines() if "/test, " in line] == [
        "letters", "arithmetic", "all 2 tasks",
    ]  # fmt: skip


def test_tasks_may_be_separated_by_commas(run_file: Path, command: Command, tmp_path: Path) -> None:
    options = ["--model", run_file.parent / "model", "--engine", "transformers", "--max-new-tokens", 3]
    code, out, err = command("eval", "arithmetic,gsm8k", *options, "--problems", 1, "--out", tmp_path / "e", "--json")
    assert code == 2, (out, err)  # gsm8k's own split is on the hub
    assert "gsm8k" in err


def test_the_exit_code_says_whether_pass_1_is_high_enough(options: list[object], command: Command) -> None:
    rate = json.loads(command(*options, "--json")[1])["pass@1"]
    assert command(*options, "--min-pass1", rate)[0] == 0
    code, out, err = command(*options, "--min-pass1", rate + 0.01)
    assert (code, "pass@1  " in out) == (1, True)
    assert f"pass@1 is {rate:.4f}, below --min-pass1" in err


@pytest.mark.skipif(not GSM8K.exists(), reason="the copy of GSM8K beside the checkout is not here")
def test_eval_reads_a_real_gsm8k_file(run_file: Path, command: Command, tmp_path: Path) -> None:
    model = run_file.parent / "model"
    config = json.loads((model / "config.json").read_text())
    (model / "config.json").write_text(json.dumps({**config, "max_position_embeddings": 2048}))
    # characters of GSM8K that the tiny tokenizer lacks become <unk>
    options = ["--problems", 3, "--max-new-tokens", 4, "--engine", "transformers", "--json", "--out", tmp_path / "e"]
    code, out, err = command("eval", "gsm8k", "--model", model, "--data", GSM8K, *options)
    assert code == 0, err
    assert (json.loads(out)["problems"], json.loads(out)["errors"]) == (3, 0)


@pytest.mark.parametrize(
    ("arguments", "part"),
    [
        (["--k", "4", "--n", "2"], "--k 4 is larger than --n 2"),
        (["--k", "1,,2"], "--k '1,,2' is not a list of positive integers such as 1,4,16"),
        (["--engine", "sglang"], "--engine sglang: must be one of auto, vllm, transformers"),
        (["--sandbox", "chroot"], "--sandbox chroot: must be one of auto, docker, bwrap"),
        (["--temperature", "0"], "at temperature 0 the 4 completions of a problem are all the same"),
        (["--model", "nothing"], "nothing: no such folder, and no hub id"),
        (["--model", ""], "--model is needed, or --base-url for a server"),
        (["--max-new-tokens", "1000"], "do not fit the context of"),
        (["--max-prompt-tokens", "1"], "the prompt is 2 tokens long, but max_prompt_tokens is 1"),
        (["--data", "/no/such/file.jsonl"], "no such data file"),
        (["--data", "x.jsonl", "arithmetic"], "--data is the file of one task"),
        (["arithmetic", "arithmetic"], "a task is named twice"),
        (["--split", "holdout"], "has no split `holdout`"),
        (["--out", "/proc/nothing"], "cannot write /proc/nothing"),
        (["--base-url", "http://127.0.0.1:9", "--api", "soap"], "--api soap: must be one of chat, completions"),
        (["--base-url", "http://127.0.0.1:9", "--request-extra", "[]"], "--request-extra '[]' is not a JSON object"),
        (["--base-url", "http://127.0.0.1:9", "--api-key-env", "NO_SUCH"], "there is no such environment variable"),
        (["--base-url", "http://127.0.0.1:9"], "no server answers at http://127.0.0.1:9"),
    ],
)
def test_a_mistake_is_one_sentence(options: list[object], command: Command, arguments: list[str], part: str) -> None:
    assert_user_error(command(*options, *arguments), part)


SERVER = ["--max-new-tokens", 6, "--workers", 1, "--json", "--retries", 0]


@pytest.fixture
def sums(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Six problems, two of each family; the answer is the number in the question."""
    monkeypatch.chdir(tmp_path)
    rows = [{"q": f"say {i}", "a": str(i), "kind": f"k{i // 2}"} for i in range(6)]
    columns = 'question = "q"\nanswer = "a"\nfamily = "kind"'
    return write_task(tmp_path / "sums", *rows, columns=columns, data='test = "rows.jsonl"')


def echo(_: int, body: dict[str, Any]) -> Any:
    return completion(body["messages"][-1]["content"].removeprefix("say "))


def test_a_server_is_evaluated_like_a_model(
    sums: Path, command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "very-secret")
    with fake_server(echo) as server:
        code, out, err = command("eval", sums, "--base-url", server.base_url, "-n", 2, "--k", 2, *SERVER)
    assert code == 0, err
    result = json.loads(out)
    assert (result["model"], result["pass@2"], result["mean_tokens"]) == ("tiny", 1.0, 3.0)
    assert result["intervals"]["pass@1"][0] == pytest.approx(0.025 ** (1 / 3))  # three families, all right
    assert server.keys == {"Bearer very-secret"}
    folder = tmp_path / "evals" / "sums-tiny-2"
    assert not [file for file in folder.iterdir() if b"very-secret" in file.read_bytes()]
    samples = read_samples(folder / "samples.jsonl")
    assert {sample.family for sample in samples} == {"k0", "k1", "k2"}
    assert {sample.prompt for sample in samples} == {f"say {i}" for i in range(6)}


def test_failures_of_the_server_are_errors_and_may_be_tried_again(sums: Path, command: Command, tmp_path: Path) -> None:
    def answer(number: int, body: dict[str, Any]) -> Any:
        question = body["messages"][-1]["content"]
        bad = {"say 1": refusal(500, "oops"), "say 3": (200, {}, b"<html>"), "say 5": (0, {}, b"")}
        return bad.get(question) or (hang() if question == "say 4" else echo(number, body))

    options = ["--model", "tiny", *SERVER, "--request-timeout", 1, "--out", tmp_path / "e"]
    with fake_server(answer) as server:
        base = ["eval", sums, "--base-url", server.base_url, *options]
        code, out, err = command(*base)
        assert code == 0, err
        result = json.loads(out)
        assert (result["judged"], result["errors"], result["reasons"]) == (2, 4, {"engine_error": 4, "correct": 2})
        assert (result["pass@1"], result["errors_as_fail"]["pass@1"]) == (1.0, pytest.approx(2 / 6))
        asked = len(server.bodies)
        code, out, _ = command(*[option for option in base if option != "--json"])
        assert "errors as fail" in out
        assert "k = 1: 4 of 6 problems have fewer than 1 judged answers and are left out" in out
        assert len(server.bodies) == asked
        server.answer = echo
        code, out, err = command(*base, "--retry-errors")
    assert code == 0, err
    assert (json.loads(out)["judged"], json.loads(out)["errors"], len(server.bodies)) == (6, 0, asked + 4)
    details = {sample.detail for sample in read_samples(tmp_path / "e" / "samples.jsonl")}
    assert not any("oops" in detail for detail in details)


def test_where_nothing_could_be_judged_there_is_no_rate_and_no_success(
    sums: Path, command: Command, tmp_path: Path
) -> None:
    with fake_server(lambda *_: refusal(500, "oops")) as server:
        code, out, err = command(
            "eval", sums, "--base-url", server.base_url, "--min-pass1", 0, *SERVER, "--out", tmp_path / "e"
        )
    assert code == 1
    assert "pass@1 is not known" in err
    assert (json.loads(out)["pass@1"], json.loads(out)["errors"]) == (None, 6)


def start(*arguments: object, log: Path) -> Any:
    """Starts the command line in a process of its own, forked from one that imported the libraries."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["rloo_verify.evaluation_run", "transformers.models.llama.modeling_llama", "runs"])
    child = context.Process(target=run_child, args=([str(argument) for argument in arguments], log))
    child.start()
    return child


def wait_for_samples(file: Path, count: int, child: Any) -> None:
    limit = time.monotonic() + 120
    while not file.exists() or file.read_bytes().count(b"\n") < count:
        assert child.is_alive(), "the evaluation ended before it could be stopped"
        assert time.monotonic() < limit, "the evaluation hangs"
        time.sleep(0.002)


def lines(file: Path) -> list[str]:
    return sorted(file.read_text().splitlines())


def test_an_evaluation_killed_in_the_middle_gives_the_same_table_when_run_again(
    command: Command, tmp_path: Path
) -> None:
    base = ["eval", "arithmetic", "--model", "tiny-arithmetic", "--engine", "transformers", "--problems", 40]
    base += ["-n", 8, "--k", "1,8", "--max-new-tokens", 24, "--workers", 1]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    code, expected, err = command(*base, "--out", whole, "--json")
    assert code == 0, err
    for count in (1, 100, 270):  # in the first batch of 256 requests, and in the second
        child = start(*base, "--out", killed, log=tmp_path / "log")
        wait_for_samples(killed / "samples.jsonl", count, child)
        child.kill()
        child.join(30)
        assert child.exitcode == -signal.SIGKILL
        with (killed / "samples.jsonl").open("a") as file:
            file.write('{"problem": "arithmetic/te')  # what a kill in the middle of a write leaves
    assert len(lines(killed / "samples.jsonl")) < 321
    code, table, err = command(*base, "--out", killed)
    assert code == 0
    assert "resuming after" in err
    assert lines(killed / "samples.jsonl") == lines(whole / "samples.jsonl")
    assert command(*base, "--out", killed, "--json")[1] == expected
    assert table.replace(str(killed), str(whole)) == command(*base, "--out", whole)[1]


def test_ctrl_c_says_how_to_go_on(sums: Path, tmp_path: Path) -> None:
    with fake_server(lambda i, body: echo(i, body) if i < 3 else hang()) as server:
        log, out = tmp_path / "log", tmp_path / "e"
        child = start("eval", sums, "--base-url", server.base_url, "--model", "tiny", *SERVER, "--out", out, log=log)
        wait_for_samples(out / "samples.jsonl", 3, child)
        os.kill(child.pid, signal.SIGINT)
        child.join(30)
    assert child.exitcode == 130
    text = log.read_text()
    assert f"interrupted: 3 of 6 samples are in {out}; the same command goes on from there" in text
    assert "Traceback" not in text
