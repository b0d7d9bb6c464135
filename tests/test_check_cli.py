"""`rloo-verify check math`: grading labelled cases, and explaining one verdict."""

import json
import sys
import types
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rloo_verify.check_cli import app
from rloo_verify.checkers.grading import grade, load_labelled, summary
from rloo_verify.errors import TaskError

# The keys that the README promises.
KEYS = ["cases", "agree", "false_pass", "false_fail", "errors", "over_1s", "seconds", "median_ms"]
KEYS += ["per_category", "disagreements"]

ROWS = [
    {"id": "a", "gold": "42", "response": r"\boxed{42.0}", "expected": 1, "category": "integer"},
    {"id": "b", "gold": "42", "response": r"\boxed{41}", "expected": 0, "category": "integer"},
    {"id": "c", "gold": "42", "response": r"\boxed{42}", "expected": 0, "category": "wrong label"},
    {"id": "d", "gold": "42", "response": r"\boxed{41}", "expected": 1, "category": "wrong label"},
    {"id": "e", "gold": r"\oint z", "response": r"\boxed{41}", "expected": 0, "category": "unreadable"},
    {"id": "f", "gold": "42", "response": r"\boxed{7}", "expected": 1, "category": "integer", "debatable": True},
]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cases.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def run(*arguments: str) -> str:
    done = CliRunner().invoke(app, ["math", *arguments], catch_exceptions=False)
    assert done.exit_code == 0
    return done.stdout


def test_json_has_the_documented_keys_and_counts(file: Path) -> None:
    result = json.loads(run("--cases", str(file), "--json"))
    assert [key for key in KEYS if key not in result] == []
    counts = {key: result[key] for key in ("cases", "agree", "false_pass", "false_fail", "errors", "over_1s")}
    assert counts == {"cases": 5, "agree": 2, "false_pass": 1, "false_fail": 1, "errors": 1, "over_1s": 0}
    assert [one["id"] for one in result["disagreements"]] == ["c", "d", "e"]
    assert result["per_category"]["integer"] == {
        "cases": 2, "agree": 2, "false_pass": 0, "false_fail": 0, "errors": 0,
    }  # fmt: skip
    assert result["debatable"] == {
        "cases": 1, "agree": 0, "false_pass": 0, "false_fail": 1, "errors": 0, "ids": ["f"],
    }  # fmt: skip
    assert "peers" not in result


def test_the_text_names_each_disagreement(file: Path) -> None:
    said = run("--cases", str(file))
    assert "rloo_verify: 2 of 5 undisputed cases agree (40.00%)" in said
    assert "wrong answers rewarded 1, right answers refused 1, errors 1, over 1 s 0" in said
    assert "- c false_pass: gold '42', read '42'" in said
    assert "debatable, not counted: 0 of 1 agree" in said


def test_a_peer_runs_beside_it_where_it_is_installed(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    peer = types.ModuleType("math_verify")
    peer.parse = lambda text: text  # type: ignore[attr-defined]
    peer.verify = lambda gold, answer: gold.strip("$") in answer  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "math_verify", peer)
    result = json.loads(run("--cases", str(file), "--json", "--peers"))
    # "42" is in the response of a (right) and c (labelled wrong); b and e are refused, and so is d.
    assert {key: result["peers"]["math_verify"][key] for key in ("agree", "false_pass", "false_fail")} == {
        "agree": 3, "false_pass": 1, "false_fail": 1,
    }  # fmt: skip


def test_a_missing_peer_is_said_in_one_sentence(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "math_verify", None)
    assert "Math-Verify is not installed here" in run("--cases", str(file), "--peers")
    assert json.loads(run("--cases", str(file), "--peers", "--json"))["peers"] == {}


def test_one_answer_is_judged_or_explained() -> None:
    assert run("--gold", "42", "--response", r"\boxed{42}").splitlines()[0].split() == ["verdict", "pass", "(correct)"]
    said = run("--gold", "0.5", "--response", r"\boxed{\frac12}", "--explain")
    for word in ("extraction", "reference type", "decimal", "answer type", "fraction", "level", "exact numbers"):
        assert word in said
    assert (
        json.loads(run("--gold", "1", "--response", "1", "--mode", "strict", "--json"))["verdict"] == "fail (no_answer)"
    )


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nonsense", "line 1: not JSON"),
        ("[]", "line 1: a case needs `gold`, `response` and `expected`"),
        ('{"gold": "1", "response": 1, "expected": 1}', "`response` must be text"),
        ('{"gold": "1", "response": "1", "expected": 2}', "`expected` 0 or 1"),
        ("", "has no cases"),
    ],
)
def test_a_malformed_file_is_refused_by_line(tmp_path: Path, line: str, said: str) -> None:
    path = tmp_path / "cases.jsonl"
    path.write_text(line)
    with pytest.raises(TaskError, match=said):
        load_labelled(path)


def test_what_is_asked_for_must_be_said(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="give either --cases FILE, or --gold and --response"):
        run("--gold", "42")
    with pytest.raises(TaskError, match="cannot be read"):
        load_labelled(tmp_path / "missing.jsonl")


def test_an_answer_is_never_slower_than_a_second_even_at_its_worst(tmp_path: Path) -> None:
    path = tmp_path / "cases.jsonl"
    hostile = ["9^9^9^9", "(" * 10_000, r"\binom{10^9}{5e8}", r"\int_0^1 \int_0^1 x dx dy", "9" * 100_000]
    rows = [{"gold": "7", "response": rf"\boxed{{{text}}}", "expected": 0} for text in hostile]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    result = summary(grade(load_labelled(path), "strict"))
    assert (result["agree"], result["over_1s"]) == (len(hostile), 0)
