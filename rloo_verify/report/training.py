"""The report of a training run."""

import json
import time
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rloo_verify.report.groups import rollout_browser
from rloo_verify.report.page import render
from rloo_verify.report.training_charts import training_charts
from rloo_verify.report.visits import problem_tables
from rloo_verify.runlog import RunReader
from rloo_verify.storage import write_atomically
from rloo_verify.summary import summarize
from rloo_verify.types import Signal


def write_report(run: RunReader) -> Path:
    """Writes `report.html` into a run folder and returns its path.

    Raises:
        StorageError: if it cannot be written.
    """
    path = run.path / "report.html"
    write_atomically(path, training_page(run))
    return path


def training_page(run: RunReader, *, watch: int = 0) -> str:
    """The HTML of a training run's report, as of now.

    Args:
        run: The run, which may be going on.
        watch: The page loads itself again every so many seconds; 0: it does not.
    """
    rows, evaluations = run.metrics(), run.evaluations()
    summary = summarize(run)
    groups = sum(summary["signals"].values())
    config = (run.path / "config.toml").read_text(encoding="utf-8", errors="replace")
    charts, points = training_charts(rows, evaluations)
    browser = rollout_browser(run.path / "rollouts")
    return render(
        "training.html.j2",
        data={
            "charts": [chart.as_json() for chart in charts],
            "browser": browser,
            "watch": watch,
            "written": time.time() if watch else None,
        },
        summary=summary,
        planned=planned_steps(config),
        rates=_rates(summary, evaluations),
        signals=[(name, summary["signals"][name], summary["signals"][name] / max(1, groups)) for name in Signal],
        groups=groups,
        problems=problem_tables(run.path),
        charts=charts,
        points=points,
        left_out=browser["left_out"],
        truncated=_last_share(rows, "truncated_share"),
        config=config,
        environment=_environment(run.path),
        watch=watch,
    )


def _rates(summary: Mapping[str, Any], evaluations: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Each held-out rate before and after, with its intervals where the evaluation has them."""
    return [
        {
            "name": name,
            **summary[name],
            "before_interval": (evaluations[0].get("intervals") or {}).get(name),
            "after_interval": (evaluations[-1].get("intervals") or {}).get(name),
            "measured": len(evaluations),
        }
        for name in summary
        if "@" in name or "^" in name
    ]


def _last_share(rows: Sequence[Mapping[str, Any]], key: str) -> float | None:
    return rows[-1].get(key) if rows else None


def planned_steps(config: str) -> int | None:
    """The steps that a run is to have; None where its config cannot be read."""
    try:
        steps = tomllib.loads(config).get("run", {}).get("steps")
    except (tomllib.TOMLDecodeError, AttributeError):
        return None
    return steps if isinstance(steps, int) else None


def _environment(run: Path) -> list[tuple[str, str]]:
    """environment.json as lines for people; none where the file is missing."""
    try:
        values = json.loads((run / "environment.json").read_text(encoding="utf-8"))
        packages = values.get("packages", {}).items()
    except (OSError, ValueError, AttributeError):
        return []
    lines = [
        ("command", " ".join(map(str, values.get("command", [])))),
        ("python", values.get("python", "")),
        ("platform", values.get("platform", "")),
        ("CPU threads", str(values.get("cpu_threads", ""))),
        ("GPUs", ", ".join(map(str, values.get("gpus", []))) or "none"),
    ]
    return [*lines, *((name, str(version)) for name, version in packages)]
