"""The report of one evaluation: rates, how they spread over problems, reasons, lengths, and the samples."""

import json
import re
import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rloo_verify.errors import RunError
from rloo_verify.evaluate import evaluate_samples, rate_names
from rloo_verify.evaluation_folder import SAMPLES, SUMMARY, read_settings
from rloo_verify.report.chart import Chart, Series, histogram
from rloo_verify.report.groups import read_records, sample_browser
from rloo_verify.report.page import render
from rloo_verify.samples import Sample, sample_from_json
from rloo_verify.storage import write_atomically
from rloo_verify.types import Outcome

LENGTH_BINS = 24
FEW_ANSWERS = 16
"""Up to so many answers a problem, the chart of pass rates has a bar for each number of passes."""
OUTCOME_COLOURS = {Outcome.PASS: "green", Outcome.FAIL: "vermillion", Outcome.ERROR: "grey"}


def write_evaluation_report(folder: Path) -> Path:
    """Writes `report.html` into an evaluation folder and returns its path.

    Raises:
        RunError: if there are no samples.
        StorageError: if it cannot be written.
    """
    path = folder / "report.html"
    write_atomically(path, evaluation_page(folder))
    return path


def evaluation_page(folder: Path, *, watch: int = 0) -> str:
    """The HTML of an evaluation's report, as of now.

    Args:
        folder: An evaluation folder, which may still be written to.
        watch: The page loads itself again every so many seconds; 0: it does not.

    Raises:
        RunError: if there are no samples.
    """
    file = folder / SAMPLES
    if not file.is_file():
        raise RunError(f"{folder} has no {SAMPLES}: it is not an evaluation folder, or nothing was judged yet")
    settings, samples = read_settings(folder), list(_slim(read_records(file)))
    summary = _summary(folder, settings, samples)
    by_problem: dict[str, list[Outcome]] = defaultdict(list)
    for sample in samples:
        by_problem[sample.problem].append(sample.outcome)
    charts = [chart for chart in (_spread(by_problem.values()), _lengths(samples)) if chart]
    agreement = _json(folder / "agreement.json")
    disagreements = agreement.get("disagreements") or []
    earlier = {(one["problem"], one["sample_index"]): one["old"] for one in disagreements}
    browser = sample_browser(file, by_problem, earlier)
    return render(
        "evaluation.html.j2",
        data={
            "charts": [chart.as_json() for chart in charts],
            "browser": browser,
            "watch": watch,
            "written": time.time() if watch else None,
        },
        title=_title(folder, summary),
        summary=summary,
        rates=_rates(summary),
        reasons=list(summary["reasons"].items()),
        settings=[(key, _text(value)) for key, value in settings.items() if value is not None],
        finished=(folder / SUMMARY).is_file(),
        charts=charts,
        left_out=browser["left_out"],
        agreement=agreement,
        outcomes=[str(outcome) for outcome in Outcome],
        watch=watch,
    )


def _slim(records: Iterable[Mapping[str, Any]]) -> Iterable[Sample]:
    """Samples without their texts, so that a large evaluation fits into memory."""
    heavy = ("prompt", "text", "detail")
    for record in records:
        try:
            yield sample_from_json({key: value for key, value in record.items() if key not in heavy})
        except ValueError:  # a line of something else
            continue


def _summary(folder: Path, settings: Mapping[str, Any], samples: Sequence[Sample]) -> dict[str, Any]:
    """summary.json; while the evaluation goes on, pass@1 and the counts of the samples that are there."""
    done = _json(folder / SUMMARY)
    if done.get("completions") == len(samples):
        return done
    return {**settings, **evaluate_samples(samples, [1]).as_json()}


def _json(file: Path) -> dict[str, Any]:
    """The object in a JSON file; empty where it is missing or torn."""
    try:
        value = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}


def _rates(summary: Mapping[str, Any]) -> list[dict[str, Any]]:
    """One row a rate, in the order of `evaluate.rate_names`."""
    ks = sorted(int(key.partition("@")[2]) for key in summary if key.startswith("pass@"))
    intervals, problems = summary.get("intervals") or {}, summary.get("problems_at") or {}
    as_fail = summary.get("errors_as_fail") or {}
    return [
        {
            "name": name,
            "value": summary.get(name),
            "interval": intervals.get(name),
            "problems": problems.get(re.split("[@^]", name)[1]),
            "as_fail": as_fail.get(name),
        }
        for name in rate_names(ks)
        if name in summary
    ]


def _spread(problems: Iterable[Sequence[Outcome]]) -> Chart | None:
    """How many problems have which pass rate; nothing to see with one answer each."""
    counts = Counter(
        (sum(outcome is Outcome.PASS for outcome in outcomes), judged)
        for outcomes in problems
        if (judged := sum(outcome is not Outcome.ERROR for outcome in outcomes))
    )
    most = max((judged for _, judged in counts), default=0)
    if most < 2:
        return None
    bins = most if most <= FEW_ANSWERS and all(judged == most for _, judged in counts) else 10
    heights = [0] * (bins + 1)
    for (passed, judged), number in counts.items():
        heights[round(bins * passed / judged)] += number
    return Chart(
        title="Pass rates of the problems",
        caption="Problems by the share of their answers that pass. Both ends: never, and always.",
        x=[i / bins for i in range(bins + 1)],
        series=[Series(label="problems", values=heights, colour="blue")],
        format="count",
        x_name="pass rate",
        x_format="share",
        bars=True,
    )


def _lengths(samples: Sequence[Sample]) -> Chart | None:
    """How long passing and failing answers are."""
    known = [(sample.tokens, sample.outcome) for sample in samples if sample.tokens is not None]
    if not known:
        return None
    edges, width = histogram([tokens for tokens, _ in known], LENGTH_BINS)
    counts = Counter((int((tokens - edges[0]) // width), outcome) for tokens, outcome in known)
    outcomes = [outcome for outcome in OUTCOME_COLOURS if any(found is outcome for _, found in known)]
    return Chart(
        title="Length",
        caption=f"Answers by their length in tokens, in bins of {width:,.0f}, by verdict.",
        x=edges,
        series=[
            Series(
                label=str(outcome),
                values=[counts[place, outcome] for place in range(len(edges))],
                colour=OUTCOME_COLOURS[outcome],
                stacked=True,
            )
            for outcome in outcomes
        ],
        format="count",
        x_name="tokens from",
        bars=True,
    )


def _title(folder: Path, summary: Mapping[str, Any]) -> str:
    task, model = summary.get("task"), summary.get("model")
    return f"{task}: {_model_name(str(model))}" if task and model else str(task or folder.name)


def _model_name(model: str) -> str:
    """The last part of a path or hub id; a checkpoint keeps the name of its run."""
    parts = Path(model).parts or (model,)
    return f"{parts[-3]}/{parts[-1]}" if parts[-2:-1] == ("checkpoints",) and len(parts) > 2 else parts[-1]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
