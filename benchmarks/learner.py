#!/usr/bin/env python3
"""One RLOO update: this learner and TRL's, on the same model and workload, one after the other in one run.

    python -m venv trl && trl/bin/pip install trl==1.16.0 datasets        (an environment of its own)
    python benchmarks/learner.py --trl-python trl/bin/python [--model models/smollm2-135m-instruct] [--json]

Each side runs in a process of its own, so that its peak memory is its own. TRL is charged for its forward and backward
and for the pass for old log-probs that it makes first; sampling is left out on both sides. Random answers of a fixed
length, a stated share of groups with identical rewards. Prints medians over the steps after the first, and
`time_ratio` (wall), `cpu_ratio` (CPU time, which other work on the machine disturbs less) and `memory_ratio`: TRL over
ours. With `--without` ideas of this learner are switched off, to see what each is worth; `learner_sweep.py` does so.
"""

import argparse
import json
import os
import random
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

IDEAS = ("packing", "skip", "chunked-head")
WORKLOAD = ("problems", "group", "prompt_tokens", "new_tokens", "no_signal", "steps", "threads")


def ours(settings: argparse.Namespace) -> dict[str, Any]:
    """Times `Learner.step`."""
    import torch

    import rloo_verify.logprobs
    from rloo_verify.config import LearnerConfig
    from rloo_verify.learner import Learner
    from rloo_verify.models import load_model
    from rloo_verify.types import Completion, FinishReason, Group, Outcome, Problem, Verdict

    torch.set_num_threads(settings.threads)
    config = LearnerConfig(lr=1e-6, micro_batch_tokens=settings.micro_batch_tokens)
    learner = Learner(load_model(settings.model, torch.float32), config)
    without = settings.without
    if "packing" in without:
        learner.scorer.packing = rloo_verify.logprobs.NO_PACKING
    if "chunked-head" in without:
        rloo_verify.logprobs.chunked_logprobs = whole_head
    rng = random.Random(0)

    def ids(count: int) -> tuple[int, ...]:
        return tuple(rng.randrange(learner.vocabulary_size) for _ in range(count))

    def group(number: int) -> Group:
        problem = Problem(str(number), "bench", (), "", "", prompt_token_ids_T=ids(settings.prompt_tokens))
        drawn = [ids(settings.new_tokens) for _ in range(settings.group)]
        completions = [
            Completion(problem.id, i, tokens, (-1.0,) * len(tokens), "", FinishReason.LENGTH, learner.version, 0)
            for i, tokens in enumerate(drawn)
        ]
        mixed = number < round(settings.problems * (1 - settings.no_signal)) or "skip" in without
        outcomes = [Outcome.PASS if mixed and i == 0 else Outcome.FAIL for i in range(settings.group)]
        return Group(problem, completions, [Verdict(outcome, "bench") for outcome in outcomes])

    seconds, cpu, updates = [], [], []
    for _ in range(settings.steps + 1):
        groups = [group(number) for number in range(settings.problems)]
        started, cpu_started = time.perf_counter(), time.process_time()
        updates.append(learner.step(groups))
        seconds.append(time.perf_counter() - started)
        cpu.append(time.process_time() - cpu_started)
    learn, update = statistics.median(seconds[1:]), updates[-1]
    return {
        "learn": learn,
        "old_logps": 0.0,
        "cpu": statistics.median(cpu[1:]),
        "tokens_computed": update.tokens_computed,
        "tokens_trained": update.tokens,
        "trained_tokens_per_second": update.tokens / learn,
        "mfu": update.flops / (learn * (update.peak_flops or float("nan"))),
    }


def whole_head(hidden: Any, weight: Any, bias: Any, targets: Any, temperature: float, **_: Any) -> tuple[Any, None]:
    """The head that holds all [tokens, vocabulary] logits, for comparison."""
    logits = (hidden @ weight.T if bias is None else hidden @ weight.T + bias) / temperature
    return logits.log_softmax(-1).gather(-1, targets[:, None]).squeeze(-1), None


