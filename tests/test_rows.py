"""Reading rows: every file format, the hub loader, generators, and what is said when something is wrong."""

import gzip
import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow
import pyarrow.parquet
import pytest

from rloo_verify import gold
from rloo_verify.errors import TaskError
from rloo_verify.rows import read_rows

ROWS = [{"question": "1+1", "answer": "2"}, {"question": "1+2", "answer": "3"}]
LINES = "".join(json.dumps(row) + "\n" for row in ROWS)


def read(source: str, folder: Path, **options: Any) -> list[dict[str, Any]]:
    return list(read_rows(source, folder=folder, split="train", **options))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("a.jsonl", LINES.encode()),
        ("a.jsonl", b"\xef\xbb\xbf" + LINES.replace("\n", "\r\n\r\n").encode()),
        ("a.jsonl.gz", gzip.compress(LINES.encode())),
        ("a.json", json.dumps(ROWS).encode()),
        ("a.json", json.dumps({"version": 1, "data": ROWS}).encode()),
        ("a.json", LINES.encode()),
        ("a.JSON.GZ", gzip.compress(json.dumps(ROWS).encode())),
    ],
    ids=["jsonl", "jsonl with BOM, CRLF and blank lines", "jsonl.gz", "json", "json object", "lines named json", "gz"],
)
def test_every_spelling_of_json_gives_the_same_rows(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).write_bytes(content)
    assert read(name, tmp_path) == ROWS


def test_parquet_rows_keep_nested_columns(tmp_path: Path) -> None:
    rows = [{"prompt": [{"role": "user", "content": "1+1"}], "reward_model": {"ground_truth": "2"}}]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows), tmp_path / "a.parquet")
    assert read("a.parquet", tmp_path) == rows


