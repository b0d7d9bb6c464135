"""report.html: one file with the run's curves and last rollouts, readable without a network."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
import matplotlib as mpl
from matplotlib.figure import Figure

from rloo_verify.runlog import RunReader
from rloo_verify.storage import read_jsonl, write_atomically
from rloo_verify.summary import summarize

SIGNAL_COLOURS = {"mixed": "#2a9d8f", "all_pass": "#a8c686", "all_fail": "#e07a5f", "unjudged": "#9aa0a6"}
PHASES = ("sample", "verify_wait", "learn", "sync")
SHOWN_GROUPS = 12
"""Groups of the last step whose completions are shown in full."""


def write_report(run: RunReader) -> Path:
    """Writes `report.html` into a run folder and returns its path.

    Raises:
        StorageError: if it cannot be written.
    """
    rows, evaluations = run.metrics(), run.evaluations()
    last = sorted((run.path / "rollouts").glob("step-*.jsonl"))
    rollouts = read_jsonl(last[-1]) if last else []
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in rollouts:
        groups.setdefault(record["problem"], []).append(record)
    environment = jinja2.Environment(loader=jinja2.PackageLoader("rloo_verify"), autoescape=True)
    html = environment.get_template("report.html.j2").render(
        summary=summarize(run),
        charts=[chart for chart in _charts(rows, evaluations) if chart],
        groups=list(groups.items())[:SHOWN_GROUPS],
        config=(run.path / "config.toml").read_text(encoding="utf-8"),
    )
    path = run.path / "report.html"
    write_atomically(path, html)
    return path


def _charts(rows: Sequence[Mapping[str, Any]], evaluations: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    if not rows:
        return []
    steps = [row["step"] for row in rows]
    return [
        _reward_chart(steps, rows, evaluations),
        _signal_chart(steps, rows),
        _line_chart(
            "Length",
            "Mean tokens of a completion.",
            steps,
            {"tokens": [row["length_mean"] for row in rows]},
        ),
        _line_chart(
            "Truncated and errors",
            "Shares of completions cut at max_new_tokens, and of completions that could not be judged.",
            steps,
            {"truncated": [row["truncated_share"] for row in rows], "errors": [row["error_share"] for row in rows]},
        ),
        _line_chart(
            "Sampler against learner",
            "|log-prob difference| a token in nats. Near 0 means that the samples are on-policy.",
            steps,
            {name: [row[f"logprob_gap_{name}"] for row in rows] for name in ("mean", "max")},
        ),
        _phase_chart(steps, rows),
    ]


def _reward_chart(
    steps: Sequence[int], rows: Sequence[Mapping[str, Any]], evaluations: Sequence[Mapping[str, Any]]
) -> dict[str, str]:
    figure, axes = _figure()
    axes.plot(steps, [row["reward"] for row in rows], color="#8ab6d6", linewidth=1, label="training reward")
    rate = next((key for key in (evaluations[-1] if evaluations else {}) if "@" in key), None)
    if rate:  # an older evaluation may have been made with another eval.k
        points = [(row["step"], row[rate]) for row in evaluations if rate in row]
        axes.plot(*zip(*points, strict=True), "o-", color="#1d3557", linewidth=2, label=f"held-out {rate}")
    axes.set_ylim(0, 1)
    axes.legend(frameon=False)
    return _chart("Reward", "Mean 0/1 reward of the judged completions of each step, and held-out pass rate.", figure)


def _signal_chart(steps: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    figure, axes = _figure()
    shares = [[row[f"frac_{name}"] for row in rows] for name in SIGNAL_COLOURS]
    axes.stackplot(steps, shares, labels=list(SIGNAL_COLOURS), colors=list(SIGNAL_COLOURS.values()))
    axes.set_ylim(0, 1)
    axes.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return _chart("Signal", "Share of groups; only mixed ones teach anything.", figure)


def _phase_chart(steps: Sequence[int], rows: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    figure, axes = _figure()
    axes.stackplot(steps, [[row["seconds"].get(name, 0.0) for row in rows] for name in PHASES], labels=PHASES)
    axes.legend(frameon=False, ncols=4, loc="upper center", bbox_to_anchor=(0.5, -0.16))
    return _chart("Seconds", "Wall time of each step by phase.", figure)


def _line_chart(title: str, caption: str, steps: Sequence[int], lines: Mapping[str, Sequence[Any]]) -> dict[str, str]:
    figure, axes = _figure()
    for name, values in lines.items():
        axes.plot(steps, [float("nan") if value is None else value for value in values], label=name, linewidth=1.5)
    known = [value for values in lines.values() for value in values if value is not None]
    axes.set_ylim(0, 1.05 * max(known, default=0.0) or 1)
    if len(lines) > 1:
        axes.legend(frameon=False)
    return _chart(title, caption, figure)


def _figure() -> tuple[Figure, Any]:
    figure = Figure(figsize=(6.4, 3.4), layout="constrained")
    axes = figure.add_subplot()
    axes.spines[["top", "right"]].set_visible(False)
    axes.set_xlabel("step")
    return figure, axes


def _chart(title: str, caption: str, figure: Figure) -> dict[str, str]:
    """A chart as inline SVG; text stays text, so it can be read out and searched."""
    buffer = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none", "svg.hashsalt": title}):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None})
    return {"title": title, "caption": caption, "svg": buffer.getvalue().partition("<svg")[2]}
