"""From a task folder to problems: column maps, overrides, and what is said when a row is wrong."""

import json
from pathlib import Path
from typing import Any

import datasets
import pytest
from task_folder import write_task

from rloo_verify.errors import TaskError
from rloo_verify.tasks import find_task

BUILT_IN = ["aime24", "aime25", "arithmetic", "countdown", "dapo_math", "deepmath", "gsm8k", "math", "math500"]


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_sample_of_every_built_in_task_loads_offline(name: str) -> None:
    problems = find_task(name).problems("sample")
    assert len(problems) == 8
    assert problems[0].id == f"{name}/sample/0"
    assert problems[0].messages[-1]["role"] == "user"


def test_flat_rows_load_by_a_column_map_alone(tmp_path: Path) -> None:
    (problem,) = find_task(write_task(tmp_path / "mine", {"q": "1+1", "a": "2", "k": 7})).problems("train")
    assert (problem.id, problem.answer, problem.plain) == ("mine/train/0", "2", "1+1")
    assert problem.messages == ({"role": "user", "content": "1+1"},)
    assert problem.row["k"] == 7


VERL = {"prompt": [{"role": "user", "content": "1+1"}], "reward_model": {"ground_truth": "2", "style": "rule"}}


@pytest.mark.parametrize(
    "row",
    [VERL, {key: json.dumps(value) for key, value in VERL.items()}],
    ids=["nested", "nested columns as JSON text"],
)
def test_verl_rows_load_by_a_column_map_alone(tmp_path: Path, row: dict[str, Any]) -> None:
    folder = write_task(
        tmp_path / "mine", row, columns='messages = "prompt"\nanswer = "reward_model.ground_truth"', prompt=""
    )
    (problem,) = find_task(folder).problems("train")
    assert problem.messages == ({"role": "user", "content": "1+1"},)
    assert (problem.answer, problem.plain, problem.row["question"]) == ("2", "1+1", "1+1")


def test_messages_and_ground_truth_load_by_a_column_map_alone(tmp_path: Path) -> None:
    messages = [{"role": "system", "content": "Think."}, {"role": "user", "content": "1+1"}]
    folder = write_task(
        tmp_path / "mine",
        {"messages": json.dumps(messages), "ground_truth": "2"},
        columns='messages = "messages"\nanswer = "ground_truth"',
        prompt="",
    )
    (problem,) = find_task(folder).problems("train")
    assert problem.messages == tuple(messages)
    assert problem.plain == "1+1"  # a model without a chat template knows no system message


def test_integers_over_64_bits_reach_the_problem(tmp_path: Path) -> None:
    (problem,) = find_task(write_task(tmp_path / "mine", {"q": "2^70?", "a": 2**70})).problems("train")
    assert problem.answer == 1180591620717411303424


def test_dotted_paths_reach_into_lists_and_named_columns_reach_templates(tmp_path: Path) -> None:
    folder = write_task(
        tmp_path / "mine",
        {"meta": {"terms": [3, 4]}, "out": ["x", "7"]},
        columns='terms = "meta.terms"\nanswer = "out.1"',
        prompt='user = "Add {terms}, then {meta.terms.0}."',
    )
    (problem,) = find_task(folder).problems("train")
    assert problem.plain == "Add [3, 4], then 3."
    assert (problem.answer, problem.row["terms"]) == ("7", [3, 4])


def test_duplicate_prompts_count_once_and_keep_the_first_row_number(tmp_path: Path) -> None:
    rows = [{"q": "1+1", "a": "2"}, {"q": "1+1", "a": "2"}, {"q": "1+2", "a": "3"}]
    folder = write_task(tmp_path / "mine", *rows, data="dedupe = true")
    assert [problem.id for problem in find_task(folder).problems("train")] == ["mine/train/0", "mine/train/2"]
    assert len(find_task("dapo_math").problems("sample")) == 8  # nine rows, the first one twice


def test_the_limit_counts_problems_and_stops_reading(tmp_path: Path) -> None:
    task = find_task(write_task(tmp_path / "mine", {"q": "1+1", "a": "2"}, {"q": "1+2", "a": "3"}, {"broken": True}))
    assert [problem.answer for problem in task.problems("train", limit=2)] == ["2", "3"]
    with pytest.raises(TaskError, match="at least 1"):
        task.problems("train", limit=0)


