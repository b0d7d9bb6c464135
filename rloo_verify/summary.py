"""The few numbers that a run is judged by, for summary.json."""

import json
from typing import Any

from rloo_verify.runlog import RunReader
from rloo_verify.storage import write_atomically
from rloo_verify.types import Signal


def summarize(run: RunReader) -> dict[str, Any]:
    """Held-out pass rates before and after, steps, seconds, and signal totals of a run folder.

    `seconds` is the wall time of steps and evaluations that count; work that a kill threw away is not in it.
    """
    rows, evaluations = run.metrics(), run.evaluations()
    # eval.k may change when a run is resumed: only what was measured before and after is compared
    rates = [key for key in (evaluations[0] if evaluations else {}) if "@" in key and key in evaluations[-1]]
    return {
        "name": run.path.name,
        "steps": len(rows),
        "updates": sum(row["updated"] for row in rows),
        "seconds": sum(row["seconds"]["total"] for row in rows) + sum(row["seconds"] for row in evaluations),
        **{rate: {"before": evaluations[0][rate], "after": evaluations[-1][rate]} for rate in rates},
        "evaluations": [{"step": row["step"], **{rate: row.get(rate) for rate in rates}} for row in evaluations],
        "signals": {str(signal): sum(row[f"groups_{signal}"] for row in rows) for signal in Signal},
        "completions": sum(row["completions"] for row in rows),
        "errors": sum(row["errors"] for row in rows),
        "tokens_sampled": sum(row["tokens_sampled"] for row in rows),
        "tokens_trained": sum(row["tokens_trained"] for row in rows),
        "logprob_gap_max": max((row["logprob_gap_max"] or 0.0 for row in rows), default=None),
    }


def write_summary(run: RunReader) -> dict[str, Any]:
    """Writes `summarize(run)` to the folder's summary.json and returns it.

    Raises:
        StorageError: if it cannot be written.
    """
    summary = summarize(run)
    write_atomically(run.path / "summary.json", json.dumps(summary, indent=1) + "\n")
    return summary
