"""The functions for notebooks, and the page about them."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from runs import config_of, run_here, write_run

import rloo_verify as rv
from rloo_verify.errors import RunError, TaskError
from rloo_verify.types import Outcome

PAGE = Path(__file__).parents[1] / "docs" / "python.md"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a run, on a machine where `auto` is the transformers engine."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("rloo_verify.setup.vllm_unavailable", lambda: "not in this test")
    return tmp_path


def test_the_pages_code_runs_and_says_what_it_should(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_here(
        write_run(here), "--run.steps=2", "--run.name=quickstart", f"--run.out={here / 'runs'}", "--eval.problems=0"
    )
    (code,) = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    names: dict[str, object] = {}
    exec(compile(code, str(PAGE), "exec"), names)  # our own documentation
    out = capsys.readouterr().out
    assert "pass correct" in out
    assert "frac_mixed" in out
    assert (here / "evals" / "arithmetic-tiny-arithmetic-4" / "report.html").exists()
    assert names["evaluation"].completions == 100  # type: ignore[attr-defined]


def test_importing_the_package_imports_nothing_else() -> None:
    code = (
        "import sys, rloo_verify; print(sorted({'torch', 'numpy', 'pandas', 'pydantic', 'sympy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_the_package_offers_just_these_names() -> None:
    assert dir(rv) == ["__version__", "check_answer", "load_task", "read_run", "run_eval"]
    with pytest.raises(AttributeError, match="has no attribute 'frobnicate'"):
        rv.frobnicate  # noqa: B018


def test_an_answer_is_judged_against_a_reference_or_a_problem() -> None:
    assert rv.check_answer("math", r"so \boxed{\frac12}", "0.5").outcome is Outcome.PASS
    problem = rv.load_task("arithmetic").problems("test", limit=1)[0]
    assert rv.check_answer("arithmetic", "12", problem).outcome is Outcome.FAIL
    with pytest.raises(TaskError, match="no task is named"):
        rv.check_answer("arithmetik", "12", "12")


def test_a_run_is_read_into_tables_whose_rows_are_steps_evaluations_and_completions(here: Path) -> None:
    path = write_run(here)
    folder, _, _ = run_here(path, "--run.steps=3")
    run = rv.read_run(folder)
    config = config_of(path)
    assert list(run.metrics["step"]) == [1, 2, 3]
    assert run.metrics["seconds.total"].min() > 0
    assert list(run.evaluations["step"]) == [0, 3]
    assert len(run.rollouts) == 3 * config.sample.problems_per_step * config.sample.group_size
    judged = run.rollouts[run.rollouts["step"] == 2]["outcome"].eq("pass").mean()
    assert run.metrics.set_index("step").loc[2, "reward"] == pytest.approx(judged)


def test_a_run_that_has_only_begun_has_empty_tables(here: Path) -> None:
    (here / "config.toml").write_text("")
    run = rv.read_run(here)
    assert (len(run.metrics), len(run.evaluations), len(run.rollouts)) == (0, 0, 0)
    with pytest.raises(RunError, match="is not a run folder"):
        rv.read_run(here / "nothing")