def trl(settings: argparse.Namespace) -> dict[str, Any]:
    """Times the two passes of TRL's RLOOTrainer by overriding the methods that make them."""
    import torch
    from datasets import Dataset
    from trl import RLOOConfig, RLOOTrainer

    torch.set_num_threads(settings.threads)
    prompt = ("1+" * settings.prompt_tokens)[: settings.prompt_tokens - 3]  # a token each, and a number of three
    size = settings.problems * settings.group
    spent: dict[str, list[float]] = {"sample": [], "old_logps": [], "learn": [], "cpu": []}

    sampling_cpu: list[float] = []
    old_cpu: list[float] = []

    def reward(completions: list[Any], **_: Any) -> list[float]:
        mixed = round(settings.problems * (1 - settings.no_signal))
        return [float(i // settings.group < mixed and i % settings.group == 0) for i in range(len(completions))]

    class Timed(RLOOTrainer):  # type: ignore[misc]
        def _generate_and_score_completions(self, *args: Any, **kwargs: Any) -> Any:
            started, cpu = time.perf_counter(), time.process_time()
            output = super()._generate_and_score_completions(*args, **kwargs)
            spent["sample"].append(time.perf_counter() - started)
            sampling_cpu.append(time.process_time() - cpu)
            return output

        def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> Any:
            started, cpu = time.perf_counter(), time.process_time()
            output = super()._get_per_token_logps_and_entropies(*args, **kwargs)
            if not torch.is_grad_enabled():  # inside the sampling, charged as a pass of the learner
                spent["old_logps"].append(time.perf_counter() - started)
                old_cpu.append(time.process_time() - cpu)
            return output

        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            before, started, cpu = len(spent["sample"]), time.perf_counter(), time.process_time()
            output = super().training_step(*args, **kwargs)
            sampled = len(spent["sample"]) > before
            spent["learn"].append(time.perf_counter() - started - (spent["sample"][-1] if sampled else 0.0))
            spent["cpu"].append(time.process_time() - cpu - (sampling_cpu[-1] if sampled else 0.0) + old_cpu[-1])
            return output

    config = RLOOConfig(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=size, num_generations=settings.group,
        max_completion_length=settings.new_tokens, max_steps=settings.steps + 1, learning_rate=1e-6, bf16=False,
        use_cpu=True, save_strategy="no", report_to=[], beta=0.0, gradient_checkpointing=False, disable_tqdm=True,
        logging_strategy="no", generation_kwargs={"min_new_tokens": settings.new_tokens},
    )  # fmt: skip
    rows = Dataset.from_list([{"prompt": f"{prompt}{100 + i}"} for i in range(256)])
    Timed(model=settings.model, reward_funcs=reward, args=config, train_dataset=rows).train()
    return {name: statistics.median(values[1:]) for name, values in spent.items()}


def random_model(folder: Path, vocabulary: int) -> str:
    """A Llama with random weights, small enough for many measurements, with the built-in model's tokenizer."""
    from transformers import LlamaConfig, LlamaForCausalLM

    from rloo_verify.models import load_tokenizer

    config = LlamaConfig(
        vocab_size=vocabulary, hidden_size=256, intermediate_size=768, num_hidden_layers=6, num_attention_heads=4,
        num_key_value_heads=2, max_position_embeddings=4096, tie_word_embeddings=True,
    )  # fmt: skip
    LlamaForCausalLM(config).save_pretrained(folder)
    load_tokenizer("tiny-arithmetic").save_pretrained(folder)
    return str(folder)


def run_side(side: str, python: str, arguments: list[str]) -> dict[str, Any]:
    """Runs one side in a process of its own and reads its JSON line."""
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", "OMP_WAIT_POLICY": "PASSIVE", "KMP_BLOCKTIME": "0"}
    command = [python, __file__, "--side", side, *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"{side} failed:\n{done.stderr[-2000:]}")
    return dict(json.loads(done.stdout.strip().splitlines()[-1]))


def main() -> None:
    """Runs both sides and prints a line for each, or one JSON object."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    smollm2 = Path("models/smollm2-135m-instruct")  # made by `python scripts/smollm2.py`
    parser.add_argument("--model", default=str(smollm2) if smollm2.is_dir() else "random")
    parser.add_argument("--vocabulary", type=int, default=32_000, help="of `--model random`, a small random Llama")
    parser.add_argument("--problems", type=int, default=4)
    parser.add_argument("--group", type=int, default=8)
    parser.add_argument("--prompt-tokens", type=int, default=90)
    parser.add_argument("--new-tokens", type=int, default=24)
    parser.add_argument("--no-signal", type=float, default=0.5, help="share of groups with identical rewards")
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--micro-batch-tokens", type=int, default=2048)
    parser.add_argument("--trl-python", help="interpreter of an environment with trl; without it only ours is timed")
    parser.add_argument("--without", nargs="*", default=[], choices=IDEAS, help="switch ideas of this learner off")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--side", choices=["ours", "trl"], help=argparse.SUPPRESS)
    settings = parser.parse_args()
    if settings.side:
        result = ours(settings) if settings.side == "ours" else trl(settings)
        result["peak_mib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        print(json.dumps(result))
        return
    with tempfile.TemporaryDirectory() as folder:
        if settings.model == "random":
            settings.model = random_model(Path(folder), settings.vocabulary)
        report = compare(settings)
    if settings.json:
        print(json.dumps(report))
        return
    for name, value in report.items():
        print(f"{name}: {value}")


def compare(settings: argparse.Namespace) -> dict[str, Any]:
    """Runs the sides of one workload."""
    arguments = ["--model", settings.model, "--micro-batch-tokens", str(settings.micro_batch_tokens)]
    for name in WORKLOAD:
        arguments += [f"--{name.replace('_', '-')}", str(getattr(settings, name))]
    if settings.without:
        arguments += ["--without", *settings.without]
    report: dict[str, Any] = {"workload": {name: getattr(settings, name) for name in WORKLOAD}}
    report["ours"] = run_side("ours", sys.executable, arguments)
    if settings.trl_python:
        report["trl"] = run_side("trl", settings.trl_python, arguments)
        report["time_ratio"] = (report["trl"]["learn"] + report["trl"]["old_logps"]) / report["ours"]["learn"]
        report["cpu_ratio"] = report["trl"]["cpu"] / report["ours"]["cpu"]
        report["memory_ratio"] = report["trl"]["peak_mib"] / report["ours"]["peak_mib"]
    return report


if __name__ == "__main__":
    main()
