"""The curves of a training run."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rloo_verify.report.chart import Chart, Curves, Series, Value
from rloo_verify.report.words import plural
from rloo_verify.types import Signal

PHASES = {"sample": "blue", "verify_wait": "vermillion", "learn": "green", "sync": "orange"}
REASONS_SHOWN = 6
"""Verdict reasons with a colour of their own; the rarer ones are put together."""

Row = Mapping[str, Any]


def training_charts(rows: Sequence[Row], evaluations: Sequence[Row]) -> tuple[list[Chart], str]:
    """The charts of a run, and a sentence on what one of their points stands for.

    Args:
        rows: Rows of metrics.jsonl.
        evaluations: Finished evaluations, in order of their steps.
    """
    if not rows and not evaluations:
        return [], ""
    curves = Curves(rows)
    charts = [_reward(curves, evaluations)]
    if rows:
        charts += [_signals(curves), _reasons(curves, rows), _length(curves), _shares(curves), _gap(curves)]
        charts += [_seconds(curves), _tokens(curves), _gradient(curves)]
        charts += [_kl(curves)] if any(row.get("kl") is not None for row in rows) else []
    points = f"Each point stands for {curves.size:,} steps: their mean, or their largest value where it says so."
    return charts, points if curves.size > 1 else ""


def _reward(curves: Curves, evaluations: Sequence[Row]) -> Chart:
    measured = {int(row["step"]): row for row in evaluations}
    rewards = dict(zip(curves.steps, curves.mean("reward"), strict=True))
    x = sorted({*measured, *rewards})
    series = [Series(label="training reward", values=[rewards.get(step) for step in x], colour="orange")]
    rates = [key for key in (evaluations[-1] if evaluations else {}) if key.startswith("pass@")]
    for name, colour in zip(rates, ("blue", "green", "pink", "vermillion"), strict=False):
        ends = [(measured.get(step, {}).get("intervals") or {}).get(name) or (None, None) for step in x]
        band = name == rates[0] and any(low is not None for low, _ in ends)
        series.append(
            Series(
                label=f"held-out {name}",
                values=[measured.get(step, {}).get(name) for step in x],
                colour=colour,
                dots=True,
                low=[low for low, _ in ends] if band else None,
                high=[high for _, high in ends] if band else None,
            )
        )
    return Chart(
        title="Reward and held-out pass rate",
        caption="Mean 0/1 reward of the judged completions of each step"
        + (f", and held-out {rates[0]} with its 95% interval." if rates else "."),
        x=x,
        series=series,
        format="rate",
        top=1.0,
        wide=True,
    )


def _signals(curves: Curves) -> Chart:
    return Chart(
        title="Signal",
        caption="Shares of the groups. Only mixed groups teach; unjudged ones are failures of verification.",
        x=curves.steps,
        series=[
            Series(label=name, values=curves.mean(f"frac_{name}"), colour=name, stacked=True)
            for name in map(str, Signal)
        ],
        format="share",
        top=1.0,
    )


def _reasons(curves: Curves, rows: Sequence[Row]) -> Chart:
    totals: Counter[str] = Counter()
    for row in rows:
        totals.update(row.get("reasons") or {})
    names = [name for name, _ in totals.most_common()]
    shown, others = names[:REASONS_SHOWN], names[REASONS_SHOWN:]
    colours = _reason_colours(shown)
    parts = {name: [name] for name in shown} | ({plural(len(others), "other reason"): others} if others else {})
    return Chart(
        title="Verdict reasons",
        caption="Shares of completions. Much no_answer: prompt and checker disagree on the format.",
        x=curves.steps,
        series=[
            Series(
                label=label,
                values=curves.mean(_share_of(among)),
                colour=colours.get(label, "grey"),
                stacked=True,
            )
            for label, among in parts.items()
        ],
        format="share",
        top=1.0,
    )


def _share_of(reasons: Sequence[str]) -> Callable[[Row], float]:
    """The share of a step's completions that were given one of these reasons."""

    def share(row: Row) -> float:
        counts = row.get("reasons") or {}
        return float(sum(counts.get(reason, 0) for reason in reasons) / max(1, sum(counts.values())))

    return share


def _seconds_of(phase: str) -> Callable[[Row], float]:
    return lambda row: (row.get("seconds") or {}).get(phase, 0.0)


def _reason_colours(names: Sequence[str]) -> dict[str, str]:
    """Right answers are green wherever they occur; the other reasons take the other colours in order."""
    rest = iter(["vermillion", "orange", "pink", "sky", "blue"])
    return {name: "green" if name == "correct" else next(rest, "grey") for name in names}


def _length(curves: Curves) -> Chart:
    return Chart(
        title="Length",
        caption="Tokens of a completion: mean and longest. Growth with a flat reward: the policy rambles.",
        x=curves.steps,
        series=[
            Series(label="mean", values=curves.mean("length_mean"), colour="blue"),
            Series(label="longest", values=curves.largest("length_max"), colour="grey"),
        ],
    )


def _shares(curves: Curves) -> Chart:
    return Chart(
        title="Truncated and not judged",
        caption="Shares of completions cut at max_new_tokens, and of those that could not be judged.",
        x=curves.steps,
        series=[
            Series(label="truncated", values=curves.mean("truncated_share"), colour="orange"),
            Series(label="not judged", values=curves.mean("error_share"), colour="vermillion"),
        ],
        format="share",
    )


def _gap(curves: Curves) -> Chart:
    return Chart(
        title="Sampler against learner",
        caption="|log-prob difference| a token, in nats: mean and largest. About 1e-7 in float32, 1e-2 in bfloat16.",
        x=curves.steps,
        series=[
            Series(label="mean", values=_positive(curves.mean("logprob_gap_mean")), colour="blue"),
            Series(label="largest", values=_positive(curves.largest("logprob_gap_max")), colour="grey"),
        ],
        format="power",
        log=True,
    )


def _seconds(curves: Curves) -> Chart:
    return Chart(
        title="Seconds",
        caption="Wall time of a step by phase. verify_wait well above 0: more verify.workers.",
        x=curves.steps,
        series=[
            Series(label=name, values=curves.mean(_seconds_of(name)), colour=colour, stacked=True)
            for name, colour in PHASES.items()
        ],
        format="seconds",
    )


def _tokens(curves: Curves) -> Chart:
    return Chart(
        title="Learner tokens",
        caption="Sampled completion tokens a step, trained on or skipped for lack of signal; "
        "and prompt tokens saved because completions share their prompt.",
        x=curves.steps,
        series=[
            Series(label="trained", values=curves.mean("tokens_trained"), colour="blue", stacked=True),
            Series(label="skipped", values=curves.mean("tokens_skipped"), colour="grey", stacked=True),
            Series(label="saved", values=curves.mean("tokens_saved"), colour="orange"),
        ],
        format="count",
    )


def _gradient(curves: Curves) -> Chart:
    return Chart(
        title="Gradient norm",
        caption="Before clipping; no value where nothing was learned. Spikes: lower learner.lr.",
        x=curves.steps,
        series=[Series(label="norm", values=curves.mean("grad_norm"), colour="blue")],
    )


def _kl(curves: Curves) -> Chart:
    return Chart(
        title="KL to the reference",
        caption="Mean k1 estimate, summed over a completion, in nats. Growth without end: raise learner.kl_beta.",
        x=curves.steps,
        series=[Series(label="KL", values=curves.mean("kl"), colour="blue")],
    )


def _positive(values: Sequence[Value]) -> list[Value]:
    """A logarithmic axis has no zero: what was exactly equal has no point."""
    return [value if value else None for value in values]
