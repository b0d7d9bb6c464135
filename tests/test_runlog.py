"""The run folder: locked, never half-written, and refused where it is somebody else's."""

import json
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rloo_verify.config import Config
from rloo_verify.errors import RunError, StorageError
from rloo_verify.runlog import RunFolder, RunReader
from rloo_verify.storage import read_jsonl, write_atomically


def config(folder: Path, **changes: object) -> Config:
    """A config whose run folder is `folder/one`; `changes` are `table_key=value`."""
    values: dict[str, dict[str, object]] = {
        "run": {"name": "one", "out": str(folder), "steps": 4},
        "model": {"path": "m"},
        "sample": {"problems_per_step": 2, "group_size": 2, "max_new_tokens": 8},
        "learner": {"lr": 1e-3},
    }
    for name, value in changes.items():
        table, _, key = name.partition("_")
        values.setdefault(table, {})[key] = value
    return Config.model_validate({**values, "tasks": [{"name": "arithmetic"}]})


def touched(folder: Path) -> None:
    """A run that has done something: one row of metrics."""
    with RunFolder(config(folder)) as run:
        run.append_metrics({"step": 1})


def test_a_new_folder_holds_config_and_environment(tmp_path: Path) -> None:
    with RunFolder(config(tmp_path)) as run:
        assert run.path == tmp_path / "one"
        assert 'name = "one"' in (run.path / "config.toml").read_text()
        environment = json.loads((run.path / "environment.json").read_text())
        assert environment["packages"]["torch"]
        assert (run.metrics(), run.evaluations()) == ([], [])


HOLDER = """
import signal, sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
from test_runlog import config
from rloo_verify.runlog import RunFolder
with RunFolder(config(Path(sys.argv[2]))):
    print("locked", flush=True)
    signal.pause()
"""


def test_a_second_process_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(Path(__file__).parent), str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        with pytest.raises(RunError, match=r"one is in use by another process; wait for it, stop it, or choose"):
            RunFolder(config(tmp_path))
        with pytest.raises(RunError, match="in use"):
            RunFolder(config(tmp_path), fresh=True)
    finally:
        os.kill(holder.pid, signal.SIGKILL)
        holder.wait()
    with RunFolder(config(tmp_path)):  # the lock dies with its process, however that ended
        pass


def test_a_changed_config_lists_its_keys_and_fresh_starts_over(tmp_path: Path) -> None:
    touched(tmp_path)
    changed = config(tmp_path, learner_lr=2e-3, sample_group_size=4)
    with pytest.raises(RunError) as caught:
        RunFolder(changed)
    message = str(caught.value)
    assert "sample.group_size: 2 -> 4; learner.lr: 0.001 -> 0.002" in message
    assert "--fresh to start over" in message
    with RunFolder(changed, fresh=True) as run:
        assert run.metrics() == []
    with RunFolder(changed):
        pass


def test_what_does_not_touch_the_learning_may_change(tmp_path: Path) -> None:
    touched(tmp_path)
    with RunFolder(config(tmp_path, run_steps=9, eval_problems=3, save_every=1, verify_workers=4)) as run:
        assert len(run.metrics()) == 1
    assert "steps = 9" in (tmp_path / "one" / "config.toml").read_text()


def test_a_start_that_failed_does_not_pin_the_config(tmp_path: Path) -> None:
    with RunFolder(config(tmp_path)):
        pass  # and then, say, the model's weights were not found
    with RunFolder(config(tmp_path, model_path="another")):
        pass


def test_a_torn_last_line_is_left_out_and_dropped_on_resume(tmp_path: Path) -> None:
    with RunFolder(config(tmp_path)) as run:
        for step in (1, 2):
            run.append_metrics({"step": step})
        with run.metrics_path.open("a") as file:
            file.write('{"step": 3, "rew')
        assert [row["step"] for row in run.metrics()] == [1, 2]
        run.forget_after(2)
        run.append_metrics({"step": 3})
        assert [row["step"] for row in run.metrics()] == [1, 2, 3]


