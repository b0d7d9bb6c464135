#!/usr/bin/env python3
"""The learner over many workloads: a table, a plot, and what each idea is worth.

    python benchmarks/learner_sweep.py [--trl-python trl/bin/python] [--out docs/img/learner-sweep.png]

Group size, prompt length, answer length, share of groups without signal and vocabulary vary one at a time around the
workload of `learner.py`, on a small random Llama. Ratios are CPU time and peak memory: TRL's where `--trl-python` is
given, else those of this learner with all of its ideas switched off. Prints Markdown.
"""

import argparse
import copy
import sys
import tempfile
from pathlib import Path
from typing import Any

from learner import IDEAS, compare, random_model

BASE = {"problems": 4, "group": 8, "prompt_tokens": 90, "new_tokens": 24, "no_signal": 0.5, "vocabulary": 32_000}
SWEEPS: dict[str, list[Any]] = {
    "group": [2, 4, 8, 16],
    "prompt_tokens": [16, 90, 256],
    "new_tokens": [8, 24, 96, 256],
    "no_signal": [0.0, 0.25, 0.5, 0.75],
    "vocabulary": [2_000, 32_000, 100_000],
}
LABELS = {
    "group": "answers a problem", "prompt_tokens": "prompt tokens", "new_tokens": "answer tokens",
    "no_signal": "share without signal", "vocabulary": "vocabulary",
}  # fmt: skip


def measure(point: dict[str, Any], options: argparse.Namespace, without: tuple[str, ...] = ()) -> dict[str, Any]:
    """One workload; against TRL where it is there and no idea is off."""
    settings = argparse.Namespace(
        **{name: value for name, value in point.items() if name != "vocabulary"},
        steps=options.steps, threads=options.threads, micro_batch_tokens=4096, without=list(without),
        trl_python=None if without else options.trl_python,
    )  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        settings.model = random_model(Path(folder), point["vocabulary"])
        result = compare(settings)
    print(f"measured {point}{' without ' if without else ''}{', '.join(without)}", file=sys.stderr)
    return result


def against_peer(point: dict[str, Any], options: argparse.Namespace) -> dict[str, Any]:
    """CPU time and memory of this learner and of the peer at one point."""
    result = measure(point, options)
    peer = result.get("trl") or measure(point, options, IDEAS)["ours"]
    ours = result["ours"]
    return {
        "ours": ours["cpu"], "peer": peer["cpu"], "time_ratio": peer["cpu"] / ours["cpu"],
        "ours_mib": ours["peak_mib"], "peer_mib": peer["peak_mib"], "memory_ratio": peer["peak_mib"] / ours["peak_mib"],
    }  # fmt: skip


def plot(results: dict[str, list[tuple[Any, dict[str, Any]]]], peer: str, path: Path) -> None:
    """A panel a sweep: how many times less time and memory."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.0 * len(results), 3.0), layout="constrained")
    axes = figure.subplots(1, len(results), sharey=True, squeeze=False)[0]
    for panel, (name, points) in zip(axes, results.items(), strict=True):
        places = range(len(points))
        for key, label, style in (("time_ratio", "CPU time", "o-"), ("memory_ratio", "peak memory", "s--")):
            panel.plot(places, [point[key] for _, point in points], style, label=label)
        panel.set_xticks(places, [f"{value:,}" if isinstance(value, int) else str(value) for value, _ in points])
        panel.set_xlabel(LABELS[name])
        panel.axhline(1, color="grey", linewidth=0.8)
        panel.spines[["top", "right"]].set_visible(False)
        panel.set_ylim(bottom=0)
    axes[0].set_ylabel(f"{peer} / this learner")
    axes[0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Runs all sweeps and the ideas one by one, and prints both tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trl-python", help="interpreter of an environment with trl")
    parser.add_argument("--steps", type=int, default=2)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--sweeps", nargs="*", default=list(SWEEPS), choices=list(SWEEPS))
    parser.add_argument("--out", type=Path, help="write the plot here (needs matplotlib)")
    options = parser.parse_args()
    peer = "TRL 1.16" if options.trl_python else "all ideas off"
    base = against_peer(BASE, options)
    results: dict[str, list[tuple[Any, dict[str, Any]]]] = {}
    for name in options.sweeps:
        results[name] = [
            (value, base if value == BASE[name] else against_peer(BASE | {name: value}, options))
            for value in SWEEPS[name]
        ]
    print(f"| varied | value | CPU s, ours | CPU s, {peer} | time ratio | MiB, ours | MiB, {peer} | memory ratio |")
    print("|---|---|---|---|---|---|---|---|")
    for name, points in results.items():
        for value, point in points:
            print(
                f"| {LABELS[name]} | {value} | {point['ours']:.2f} | {point['peer']:.2f} | {point['time_ratio']:.1f} | "
                f"{point['ours_mib']} | {point['peer_mib']} | {point['memory_ratio']:.1f} |"
            )
    print("\n| ideas | CPU s | times faster than none | peak MiB |\n|---|---|---|---|")
    steps: list[tuple[str, tuple[str, ...]]] = [("none", IDEAS)]
    for i, idea in enumerate(IDEAS, 1):
        steps.append((f"+ {idea}", IDEAS[i:]))
    none = None
    for label, without in steps:
        ours = measure(copy.copy(BASE), options, without)["ours"]
        none = none or ours["cpu"]
        print(f"| {label} | {ours['cpu']:.2f} | {none / ours['cpu']:.1f} | {ours['peak_mib']} |")
    if options.out:
        plot(results, peer, options.out)


if __name__ == "__main__":
    main()
