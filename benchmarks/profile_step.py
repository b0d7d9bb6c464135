#!/usr/bin/env python3
"""Where the CPU time of one update goes: a picture of its operators, the largest first.

    python benchmarks/profile_step.py [--model models/smollm2-135m-instruct] [--out FILE.png] [--json]

The workload is that of `learner.py`: 4 problems x 8 answers, 90 + 24 tokens, half the groups without signal. The second
step is profiled. An operator whose operands have the vocabulary as a dimension belongs to the head.
"""

import argparse
import json
import random
import tempfile
from pathlib import Path
from typing import Any

import torch
from learner import random_model
from torch.profiler import ProfilerActivity, profile, record_function

from rloo_verify.config import LearnerConfig
from rloo_verify.learner import Learner
from rloo_verify.models import load_model
from rloo_verify.types import Completion, FinishReason, Group, Outcome, Problem, Verdict

MATRIX = ("mm", "addmm", "bmm", "matmul", "linear")
KINDS = {
    "attention": ("scaled_dot_product",),
    "gathering for attention": ("index_select", "index_add", "index_put"),
    "optimizer and clipping": ("foreach", "addcmul", "addcdiv", "norm", "lerp", "sqrt"),
    "copies": ("copy", "cat", "clone", "fill_", "zero_", "contiguous"),
}


def kind(name: str, shapes: Any, vocabulary: int) -> str:
    """The part of the step that an operator belongs to."""
    operator = name.removeprefix("aten::").lstrip("_")
    in_head = any(vocabulary in shape for shape in shapes if isinstance(shape, list))
    for part, words in KINDS.items():
        if part.startswith("optimizer") and any(operator.startswith(word) for word in words):
            return part
    if operator in MATRIX:
        return "head: matrix products" if in_head else "layers: matrix products"
    if in_head:
        return "head: softmax and its gradient"
    for part, words in KINDS.items():
        if any(word in operator for word in words):
            return part
    return "element-wise operations" if name.startswith("aten::") else "Python and autograd"


def groups(version: int, vocabulary: int) -> list[Group]:
    """Four problems with eight answers, two of them with a signal."""
    rng = random.Random(version)
    made = []
    for number in range(4):
        prompt = tuple(rng.randrange(vocabulary) for _ in range(90))
        problem = Problem(str(number), "bench", (), "", "", prompt_token_ids_T=prompt)
        completions = []
        for i in range(8):
            ids = tuple(rng.randrange(vocabulary) for _ in range(24))
            completions.append(Completion(problem.id, i, ids, (-1.0,) * 24, "", FinishReason.LENGTH, version, 0))
        outcomes = [Outcome.PASS if number < 2 and i == 0 else Outcome.FAIL for i in range(8)]
        made.append(Group(problem, completions, [Verdict(outcome, "bench") for outcome in outcomes]))
    return made


def measure(model: str) -> dict[str, float]:
    """CPU milliseconds of each part of one update."""
    learner = Learner(load_model(model, torch.float32), LearnerConfig(lr=1e-6, micro_batch_tokens=2048))
    learner.step(groups(0, learner.vocabulary_size))
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler, record_function("step"):
        learner.step(groups(1, learner.vocabulary_size))
    parts: dict[str, float] = {}
    for event in profiler.key_averages(group_by_input_shape=True):
        part = kind(event.key, event.input_shapes, learner.vocabulary_size)
        parts[part] = parts.get(part, 0.0) + event.self_cpu_time_total / 1e3
    return dict(sorted(parts.items(), key=lambda item: item[1], reverse=True))


def plot(parts: dict[str, float], path: Path) -> None:
    """Bars, the largest on top."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.4), layout="constrained")
    axes = figure.add_subplot()
    total = sum(parts.values())
    names = list(parts)[::-1]
    colours = ["#0072b2" if name in list(parts)[:3] else "#9aa0a6" for name in names]
    bars = axes.barh(names, [parts[name] for name in names], color=colours)
    axes.bar_label(bars, [f"{parts[name] / total:.0%}" for name in names], padding=3)
    axes.set_xlabel("CPU milliseconds of one update")
    axes.spines[["top", "right"]].set_visible(False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Prints the parts, and draws them where asked."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", help="a model folder; without it a small random Llama")
    parser.add_argument("--out", type=Path, help="write the picture here (needs matplotlib)")
    parser.add_argument("--json", action="store_true")
    settings = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        parts = measure(settings.model or random_model(Path(folder), 32_000))
    if settings.out:
        plot(parts, settings.out)
    if settings.json:
        print(json.dumps(parts))
        return
    for name, milliseconds in parts.items():
        print(f"{milliseconds:9.1f} ms  {milliseconds / sum(parts.values()):4.0%}  {name}")


if __name__ == "__main__":
    main()
