import importlib.machinery
import logging
import re
import sys
import types

import pytest

from rloo_verify.errors import ConfigError
from rloo_verify.track import Trackers, check_installed


@pytest.fixture
def wandb(monkeypatch):
    """A stand-in for wandb that records its calls."""
    module = types.ModuleType("wandb")
    module.__spec__ = types.SimpleNamespace(name="wandb")
    module.calls = []
    module.init = lambda **settings: module.calls.append(("init", settings))
    module.log = lambda values, step: module.calls.append(("log", step, values))
    module.finish = lambda: module.calls.append(("finish",))
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_numbers_are_mirrored_with_dots_for_nested_names(wandb, tmp_path):
    trackers = Trackers(["wandb"], tmp_path / "my-run", {"a": 1})
    trackers.log(3, {"step": 3, "reward": 0.5, "loss": None, "seconds": {"learn": 2.0}, "text": "x"})
    trackers.close()
    assert wandb.calls[1:] == [("log", 3, {"reward": 0.5, "seconds.learn": 2.0}), ("finish",)]


def test_the_same_run_folder_continues_the_same_tracker_run(wandb, tmp_path):
    for _ in range(2):
        Trackers(["wandb"], tmp_path / "my-run", {}).close()
    ids = [call[1]["id"] for call in wandb.calls if call[0] == "init"]
    assert ids == ["my-run", "my-run"]


def test_a_dying_tracker_is_switched_off_with_one_warning(wandb, tmp_path, caplog):
    def broken(*_, **__):
        raise ConnectionError("no network")

    wandb.log = broken
    trackers = Trackers(["wandb"], tmp_path, {})
    with caplog.at_level(logging.WARNING):
        trackers.log(1, {"reward": 1.0})
        trackers.log(2, {"reward": 1.0})
        trackers.close()
    assert [record.getMessage() for record in caplog.records] == [
        "tracker wandb failed (ConnectionError: no network); going on without it"
    ]


def test_a_missing_tracker_names_its_extra():
    with pytest.raises(ConfigError, match=r"pip install 'rloo-verify\[mlflow\]'"):
        check_installed(["mlflow"])


def test_tensorboard_files_are_written_into_the_run_folder(tmp_path):
    pytest.importorskip("tensorboard", reason="the tensorboard extra is not installed")
    trackers = Trackers(["tensorboard"], tmp_path, {})
    trackers.log(1, {"reward": 0.25})
    trackers.close()
    assert list((tmp_path / "logs" / "tensorboard").glob("events.out.tfevents.*"))


class FakeMlflow(types.ModuleType):
    """Refuses names as MLflow does: alphanumerics, underscores, dashes, periods, spaces, colons and slashes only."""

    logged: dict[str, float]

    def start_run(self, **_):
        return types.SimpleNamespace(info=types.SimpleNamespace(run_id="one"))

    def log_metrics(self, metrics, step):  # noqa: ARG002
        assert all(re.fullmatch(r"[\w\-. :/]+", name) for name in metrics)
        self.logged.update(metrics)

    def __getattr__(self, name):
        return lambda *_, **__: None


def test_rates_reach_mlflow_under_names_that_it_takes(tmp_path, monkeypatch):
    fake = FakeMlflow("mlflow")
    fake.logged, fake.__spec__ = {}, importlib.machinery.ModuleSpec("mlflow", None)
    monkeypatch.setitem(sys.modules, "mlflow", fake)
    (tmp_path / "logs").mkdir()
    trackers = Trackers(["mlflow"], tmp_path, {})
    trackers.log(1, {"pass@4": 0.5, "pass^4": 0.25, "maj@4": 0.75}, prefix="eval.")
    assert fake.logged == {"eval.pass_at_4": 0.5, "eval.pass_all_4": 0.25, "eval.maj_at_4": 0.75}