def test_steps_after_the_checkpoint_are_forgotten_everywhere(tmp_path: Path) -> None:
    with RunFolder(config(tmp_path)) as run:
        for step in range(1, 5):
            run.append_metrics({"step": step})
            run.write_rollouts(step, iter([f'{{"step": {step}}}']))
        for step in (0, 2, 4):
            run.write_evaluation(step, {"pass@1": 0.5}, iter(["{}"]))
        (run.path / "rollouts" / ".step-000004.jsonl.71.tmp").write_text("half")
        (run.path / "summary.json").write_text("{}")
        run.forget_after(2)
        assert [row["step"] for row in run.metrics()] == [1, 2]
        assert [row["step"] for row in run.evaluations()] == [0, 2]
        assert sorted(path.name for path in (run.path / "rollouts").iterdir()) == [
            "step-000001.jsonl",
            "step-000002.jsonl",
        ]
        assert sorted(path.name for path in (run.path / "eval").iterdir()) == [
            "step-000000.json", "step-000000.jsonl", "step-000002.json", "step-000002.jsonl",
        ]  # fmt: skip
        assert not (run.path / "summary.json").exists()


def test_a_folder_of_somebody_else_is_refused_and_kept(tmp_path: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "thesis.tex").write_text("years of work")
    with pytest.raises(RunError, match=r"not a run folder; choose another --run\.name"):
        RunFolder(config(tmp_path))
    with pytest.raises(RunError, match="not a run folder; nothing was deleted"):
        RunFolder(config(tmp_path), fresh=True)
    assert (tmp_path / "one" / "thesis.tex").read_text() == "years of work"
    with pytest.raises(RunError, match=r"not a run folder: it has no config\.toml"):
        RunReader(tmp_path)


def test_a_kill_before_the_first_config_was_written_is_no_obstacle(tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    (folder / ".lock").write_text("")
    (folder / ".config.toml.71.tmp").write_text("[ru")
    with RunFolder(config(tmp_path)):
        pass


def test_a_kill_while_starting_over_leaves_what_fresh_can_delete(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched(tmp_path)
    (tmp_path / "one" / "rollouts").mkdir()
    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", lambda _: 1 / 0)  # the kill
        with pytest.raises(ZeroDivisionError):
            RunFolder(config(tmp_path), fresh=True)
    assert (tmp_path / "one" / "config.toml").exists()
    with RunFolder(config(tmp_path), fresh=True) as run:
        assert not (run.path / "rollouts").exists()


def test_after_a_refusal_the_lock_is_free(tmp_path: Path) -> None:
    touched(tmp_path)
    with pytest.raises(RunError, match="different config"):
        RunFolder(config(tmp_path, learner_lr=2e-3))
    with RunFolder(config(tmp_path)):
        pass


def test_an_output_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="Not a directory"):
        RunFolder(config(tmp_path / "file"))


def test_writing_atomically_replaces_whole_files_or_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "deep" / "file.json"
    write_atomically(path, "old")
    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", lambda _: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            write_atomically(path, "new")
    assert path.read_text() == "old"
    write_atomically(path, "new")
    assert path.read_text() == "new"
    assert [file.name for file in path.parent.iterdir()] == ["file.json"]


def test_rows_of_a_file_that_is_not_there_are_none(tmp_path: Path) -> None:
    assert read_jsonl(tmp_path / "none.jsonl") == []


def test_log_lines_that_a_full_disk_refuses_are_left_out_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with RunFolder(config(tmp_path)) as run:
        logging.getLogger("rloo_verify.test").warning("kept")
    log = run.path / "logs" / "train.log"
    assert "WARNING rloo_verify.test: kept" in log.read_text()
    log.unlink()
    log.symlink_to("/dev/full")
    with RunFolder(config(tmp_path)):
        logging.getLogger("rloo_verify.test").warning("lost")
    assert "Traceback" not in capsys.readouterr().err
