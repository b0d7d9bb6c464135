"""Trackers mirror metrics.jsonl elsewhere. One that fails is switched off with a warning and never stops a run."""

import importlib
import importlib.util
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from rloo_verify.errors import ConfigError

log = logging.getLogger(__name__)


class Tracker(Protocol):
    """One open run in some tracker."""

    def log(self, step: int, values: Mapping[str, float]) -> None:
        """Records scalars of a step."""

    def close(self) -> None:
        """Flushes and ends."""


class _TensorBoard:
    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self._writer: Any = SummaryWriter(str(run / "logs" / "tensorboard"))
        self._writer.add_text("config", f"```\n{config}\n```")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        for name, value in values.items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        self._writer.close()


class _WandbLike:
    """wandb, and trackio, which has the same calls."""

    module = "wandb"

    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        self._module: Any = importlib.import_module(self.module)
        self._module.init(project="rloo_verify", name=run.name, config=dict(config), **self._resume(run))

    def _resume(self, run: Path) -> dict[str, Any]:
        return {"id": run.name, "resume": "allow", "dir": str(run / "logs")}

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._module.log(dict(values), step=step)

    def close(self) -> None:
        self._module.finish()


class _Trackio(_WandbLike):
    module = "trackio"

    def _resume(self, run: Path) -> dict[str, Any]:  # noqa: ARG002 (its runs are found by name)
        return {"resume": "allow"}


def mlflow_name(name: str) -> str:
    """A metric's name in MLflow, which refuses most punctuation: pass@4 and pass^4 become pass_at_4 and pass_all_4."""
    return re.sub(r"[^\w. :/-]", "_", name.replace("@", "_at_").replace("^", "_all_"))


class _Mlflow:
    def __init__(self, run: Path, config: Mapping[str, Any]) -> None:
        self._mlflow: Any = importlib.import_module("mlflow")
        self._mlflow.set_experiment("rloo_verify")
        marker = run / "logs" / "mlflow_run_id"
        earlier = marker.read_text(encoding="utf-8") if marker.exists() else None
        started = self._mlflow.start_run(run_id=earlier, run_name=run.name)
        if earlier is None:
            marker.write_text(started.info.run_id, encoding="utf-8")
            self._mlflow.log_dict(dict(config), "config.json")

    def log(self, step: int, values: Mapping[str, float]) -> None:
        self._mlflow.log_metrics({mlflow_name(name): value for name, value in values.items()}, step=step)

    def close(self) -> None:
        self._mlflow.end_run()


_TRACKERS = {"tensorboard": _TensorBoard, "wandb": _WandbLike, "trackio": _Trackio, "mlflow": _Mlflow}


class Trackers:
    """All trackers of a run."""

    def __init__(self, names: Sequence[str], run: Path, config: Mapping[str, Any]) -> None:
        """Opens the trackers of a run folder; the same folder continues the same tracker run.

        Raises:
            ConfigError: if a tracker's package is not installed.
        """
        check_installed(names)
        self._open: dict[str, Tracker] = {}
        for name in names:
            start: Any = _TRACKERS[name]
            try:
                self._open[name] = start(run, config)
            except Exception as error:  # noqa: BLE001 (whatever a tracker raises, the run goes on)
                log.warning(
                    "tracker %s does not start (%s: %s); going on without it", name, type(error).__name__, error
                )

    def log(self, step: int, values: Mapping[str, Any], prefix: str = "") -> None:
        """Mirrors the numbers among some values, nested ones with dots in their names."""
        scalars = {f"{prefix}{name}": value for name, value in _scalars(values)}
        self._each("log", step, scalars)

    def close(self) -> None:
        """Ends all trackers."""
        self._each("close")

    def _each(self, method: str, *arguments: Any) -> None:
        for name, tracker in list(self._open.items()):
            try:
                getattr(tracker, method)(*arguments)
            except Exception as error:  # noqa: BLE001 (whatever a tracker raises, the run goes on)
                log.warning("tracker %s failed (%s: %s); going on without it", name, type(error).__name__, error)
                del self._open[name]


def check_installed(names: Sequence[str]) -> None:
    """Refuses trackers whose package is missing.

    Raises:
        ConfigError: naming the extra to install.
    """
    for name in names:
        if importlib.util.find_spec(name) is None:
            raise ConfigError(f"track.use: {name} is not installed; install it with: pip install 'rloo-verify[{name}]'")


def _scalars(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, float]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _scalars(value, f"{prefix}{name}.")
        elif isinstance(value, int | float) and name != "step":
            yield f"{prefix}{name}", float(value)
