"""Task folders: finding them, column maps, and what is said when a folder, a row or an override is wrong."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import datasets
import pytest

import rloo_verify.tasks as tasks_module
from rloo_verify.errors import TaskError
from rloo_verify.tasks import find_task, list_tasks

SHARED = Path(__file__).parents[2] / "shared" / "data"
BUILT_IN = ["aime24", "aime25", "arithmetic", "countdown", "dapo_math", "deepmath", "gsm8k", "math", "math500"]

TOML = """
summary = "s"
source = "s"
license = "s"
[data]
train = "rows.jsonl"
{data}
[data.columns]
{columns}
[prompt]
{prompt}
[check]
checker = "exact"
"""

MakeTask = Callable[..., Path]


@pytest.fixture
def make_task(tmp_path: Path) -> MakeTask:
    """Writes a task folder and returns it."""

    def make(
        *rows: Any,
        name: str = "mine",
        columns: str = 'question = "q"\nanswer = "a"',
        prompt: str = 'user = "{question}"',
        data: str = "",
    ) -> Path:
        folder = tmp_path / name
        folder.mkdir(parents=True)
        (folder / "task.toml").write_text(TOML.format(columns=columns, prompt=prompt, data=data))
        (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return folder

    return make


def shared(name: str) -> Path:
    if not (SHARED / name).is_file():
        pytest.skip(f"shared/data/{name} is not beside this checkout")
    return SHARED / name


def test_the_built_in_tasks_are_listed() -> None:
    assert [name for name in list_tasks() if name in BUILT_IN] == BUILT_IN


@pytest.mark.parametrize("name", BUILT_IN)
def test_the_sample_of_every_built_in_task_loads_offline(name: str) -> None:
    problems = find_task(name).problems("sample")
    assert len(problems) == 8
    assert problems[0].id == f"{name}/sample/0"
    assert problems[0].messages[-1]["role"] == "user"


def test_importing_the_loader_imports_nothing_heavy() -> None:
    code = (
        "import sys, rloo_verify.tasks; print([m for m in ('torch', 'transformers', 'datasets', 'sympy', 'pyarrow')"
        " if m in sys.modules])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_flat_rows_load_by_a_column_map_alone(make_task: MakeTask) -> None:
    (problem,) = find_task(make_task({"q": "1+1", "a": "2", "k": 7})).problems("train")
    assert (problem.id, problem.answer, problem.plain) == ("mine/train/0", "2", "1+1")
    assert problem.messages == ({"role": "user", "content": "1+1"},)
    assert problem.row["k"] == 7


VERL = {"prompt": [{"role": "user", "content": "1+1"}], "reward_model": {"ground_truth": "2", "style": "rule"}}


@pytest.mark.parametrize(
    "row",
    [VERL, {key: json.dumps(value) for key, value in VERL.items()}],
    ids=["nested", "nested columns as JSON text"],
)
def test_verl_rows_load_by_a_column_map_alone(make_task: MakeTask, row: dict[str, Any]) -> None:
    folder = make_task(row, columns='messages = "prompt"\nanswer = "reward_model.ground_truth"', prompt="")
    (problem,) = find_task(folder).problems("train")
    assert problem.messages == ({"role": "user", "content": "1+1"},)
    assert (problem.answer, problem.plain, problem.row["question"]) == ("2", "1+1", "1+1")


def test_messages_and_ground_truth_load_by_a_column_map_alone(make_task: MakeTask) -> None:
    messages = [{"role": "system", "content": "Think."}, {"role": "user", "content": "1+1"}]
    folder = make_task(
        {"messages": json.dumps(messages), "ground_truth": "2"},
        columns='messages = "messages"\nanswer = "ground_truth"',
        prompt="",
    )
    (problem,) = find_task(folder).problems("train")
    assert problem.messages == tuple(messages)
    assert problem.plain == "1+1"  # a model without a chat template knows no system message


def test_integers_over_64_bits_reach_the_problem(make_task: MakeTask) -> None:
    (problem,) = find_task(make_task({"q": "2^70?", "a": 2**70})).problems("train")
    assert problem.answer == 1180591620717411303424


def test_dotted_paths_reach_into_lists_and_named_columns_reach_templates(make_task: MakeTask) -> None:
    folder = make_task(
        {"meta": {"terms": [3, 4]}, "out": ["x", "7"]},
        columns='terms = "meta.terms"\nanswer = "out.1"',
        prompt='user = "Add {terms}, then {meta.terms.0}."',
    )
    (problem,) = find_task(folder).problems("train")
    assert problem.plain == "Add [3, 4], then 3."
    assert (problem.answer, problem.row["terms"]) == ("7", [3, 4])


def test_duplicate_prompts_count_once_and_keep_the_first_row_number(make_task: MakeTask) -> None:
    rows = [{"q": "1+1", "a": "2"}, {"q": "1+1", "a": "2"}, {"q": "1+2", "a": "3"}]
    folder = make_task(*rows, data="dedupe = true")
    assert [problem.id for problem in find_task(folder).problems("train")] == ["mine/train/0", "mine/train/2"]
    assert len(find_task("dapo_math").problems("sample")) == 8  # nine rows, the first one twice


def test_the_limit_counts_problems_and_stops_reading(make_task: MakeTask) -> None:
    task = find_task(make_task({"q": "1+1", "a": "2"}, {"q": "1+2", "a": "3"}, {"broken": True}))
    assert [problem.answer for problem in task.problems("train", limit=2)] == ["2", "3"]
    with pytest.raises(TaskError, match="at least 1"):
        task.problems("train", limit=0)


def test_an_id_column_names_the_problem_and_must_not_repeat(make_task: MakeTask) -> None:
    columns = 'question = "q"\nanswer = "a"\nid = "meta.key"'
    rows = [{"q": "1+1", "a": "2", "meta": {"key": "x7"}}]
    task = find_task(make_task(*rows, columns=columns))
    assert task.problems("train")[0].id == "mine/train/x7"
    with pytest.raises(TaskError, match="two rows have the id mine/train/x7"):
        find_task(make_task(*rows, *rows, columns=columns, name="sub/mine")).problems("train")


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
def test_a_row_that_cannot_be_used_is_named_with_its_file(
    make_task: MakeTask, row: dict[str, Any], message: str
) -> None:
    folder = make_task({"q": "0+0", "a": "0"}, row)
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
def test_unusable_messages_are_explained(make_task: MakeTask, messages: Any, message: str) -> None:
    folder = make_task({"m": messages, "a": "2"}, columns='messages = "m"\nanswer = "a"', prompt="")
    with pytest.raises(TaskError, match=message):
        find_task(folder).problems("train")


def test_a_data_file_without_rows_is_an_error(make_task: MakeTask) -> None:
    with pytest.raises(TaskError, match=r"mine/train: rows.jsonl has no rows"):
        find_task(make_task()).problems("train")


def test_an_unknown_split_names_those_that_exist() -> None:
    with pytest.raises(TaskError, match="aime24 has no split `train`; it has test, sample"):
        find_task("aime24").problems("train")


def test_a_local_file_replaces_the_source_of_a_split(
    make_task: MakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = make_task({"q": "1+1", "a": "2"})
    (tmp_path / "other.jsonl").write_text('{"q": "3+3", "a": "6"}\n')
    monkeypatch.chdir(tmp_path)
    assert find_task(folder).problems("train", data="other.jsonl")[0].answer == "6"
    overridden = find_task(folder, {"train": "other.jsonl", "test": tmp_path / "other.jsonl"})
    assert [overridden.problems(split)[0].answer for split in ("train", "test")] == ["6", "6"]
    with pytest.raises(TaskError, match=r"no such split \(did you mean `train`"):
        find_task(folder, {"trian": "other.jsonl"})


def test_columns_and_gold_can_be_overridden_for_a_local_file(make_task: MakeTask, tmp_path: Path) -> None:
    folder = make_task({"q": "1+1", "a": "2"})
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


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("summary", "sumary"), r"task.toml, line 2: unknown key `sumary` \(did you mean `summary`\?\)"),
        (('checker = "exact"', 'checker = "exact"\ntimeout = 3'), "check.timeout.*did you mean `timeout_seconds`"),
        (('train = "rows.jsonl"', 'trian = "rows.jsonl"'), r"line 6: unknown key `data.trian` \(did you mean `train`"),
        (('answer = "a"', 'anwser = "a"'), "`anwser` is too near to `answer`"),
        (('checker = "exact"', ""), "the key `check.checker` is missing"),
        (('license = "s"', "license = 3"), "license: Input should be a valid string"),
        (('user = "{question}"', 'user = "{question} {a}"'), "would show the model the reference answer, {a}"),
        (('user = "{question}"', 'system = "x"'), "needs `user`"),
        (('question = "q"', 'question = "q"\nmessages = "m"'), "exclude each other"),
        (('question = "q"', 'messages = "m"'), "the chat is the row's own"),
        (('summary = "s"', "summary = "), "is not TOML"),
    ],
)
def test_a_wrong_task_toml_is_explained(make_task: MakeTask, change: tuple[str, str], message: str) -> None:
    folder = make_task({"q": "1+1", "a": "2"})
    text = (folder / "task.toml").read_text()
    assert change[0] in text
    (folder / "task.toml").write_text(text.replace(*change, 1))
    with pytest.raises(TaskError, match=message) as caught:
        find_task(folder)
    assert str(folder / "task.toml") in str(caught.value)


def test_a_name_that_no_task_has_suggests_the_nearest() -> None:
    with pytest.raises(TaskError, match=r"no task is named `gms8k` \(did you mean `gsm8k`\?\)"):
        find_task("gms8k")


def test_a_path_without_a_task_toml_says_so(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match=r"there is no .*task.toml"):
        find_task(tmp_path / "nothing")


def test_the_environment_variable_adds_task_folders_and_folders_of_them(
    make_task: MakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = make_task({"q": "1+1", "a": "2"}, name="one")
    two = make_task({"q": "1+1", "a": "2"}, name="many/two")
    monkeypatch.setenv("RLOO_VERIFY_TASKS", os.pathsep.join([str(one), str(two.parent)]))
    assert (find_task("one").folder, find_task("two").folder) == (one, two)
    monkeypatch.setenv("RLOO_VERIFY_TASKS", str(tmp_path / "gone"))
    with pytest.raises(TaskError, match=r"RLOO_VERIFY_TASKS names .*gone, which is not a folder"):
        find_task("one")


def test_the_same_name_in_two_places_names_both(make_task: MakeTask, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = make_task({"q": "1+1", "a": "2"}, name="gsm8k")
    monkeypatch.setenv("RLOO_VERIFY_TASKS", str(mine))
    with pytest.raises(TaskError, match="two tasks are named `gsm8k`") as caught:
        find_task("gsm8k")
    assert str(mine) in str(caught.value)
    assert find_task(mine).folder == mine  # a path is never ambiguous


def test_entry_points_give_task_folders(make_task: MakeTask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = make_task({"q": "1+1", "a": "2"}, name="theirs")
    (tmp_path / "their_package.py").write_text(f"FOLDER = {str(folder)!r}\n")
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint("theirs", "their_package:FOLDER", "rloo_verify.tasks")]
    monkeypatch.setattr(tasks_module, "entry_points", lambda group: points if group == "rloo_verify.tasks" else [])
    assert find_task("theirs").folder == folder
    points[0] = EntryPoint("theirs", "their_package:NOTHING", "rloo_verify.tasks")
    with pytest.raises(TaskError, match="entry point `theirs`"):
        find_task("theirs")


def test_the_checker_comes_with_its_options_bound() -> None:
    check = find_task("arithmetic").load_checker()
    assert check("it is 932", "932", {}).outcome == "pass"  # type: ignore[union-attr]
    assert check("it is 931", "932", {}).outcome == "fail"  # type: ignore[union-attr]


def test_real_gsm8k_rows_load() -> None:
    problems = find_task("gsm8k").problems("test", data=shared("gsm8k/test.jsonl"))
    assert (len(problems), problems[0].answer, problems[-1].id) == (1319, "18", "gsm8k/test/1318")


def test_real_math_rows_load_and_every_solution_has_a_box() -> None:
    problems = find_task("math").problems("test", data=shared("math/hendrycks_math_test.jsonl"))
    assert (len(problems), problems[0].answer) == (5000, "2")
    answers = {problem.row["problem"]: problem.answer for problem in problems}
    math500 = find_task("math500").problems("test", data=shared("math/math500_rllm.json"))
    assert len(math500) == 500
    assert all(answers[problem.row["problem"]] == problem.answer for problem in math500)


def test_real_deepmath_rows_in_another_schema_load_by_a_column_override() -> None:
    path = shared("deepmath/math_deepmath_deal.jsonl")
    with pytest.raises(TaskError, match=r"no column `question`; the columns are: id, source, difficulty, prompt"):
        find_task("deepmath").problems("train", data=path)
    task = find_task("deepmath", columns={"messages": "messages", "answer": "ground_truth"})
    problems = task.problems("train", data=path)
    assert (len(problems), problems[0].answer) == (4994, "1")
    assert [message["role"] for message in problems[0].messages] == ["system", "user"]


def test_real_countdown_rows_in_another_schema_are_judged() -> None:
    path = shared("reasoning_gym/countdown.jsonl")
    columns = {"nums": "metadata.numbers", "target": "metadata.target"}
    task = find_task("countdown", columns=columns)
    problems = task.problems("train", data=path)
    check = task.load_checker()
    assert "[36, 29, 95, 32, 4, 15]" in problems[0].plain
    verdicts = [check(f"<answer>{problem.row['answer']}</answer>", None, problem.row) for problem in problems]
    assert [verdict.outcome for verdict in verdicts] == ["pass"] * 100  # type: ignore[union-attr]
