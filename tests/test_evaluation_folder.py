"""An evaluation folder keeps what was judged, through a kill, a second process and a changed mind."""

import json
from pathlib import Path

import pytest

from rloo_verify.errors import RunError
from rloo_verify.evaluation_folder import EvaluationFolder, read_settings
from rloo_verify.samples import Sample
from rloo_verify.types import Outcome

FIRST = Sample(problem="t/test/0", task="t", outcome=Outcome.PASS, text="4 \ud800")
SECOND = Sample(problem="t/test/1", task="t", outcome=Outcome.FAIL, reference={"a": [1]})


def test_samples_are_there_again_for_the_same_settings(tmp_path: Path) -> None:
    path = tmp_path / "evals" / "one"
    with EvaluationFolder(path, {"task": "t", "k": (1, 2)}) as folder:
        assert folder.samples == []
        folder.append(FIRST)
        folder.append(SECOND)
        folder.finish({"pass@1": 0.5})
    with EvaluationFolder(path, {"k": [1, 2], "task": "t"}) as folder:  # a tuple is a list in JSON
        assert folder.samples == [FIRST, SECOND]
    assert read_settings(path) == {"task": "t", "k": [1, 2]}
    assert json.loads((path / "summary.json").read_text()) == {"pass@1": 0.5}


def test_a_sample_survives_a_kill_right_after_it_was_added(tmp_path: Path) -> None:
    with EvaluationFolder(tmp_path / "one", {}) as folder:
        folder.append(FIRST)
        assert (tmp_path / "one" / "samples.jsonl").read_text() == FIRST.line() + "\n"


@pytest.mark.parametrize("length", [1, 20, len(SECOND.line())])
def test_a_torn_last_line_is_cut_off_before_the_next_is_added(tmp_path: Path, length: int) -> None:
    with EvaluationFolder(tmp_path, {}) as folder:
        folder.append(FIRST)
    with (tmp_path / "samples.jsonl").open("a") as file:
        file.write(SECOND.line()[:length])  # the last of these is whole but for its line end
    with EvaluationFolder(tmp_path, {}) as folder:
        assert folder.samples == [FIRST]
        folder.append(SECOND)
    with EvaluationFolder(tmp_path, {}) as folder:
        assert folder.samples == [FIRST, SECOND]


def test_changed_settings_are_named_and_fresh_starts_over(tmp_path: Path) -> None:
    with EvaluationFolder(tmp_path, {"n": 1, "seed": 0}) as folder:
        folder.append(FIRST)
        folder.finish({})
    with pytest.raises(RunError, match=r"other settings \(n: 1 before, 4 now; k: None before, 2 now\).*--fresh"):
        EvaluationFolder(tmp_path, {"n": 4, "seed": 0, "k": 2})
    with EvaluationFolder(tmp_path, {"n": 4, "seed": 0}, fresh=True) as folder:
        assert folder.samples == []
    assert not (tmp_path / "summary.json").exists()


def test_a_folder_is_one_process_at_a_time(tmp_path: Path) -> None:
    with EvaluationFolder(tmp_path, {}), pytest.raises(RunError, match="in use by another process"):
        EvaluationFolder(tmp_path, {})
    EvaluationFolder(tmp_path, {}).__exit__()


def test_a_folder_or_file_of_something_else_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("x")
    for path in (tmp_path, tmp_path / "thesis.tex"):
        with pytest.raises(RunError, match="is not an evaluation folder"):
            EvaluationFolder(path, {}, fresh=True)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.tex"]
