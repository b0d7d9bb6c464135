#!/usr/bin/env python3
"""Is verification hidden behind generation? A checker that sleeps 50 ms an answer tells.

Three ways in one run:

    generate alone, verify alone, and both as the trainer does it (each answer is judged while others are drawn)

    python benchmarks/overlap.py [--model tiny-arithmetic] [--engine transformers] [--workers 16]

Prints one JSON line: median seconds of each, and `ratio`: both / max(generate alone, verify alone), at best 1.
"""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

import argparse
import json
import logging
import statistics
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from rloo_verify.config import ModelConfig, PolicyConfig
from rloo_verify.models import load_tokenizer
from rloo_verify.policy.base import Request, Sampling
from rloo_verify.rollout import Sampler
from rloo_verify.seeds import derive_seed
from rloo_verify.setup import open_policy, renderer
from rloo_verify.tasks import find_task
from rloo_verify.verify import Verifier

SLEEPY_CHECKER = """
import time

def check(completion, answer, row):
    time.sleep({seconds})
    return completion.endswith(answer)
"""


def sleepy_task(folder: Path, seconds: float) -> Path:
    """A task folder whose checker sleeps."""
    folder.mkdir()
    (folder / "check.py").write_text(SLEEPY_CHECKER.format(seconds=seconds))
    (folder / "task.toml").write_text(
        'summary = "sleeps"\nsource = "benchmark"\nlicense = "Apache-2.0"\nversion = 1\n'
        '[data]\nsample = "rows.jsonl"\n[data.columns]\nquestion = "q"\nanswer = "a"\n'
        '[prompt]\nuser = "{question}"\n[check]\nchecker = "check.py:check"\n'
    )
    (folder / "rows.jsonl").write_text('{"q": "1", "a": "1"}\n')
    return folder


def main() -> None:
    """Runs the three ways and prints the JSON line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="tiny-arithmetic")
    parser.add_argument("--engine", default="transformers")
    parser.add_argument("--problems", type=int, default=128)
    parser.add_argument("--group-size", type=int, default=8)
    parser.add_argument("--max-new-tokens", type=int, default=40)
    parser.add_argument("--workers", type=int, default=16, help="they sleep, so they need no cores")
    parser.add_argument("--sleep-ms", type=float, default=50.0)
    parser.add_argument("--repeats", type=int, default=3)
    settings = parser.parse_args()
    logging.basicConfig(level=logging.ERROR)

    tokenizer = load_tokenizer(settings.model)
    policy = open_policy(
        ModelConfig(path=settings.model), PolicyConfig(engine=settings.engine), tokenizer, 64 + settings.max_new_tokens
    )
    arithmetic = find_task("arithmetic")
    render = renderer([arithmetic], tokenizer, 64)
    problems = [replace(render(p), task="sleepy") for p in arithmetic.problems("test", limit=settings.problems)]
    sampling = Sampling(settings.max_new_tokens)
    seconds: dict[str, list[float]] = {"generate": [], "verify": [], "both": []}
    with tempfile.TemporaryDirectory() as folder:
        task = sleepy_task(Path(folder) / "sleepy", settings.sleep_ms / 1000)
        with Verifier({"sleepy": task}, workers=settings.workers, timeout_seconds=5) as verifier:
            sampler = Sampler(policy, verifier, lambda problem: problem)
            sampler.draw(problems[:2], 2, sampling, "warm-up")
            for repeat in range(settings.repeats):
                requests = [
                    Request(p, i, derive_seed(repeat, p.id, i)) for p in problems for i in range(settings.group_size)
                ]
                started = time.perf_counter()
                drawn = list(policy.generate(requests, sampling))
                seconds["generate"].append(time.perf_counter() - started)
                started = time.perf_counter()
                for verdict in [verifier.submit(problems[0], completion.text) for completion in drawn]:
                    verdict.result()
                seconds["verify"].append(time.perf_counter() - started)
                started = time.perf_counter()
                sampler.draw(problems, settings.group_size, sampling, repeat)
                seconds["both"].append(time.perf_counter() - started)
    policy.close()
    medians = {name: statistics.median(values) for name, values in seconds.items()}
    ratio = medians["both"] / max(medians["generate"], medians["verify"])
    answers = settings.problems * settings.group_size
    print(json.dumps({"answers": answers, "engine": settings.engine, **medians, "ratio": ratio}))


if __name__ == "__main__":
    main()
