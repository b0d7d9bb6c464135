"""Tests a second of the sandbox against three other ways to run the same trivial programs, in one run.

    python benchmarks/sandbox.py [--rounds 30] [--seconds 0.25]

- `docker`, `bwrap`: this project's sandbox, one program at a time, every protection on; the tests of an answer follow
  each other (20 an answer)
- `docker, single`: the same, each test an answer of its own
- `docker run`: a fresh container for each test
- `docker exec`: a fresh interpreter for each test in one warm container
- `human-eval`: the pattern of openai/human-eval: a Manager and a Process for each sample, and no isolation

The ways take turns, so that other work on the machine hits all of them, and each round compares its own neighbours.
Prints one JSON line a way with the median of its rounds, then the two figures that must hold: at least 80 tests a
second per worker, and 20 times `docker exec`, the median over the rounds of the ratio within a round.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from itertools import repeat
from statistics import median
from typing import Any

from rloo_verify.sandbox.box import Job, RunResult
from rloo_verify.sandbox.docker import connect
from rloo_verify.sandbox.images import ensure_image
from rloo_verify.sandbox.runner import Sandbox
from rloo_verify.sandbox.settings import SandboxSettings, find_image

Way = Callable[[], list[str]]
"""Runs some tests; returns what each printed."""

SOURCE = "print(int(input()) + 1)"
LEAST_A_SECOND, LEAST_TIMES_EXEC = 80.0, 20.0


def sandboxed(backend: Any, stack: contextlib.ExitStack, tests: int) -> Way:
    sandbox = stack.enter_context(Sandbox(SandboxSettings(backend=backend)))
    job = Job({"mode": "script", "sources": [SOURCE]}, stdin=b"41\n")

    def run() -> list[str]:
        printed: list[str] = []

        def take(result: RunResult) -> bool:
            printed.append(result.stdout.decode())
            return True

        sandbox.run_while(repeat(job, tests), take)
        return printed

    return run


def by_command(command: list[str]) -> Way:
    def run() -> list[str]:
        done = subprocess.run([*command, "python3", "-c", SOURCE], input="41\n", capture_output=True, text=True)
        return [done.stdout]

    return run


def _unsafe_execute(results: Any) -> None:
    sys.stdin = io.StringIO("41\n")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(SOURCE, {})
    results.append(printed.getvalue())


def human_eval() -> list[str]:
    results = multiprocessing.Manager().list()
    process = multiprocessing.Process(target=_unsafe_execute, args=(results,))
    process.start()
    process.join(3)
    return [str(results[0])]


def rate(run: Way, seconds: float) -> float:
    started, tests = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        printed = run()
        assert set(printed) == {"42\n"}
        tests += len(printed)
    return tests / (time.perf_counter() - started)


@contextlib.contextmanager
def ways() -> Iterator[dict[str, Way]]:
    tag = ensure_image(connect(), find_image("python"))
    flags = ["--rm", "-i", "--network", "none", "--read-only", "--cap-drop", "ALL"]
    command = ["docker", "run", "-d", *flags, tag, "python3", "-c", "import time; time.sleep(3600)"]
    warm = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    with contextlib.ExitStack() as stack:
        stack.callback(subprocess.run, ["docker", "rm", "-f", warm], capture_output=True, check=False)
        yield {
            "docker": sandboxed("docker", stack, 20),
            "docker exec": by_command(["docker", "exec", "-i", warm]),
            "docker, single": sandboxed("docker", stack, 1),
            "bwrap": sandboxed("bwrap", stack, 20),
            "docker run": by_command(["docker", "run", *flags, tag]),
            "human-eval": human_eval,
        }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30, help="how often each way is measured")
    parser.add_argument("--seconds", type=float, default=0.25, help="how long each time")
    options = parser.parse_args()
    with ways() as contenders:
        for run in contenders.values():
            run()  # warm
        rounds = [{name: rate(run, options.seconds) for name, run in contenders.items()} for _ in range(options.rounds)]
    for name in contenders:
        rates = [row[name] for row in rounds]
        found = {"tests_per_second": round(median(rates), 1), "lowest": round(min(rates), 1)}
        print(json.dumps({"way": name, **found, "highest": round(max(rates), 1)}))
    tests = median(row["docker"] for row in rounds)
    times = median(row["docker"] / row["docker exec"] for row in rounds)
    enough = tests >= LEAST_A_SECOND and times >= LEAST_TIMES_EXEC
    print(json.dumps({"docker_tests_per_second": round(tests, 1), "times_docker_exec": round(times, 1),
                      "enough": enough}))  # fmt: skip
    sys.exit(0 if enough else 1)


if __name__ == "__main__":
    main()