def test_an_id_column_names_the_problem_and_must_not_repeat(tmp_path: Path) -> None:
    columns = 'question = "q"\nanswer = "a"\nid = "meta.key"'
    rows = [{"q": "1+1", "a": "2", "meta": {"key": "x7"}}]
    task = find_task(write_task(tmp_path / "mine", *rows, columns=columns))
    assert task.problems("train")[0].id == "mine/train/x7"
    with pytest.raises(TaskError, match="two rows have the id mine/train/x7"):
        find_task(write_task(tmp_path / "sub/mine", *rows, *rows, columns=columns)).problems("train")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"question": "1+1", "a": "2"}, r"no column `q`; the columns are: question, a"),
        ({"q": "1+1", "ans": "2"}, r"no column `a`.*the columns are: q, ans"),
        ({"q": " ", "a": "2"}, "the question is empty"),
        ({"q": None, "a": "2"}, "the question is empty"),
        ({"q": "1+1", "a": None}, "the answer is empty"),
        ({"q": "1+1", "a": ""}, "the answer is empty"),
    ],
)
def test_a_row_that_cannot_be_used_is_named_with_its_file(tmp_path: Path, row: dict[str, Any], message: str) -> None:
    folder = write_task(tmp_path / "mine", {"q": "0+0", "a": "0"}, row)
    with pytest.raises(TaskError, match=message) as caught:
        find_task(folder).problems("train")
    assert "mine/train/1" in str(caught.value)
    assert "rows.jsonl" in str(caught.value)


@pytest.mark.parametrize(
    ("messages", "message"),
    [
        ("hello", "not JSON"),
        ([], "no list of chat messages"),
        ([{"role": "robot", "content": "x"}], "needs a `role` among"),
        ([{"role": "user", "content": [{"type": "text"}]}], "content of a user message is not text"),
        ([{"role": "user", "content": "1+1"}, {"role": "assistant", "content": "2"}], "from the assistant, not"),
        ([{"role": "user", "content": ""}], "the question is empty"),
    ],
)
def test_unusable_messages_are_explained(tmp_path: Path, messages: Any, message: str) -> None:
    folder = write_task(tmp_path / "mine", {"m": messages, "a": "2"}, columns='messages = "m"\nanswer = "a"', prompt="")
    with pytest.raises(TaskError, match=message):
        find_task(folder).problems("train")


def test_a_data_file_without_rows_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"mine/train: rows.jsonl has no rows"):
        find_task(write_task(tmp_path / "mine")).problems("train")


def test_an_unknown_split_names_those_that_exist() -> None:
    with pytest.raises(TaskError, match="aime24 has no split `train`; it has test, sample"):
        find_task("aime24").problems("train")


def test_a_local_file_replaces_the_source_of_a_split(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = write_task(tmp_path / "mine", {"q": "1+1", "a": "2"})
    (tmp_path / "other.jsonl").write_text('{"q": "3+3", "a": "6"}\n')
    monkeypatch.chdir(tmp_path)
    assert find_task(folder).problems("train", data="other.jsonl")[0].answer == "6"
    overridden = find_task(folder, {"train": "other.jsonl", "test": tmp_path / "other.jsonl"})
    assert [overridden.problems(split)[0].answer for split in ("train", "test")] == ["6", "6"]
    with pytest.raises(TaskError, match=r"no such split \(did you mean `train`"):
        find_task(folder, {"trian": "other.jsonl"})


def test_columns_and_gold_can_be_overridden_for_a_local_file(tmp_path: Path) -> None:
    folder = write_task(tmp_path / "mine", {"q": "1+1", "a": "2"})
    (tmp_path / "other.jsonl").write_text(
        '{"chat": [{"role": "user", "content": "3+3"}], "gt": {"text": "it is #### 6"}}\n'
    )
    task = find_task(folder, columns={"messages": "chat", "answer": "gt.text"}, gold="after_hashes")
    (problem,) = task.problems("train", data=tmp_path / "other.jsonl")
    assert (problem.plain, problem.answer) == ("3+3", "6")
    with pytest.raises(TaskError, match="'raw', 'after_hashes'"):
        find_task(folder, gold="hashes")
    with pytest.raises(TaskError, match="too near to `answer`"):
        find_task(folder, columns={"anwser": "gt"})


def test_hub_rows_go_through_the_same_map(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [{"question": "2 times 9?", "answer": "2*9=18\n#### 18"}]
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: datasets.Dataset.from_list(rows))
    assert find_task("gsm8k").problems("train")[0].answer == "18"
