"""The commands `tasks list | show | check | new`."""

import json
from pathlib import Path

import pytest
from click.testing import Result
from tiny import character_tokenizer
from typer.testing import CliRunner

from rloo_verify.errors import TaskError
from rloo_verify.tasks_cli import app


def run(*arguments: object) -> Result:
    result = CliRunner().invoke(app, [str(argument) for argument in arguments])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def test_list_shows_every_built_in_task_on_one_line_each() -> None:
    output = run("list").output
    (line,) = [line for line in output.splitlines() if line.startswith("gsm8k ")]
    assert line.split()[-5:] == ["train", "test", "sample", "math", "built-in"]


def test_list_shows_a_broken_task_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "task.toml").write_text("nonsense = 1\n")
    monkeypatch.setenv("RLOO_VERIFY_TASKS", str(tmp_path))
    output = run("list").output
    assert "cannot be used" in output
    assert "gsm8k" in output


def test_show_prints_the_exact_prompt_and_the_reference() -> None:
    lines = run("show", "arithmetic", "-n", 1, "--split", "test").output.splitlines()
    assert lines[0] == "== arithmetic/test/0"
    assert "Compute 815+941. End with the result alone." in lines
    assert "815+941=" in lines
    assert '"1756"' in lines


def test_show_leaves_brackets_in_prompts_alone(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"question": "[bold]x[/bold] [asy]", "answer": "#### 1"}\n')
    assert "[bold]x[/bold] [asy]" in run("show", "gsm8k", "--data", tmp_path / "rows.jsonl").output


def test_show_with_a_model_prints_what_it_sees_and_the_token_ids(tmp_path: Path) -> None:
    tokenizer = character_tokenizer()
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "llama"}))
    lines = run("show", "arithmetic", "-n", 1, "--model", tmp_path).output.splitlines()
    ids = [tokenizer.convert_tokens_to_ids(character) for character in "1+3="]
    assert lines[lines.index("-- 4 token ids") + 1] == " ".join(map(str, ids))
    assert any("it has no chat template" in line for line in lines)


def test_show_takes_other_columns_and_options() -> None:
    assert "86*45=" in run("show", "arithmetic", "-n", 1, "--split", "test", "--option", "level=5").output
    with pytest.raises(TaskError, match="--columns takes name=column"):
        run("show", "gsm8k", "--columns", "question")
    with pytest.raises(TaskError, match="--option takes name=value"):
        run("show", "arithmetic", "--option", "level")


def test_check_passes_on_a_sound_task() -> None:
    result = run("check", "countdown")
    assert result.exit_code == 0, result.output
    assert "8 references pass, nothing wrong" in result.output


def test_check_exits_with_1_and_names_what_it_found(tmp_path: Path) -> None:
    run("new", "mine", "--dir", tmp_path)
    folder = tmp_path / "mine"
    (folder / "cases.jsonl").write_text(
        '{"answer": "42", "completion": "\\\\boxed{43}", "expect": "pass", "why": "wrong on purpose"}\n'
    )
    (folder / "data" / "sample.jsonl").write_text('{"question": "x", "answer": "1"}\n{"question": "", "answer": "1"}\n')
    result = run("check", folder)
    assert result.exit_code == 1
    assert "case 1 (wrong on purpose): expected pass, got fail" in result.output
    assert "mine/sample/1" in result.output
    assert "the question is empty" in result.output
    assert "2 rows of sample, 1 references pass, 2 findings" in result.output


def test_check_lists_references_that_do_not_pass_and_empty_answers_that_do(tmp_path: Path) -> None:
    run("new", "mine", "--dir", tmp_path)
    folder = tmp_path / "mine"
    text = (folder / "task.toml").read_text()
    (folder / "task.toml").write_text(text.replace('checker = "math"', 'checker = "check.py:check"'))
    (folder / "check.py").write_text(
        "def check(completion, answer, row):\n"
        "    if row.get('answer') == '7/2':\n        raise ValueError('no idea')\n"
        "    return not completion\n\n\n"
        "def reference(row):\n    return row['answer']\n"
    )
    (folder / "cases.jsonl").write_text('{"answer": "1", "completion": "1", "expect": "fail", "why": "w"}\n')
    output = run("check", folder).output
    assert "mine/sample/0: the reference itself, written as '42', got fail" in output
    assert "mine/sample/0: an empty answer should fail, but got pass" in output
    assert "mine/sample/1 cannot be judged: error" in output


def test_rows_without_a_reference_are_counted_and_are_no_finding(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"target": 98, "nums": [44, 19, 35]}\n')
    result = run("check", "countdown", "--data", tmp_path / "rows.jsonl")
    assert result.exit_code == 0
    assert "1 rows have no reference to check, nothing wrong" in result.output


def test_cases_keep_the_columns_of_the_task_when_a_file_has_others(tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"prompt": "2+2?", "label": "4"}\n')
    columns = "question=prompt,answer=label"
    result = run("check", "gsm8k", "--data", tmp_path / "rows.jsonl", "--columns", columns, "--gold", "raw")
    assert result.exit_code == 0, result.output


def test_a_new_task_works_at_once(tmp_path: Path) -> None:
    assert "wrote" in run("new", "my_task", "--dir", tmp_path / "tasks").output
    folder = tmp_path / "tasks" / "my_task"
    result = run("check", folder)
    assert result.exit_code == 0, result.output
    assert "4 cases, 2 rows of sample, 2 references pass, nothing wrong" in result.output
    assert "What is 12 + 30?" in run("show", folder, "-n", 1).output


def test_the_check_of_a_new_task_works_when_its_comments_are_taken_off(tmp_path: Path) -> None:
    run("new", "mine", "--dir", tmp_path)
    folder = tmp_path / "mine"
    for file, old, new in (
        ("check.py", "\n# ", "\n"),
        ("check.py", "\n#\n", "\n\n"),
        ("task.toml", '"math"  #', '"check.py:check"  #'),
    ):
        path = folder / file
        path.write_text(path.read_text().replace(old, new))
    (folder / "cases.jsonl").write_text('{"answer": "1", "completion": "so\\n1", "expect": "pass", "why": "w"}\n')
    result = run("check", folder)
    assert result.exit_code == 0, result.output
    assert "2 references pass" in result.output


@pytest.mark.parametrize(
    ("name", "message"), [("My Task", "cannot name a task"), ("gsm8k", "already a task"), ("mine", "already a task")]
)
def test_a_name_that_is_taken_or_unusable_is_refused(tmp_path: Path, name: str, message: str) -> None:
    (tmp_path / "mine").mkdir()
    with pytest.raises(TaskError, match=message):
        run("new", name, "--dir", tmp_path)