def test_integers_over_64_bits_survive(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('{"answer": 340282366920938463463374607431768211456}\n')
    assert read("a.jsonl", tmp_path) == [{"answer": 2**128}]


def test_dropped_columns_are_left_out_and_may_be_absent(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text(LINES)
    assert read("a.jsonl", tmp_path, drop=["answer", "solution"])[0] == {"question": "1+1"}


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("gone.jsonl", None, "no such data file"),
        ("a.csv", b"q,a", "not a data file that can be read"),
        ("a.jsonl", b'{"a": 1}\n{"a": \n', "line 2 is not JSON"),
        ("a.jsonl", b"[1, 2]\n", "row 0 is list, not an object"),
        ("a.json", b"7", "should hold a JSON list"),
        ("a.jsonl.gz", b"not gzip", "cannot be read"),
        ("a.parquet", b"not parquet", "cannot be read as parquet"),
        ("a.jsonl", b"\xff\xfe", "cannot be read"),
    ],
)
def test_a_bad_file_is_named_in_one_sentence(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    with pytest.raises(TaskError, match=message) as caught:
        read(name, tmp_path)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_local_datasets_folder_loads_through_the_hub_loader(tmp_path: Path) -> None:
    folder = tmp_path / "set"
    folder.mkdir()
    (folder / "train.jsonl").write_text(LINES)
    assert read(f"hf:{folder}:default:train", tmp_path) == ROWS
    assert read(f"hf:{folder}::train[1:]", tmp_path) == ROWS[1:]


def test_joined_configs_are_read_one_after_the_other_without_dropped_columns(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = []

    def load_dataset(repository: str, config: str | None, *, split: str) -> datasets.Dataset:
        asked.append((repository, config, split))
        return datasets.Dataset.from_list([{"problem": config, "long": "x"}])

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert read("hf:owner/set:algebra+geometry:test", tmp_path, drop=["long", "absent"]) == [
        {"problem": "algebra"},
        {"problem": "geometry"},
    ]
    assert asked == [("owner/set", "algebra", "test"), ("owner/set", "geometry", "test")]


def test_an_unreachable_hub_suggests_a_local_file_or_the_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load_dataset(*_: Any, **__: Any) -> None:
        raise ConnectionError("no route\nlong traceback")

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    with pytest.raises(TaskError, match=r"hf:owner/set:main:train .*no route\).*--data FILE.*`sample`") as caught:
        read("hf:owner/set:main:train", tmp_path)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("source", ["hf:owner/set", "hf:owner/set:main", "hf::main:train", "hf:owner/set:main:"])
def test_a_malformed_hub_source_shows_the_right_form(tmp_path: Path, source: str) -> None:
    with pytest.raises(TaskError, match="repo:config:split"):
        read(source, tmp_path)


def test_a_generator_receives_the_split_and_the_options(tmp_path: Path) -> None:
    (tmp_path / "generate.py").write_text("def rows(split, *, n=1):\n    return [{'split': split, 'n': n}] * n\n")
    assert read("py:generate.py:rows", tmp_path, options={"n": 2}) == [{"split": "train", "n": 2}] * 2


def test_a_generator_names_the_options_that_it_takes(tmp_path: Path) -> None:
    (tmp_path / "generate.py").write_text("def rows(split, *, level=1):\n    return []\n")
    with pytest.raises(TaskError, match="no option `lvl`; it takes level"):
        read("py:generate.py:rows", tmp_path, options={"lvl": 2})


@pytest.mark.parametrize(
    ("code", "source", "message"),
    [
        ("import nothing_of_the_kind", "py:generate.py:rows", "cannot be imported: ModuleNotFoundError"),
        ("x = 1", "py:generate.py:rows", "has no function `rows`"),
        ("x = 1", "py:generate.py", "should be file.py:function"),
        ("x = 1", "py:gone.py:rows", "gone.py is not a file"),
    ],
)
def test_a_generator_that_cannot_be_loaded_is_explained(tmp_path: Path, code: str, source: str, message: str) -> None:
    (tmp_path / "generate.py").write_text(code)
    with pytest.raises(TaskError, match=message):
        read(source, tmp_path)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        ("raw", 2**70, 2**70),
        ("raw", " x ", " x "),
        ("after_hashes", "a #### 1\nb\n#### 1,080 ", "1,080"),
        ("boxed", r"so \boxed{1} and \boxed{\frac{1}{2}}.", r"\frac{1}{2}"),
        ("boxed", r"\boxed{\{1,2\}} and an open \boxed{3", r"\{1,2\}"),
        ("boxed", r"is $\fbox{7}$", "7"),
        ("boxed", r"is $\boxed 5$.", "5"),
        ("list", '["a", "b"]', ["a", "b"]),
        ("list", ["a"], ["a"]),
        ("number", "1,080", "1080"),
        ("number", "$1080", "1080"),
        ("number", 1080.0, "1080"),
        ("number", 1e21, "1000000000000000000000"),
        ("number", "033", "33"),
        ("number", "-0.50", "-0.5"),
        ("number", "-0", "0"),
        ("number", 2**70, "1180591620717411303424"),
    ],
)
def test_gold_extractors_read_the_reference(kind: gold.Gold, value: Any, expected: Any) -> None:
    assert gold.extract(value, kind) == expected


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("raw", None, "empty"),
        ("raw", "", "empty"),
        ("raw", "  ", "blank"),
        ("after_hashes", "18", "no `####`"),
        ("after_hashes", "x ####  ", "nothing follows"),
        ("boxed", "18", "no balanced"),
        ("boxed", r"\boxed{18", "no balanced"),
        ("list", "a, b", "not a JSON list"),
        ("list", '{"a": 1}', "dict, not a list"),
        ("list", [], "empty"),
        ("number", "1,08", "not a number"),
        ("number", "x", "not a number"),
        ("number", "-", "not a number"),
        ("number", float("nan"), "not a number"),
        ("number", True, "not a number"),
    ],
)
def test_gold_extractors_say_what_is_missing(kind: gold.Gold, value: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        gold.extract(value, kind)
