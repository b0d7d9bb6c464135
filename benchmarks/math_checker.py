"""Throughput of the math checker beside Math-Verify, on the same pairs in one run, a single process each.

Usage: python benchmarks/math_checker.py [--data FOLDER] [--pairs 600] [--peer-python PYTHON]

GSM8K-like pairs are real model solutions (`gsm8k/example_model_solutions.jsonl`); MATH pairs are real solutions and
boxed answers that are right in another spelling, or wrong (`math/hendrycks_math_test.jsonl`). Every reference is new to
both checkers: no cache helps. Math-Verify runs in the environment of PYTHON (this one where not given), and is left
out with a sentence where it is not installed. Prints one JSON line.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

from rloo_verify.checkers import math_verify_peer
from rloo_verify.checkers.boxes import last_box
from rloo_verify.checkers.math import check, warm_up
from rloo_verify.checkers.mutations import variants
from rloo_verify.checkers.reference import read_reference

DATA = Path(__file__).parents[2] / "shared" / "data"
TARGETS = {"gsm8k": 30.0, "math": 10.0}

Pairs = list[tuple[str, str]]


def gsm8k_pairs(folder: Path, count: int, chance: random.Random) -> Pairs:
    """References and whole solutions of a model, as text that ends with `#### answer`."""
    pairs: Pairs = []
    for row in _rows(folder / "gsm8k" / "example_model_solutions.jsonl"):
        gold = row["ground_truth"].rpartition("A:")[2].strip()
        for solution in row.values():
            if isinstance(solution, dict):
                steps, _, answer = solution["solution"].rpartition("A:")
                pairs.append((gold, f"{steps.strip()}\n#### {answer.strip()}"))
    return chance.sample(pairs, count)


def math_pairs(folder: Path, count: int, chance: random.Random) -> Pairs:
    """References with, by turns, the whole solution, another spelling of the answer, and a mutation of it."""
    pairs: Pairs = []
    for number, row in enumerate(chance.sample(_rows(folder / "math" / "hendrycks_math_test.jsonl"), count)):
        gold = last_box(row["solution"]) or ""
        changed = [
            variant.text.removesuffix(" .")
            for variant in variants(gold)
            if variant.kind in ("layout", "digit", "off by one")
        ]
        response = row["solution"] if number % 3 == 0 else f"Hence the answer is $\\boxed{{{changed[-(number % 2)]}}}$."
        pairs.append((gold, response))
    return pairs


def measure(pairs: Pairs) -> tuple[list[bool], list[float]]:
    """Our verdicts and the seconds of each check."""
    read_reference.cache_clear()
    verdicts, seconds = [], []
    for gold, response in pairs:
        started = time.perf_counter()
        verdict = check(response, gold, {})
        seconds.append(time.perf_counter() - started)
        verdicts.append(verdict.reward == 1.0)
    return verdicts, seconds


def measure_peer(pairs: Pairs, python: str) -> tuple[list[bool], list[float]]:
    """Math-Verify's verdicts and seconds; its references are boxed, as bare LaTeX is often unreadable for it."""
    lines = "".join(json.dumps([rf"\boxed{{{gold}}}", response]) + "\n" for gold, response in pairs)
    command = [python, "-P", math_verify_peer.__file__]  # -P: our math.py must not shadow the module math
    done = subprocess.run(command, input=lines, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr.strip() or f"{python} cannot run Math-Verify")
    judged = [json.loads(line) for line in done.stdout.splitlines()]
    return [right for right, _ in judged], [seconds for _, seconds in judged]


def _rows(path: Path) -> list[dict[str, str]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _described(seconds: list[float]) -> dict[str, float]:
    return {"per_second": round(len(seconds) / sum(seconds)), "median_ms": round(1000 * statistics.median(seconds), 4)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA, help="folder that holds gsm8k/ and math/")
    parser.add_argument("--pairs", type=int, default=600, help="pairs of each kind")
    parser.add_argument("--peer-python", default=sys.executable, help="the Python that has Math-Verify")
    arguments = parser.parse_args()
    if not arguments.data.is_dir():
        sys.exit(f"{arguments.data} does not exist; give the folder of the data sets with --data")
    result: dict[str, object] = {}
    peer = True
    warm_up()
    for name, make in (("gsm8k", gsm8k_pairs), ("math", math_pairs)):
        pairs = make(arguments.data, arguments.pairs, random.Random(0))
        verdicts, seconds = measure(pairs)
        result[name] = ours = {"pairs": len(pairs), "rloo_verify": _described(seconds)}
        try:
            theirs, their_seconds = measure_peer(pairs, arguments.peer_python) if peer else ([], [])
        except RuntimeError as error:
            print(f"without a peer: {error}", file=sys.stderr)
            peer = False
        if peer:
            ours["math_verify"] = _described(their_seconds)
            ours["same_verdict"] = sum(a == b for a, b in zip(verdicts, theirs, strict=True))
            ours["times_faster"] = round(sum(their_seconds) / sum(seconds), 1)
            ours["target"] = TARGETS[name]
    print(json.dumps(result))


if __name__ == "__main__":
    main()
