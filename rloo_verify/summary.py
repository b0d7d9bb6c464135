"""The few numbers that a run is judged by, for summary.json."""

from typing import Any

from rloo_verify.runlog import RunReader
from rloo_verify.types import Signal


def summarize(run: RunReader) -> dict[str, Any]:
    """Held-out pass rates before and after, steps, seconds, and signal totals of a run folder.

    `seconds` is the wall time of steps and evaluations that count; work that a kill threw away is not in it.
    """
    rows, evaluations = run.metrics(), run.evaluations()
    rates = [key for key in (evaluations[0] if evaluations else {}) if "@" in key]
    return {
        "name": run.path.name,
        "steps": len(rows),
        "updates": sum(row["updated"] for row in rows),
        "seconds": sum(row["seconds"]["total"] for row in rows) + sum(row["seconds"] for row in evaluations),
        **{rate: {"before": evaluations[0][rate], "after": evaluations[-1][rate]} for rate in rates},
        "evaluations": [{"step": row["step"], **{rate: row[rate] for rate in rates}} for row in evaluations],
        "signals": {str(signal): sum(row[f"groups_{signal}"] for row in rows) for signal in Signal},
        "completions": sum(row["completions"] for row in rows),
        "errors": sum(row["errors"] for row in rows),
        "tokens_sampled": sum(row["tokens_sampled"] for row in rows),
        "tokens_trained": sum(row["tokens_trained"] for row in rows),
        "logprob_gap_max": max((row["logprob_gap_max"] or 0.0 for row in rows), default=None),
    }
