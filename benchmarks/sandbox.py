"""Tests a second of the sandbox against three other ways to run the same trivial programs, in one run.

    python benchmarks/sandbox.py [--seconds 5]

- `docker`, `bwrap`: this project's sandbox, one program at a time, every protection on
- `docker run`: a fresh container for each test
- `docker exec`: a fresh interpreter for each test in one warm container
- `human-eval`: the pattern of openai/human-eval: a Manager and a Process for each sample, and no isolation

Prints one JSON line a way, then the two figures that must hold: at least 80 tests a second per worker, and 20 times
`docker exec`.
"""

import argparse
import contextlib
import io
import json
import multiprocessing
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from rloo_verify.sandbox.box import Job
from rloo_verify.sandbox.docker import connect
from rloo_verify.sandbox.images import ensure_image
from rloo_verify.sandbox.runner import Sandbox
from rloo_verify.sandbox.settings import SandboxSettings, find_image

SOURCE = "print(int(input()) + 1)"
LEAST_A_SECOND, LEAST_TIMES_EXEC = 80.0, 20.0


def sandboxed(backend: Any) -> tuple[Callable[[], str], Callable[[], None]]:
    sandbox = Sandbox(SandboxSettings(backend=backend))
    job = Job({"mode": "script", "sources": [SOURCE]}, stdin=b"41\n")
    return lambda: sandbox.run(job).stdout.decode(), sandbox.close


def by_command(command: list[str]) -> Callable[[], str]:
    def run() -> str:
        done = subprocess.run([*command, "python3", "-c", SOURCE], input="41\n", capture_output=True, text=True)
        return done.stdout

    return run


def _unsafe_execute(results: Any) -> None:
    sys.stdin = io.StringIO("41\n")
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(SOURCE, {})
    results.append(printed.getvalue())


def human_eval() -> str:
    results = multiprocessing.Manager().list()
    process = multiprocessing.Process(target=_unsafe_execute, args=(results,))
    process.start()
    process.join(3)
    return str(results[0])


def rate(run: Callable[[], str], seconds: float) -> float:
    assert run().strip() == "42"  # warm
    started, runs = time.perf_counter(), 0
    while time.perf_counter() - started < seconds:
        assert run().strip() == "42"
        runs += 1
    return runs / (time.perf_counter() - started)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0, help="how long each way is measured")
    seconds = parser.parse_args().seconds
    tag = ensure_image(connect(), find_image("python"))
    flags = ["--rm", "-i", "--network", "none", "--read-only", "--cap-drop", "ALL"]
    found: dict[str, float] = {}
    for backend in ("docker", "bwrap"):
        run, close = sandboxed(backend)
        found[backend] = rate(run, seconds)
        close()
    found["docker run"] = rate(by_command(["docker", "run", *flags, tag]), seconds)
    command = ["docker", "run", "-d", *flags, tag, "python3", "-c", "import time; time.sleep(600)"]
    warm = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    found["docker exec"] = rate(by_command(["docker", "exec", "-i", warm]), seconds)
    subprocess.run(["docker", "rm", "-f", warm], capture_output=True, check=False)
    found["human-eval"] = rate(human_eval, seconds)
    for name, tests in found.items():
        print(json.dumps({"way": name, "tests_per_second": round(tests, 1)}))
    times = found["docker"] / found["docker exec"]
    enough = found["docker"] >= LEAST_A_SECOND and times >= LEAST_TIMES_EXEC
    print(json.dumps({"docker_tests_per_second": round(found["docker"], 1), "times_docker_exec": round(times, 1),
                      "enough": enough}))  # fmt: skip
    sys.exit(0 if enough else 1)


if __name__ == "__main__":
    main()
