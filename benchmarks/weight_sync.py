"""Seconds that a weight sync into vLLM takes, against a plain copy of the same bytes in the same process.

Usage: python benchmarks/weight_sync.py [MODEL_FOLDER]. Without a folder: a random model of SmolLM2-135M's shape.
Prints one JSON line.
"""

import os

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("KMP_BLOCKTIME", "0")

import argparse
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from rloo_verify.policy.vllm import VllmPolicy

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from tiny import character_tokenizer

REPEATS = 7
TARGET_SECONDS = 2.0


def save_smollm2_shape(folder: Path) -> Path:
    """Writes a random Llama of SmolLM2-135M's shape: 30 layers, hidden 576, tied embeddings, vocabulary 49152."""
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    character_tokenizer().save_pretrained(folder)
    return folder


def median_seconds(action: Callable[[], object]) -> float:
    """Median wall time of `REPEATS` runs after one that does not count."""
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def measure(folder: Path, dtype: str) -> dict[str, float | int | str]:
    """Times syncs of float32 weights, as the learner holds them, into an engine of type `dtype`."""
    weights = list(AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).named_parameters())
    copies = [(torch.empty_like(tensor), tensor.detach()) for _, tensor in weights]
    policy = VllmPolicy(folder, dtype=dtype, max_model_len=256)
    try:
        sync = median_seconds(lambda: policy.load_weights(weights, policy.version + 1))
        copy = median_seconds(lambda: [target.copy_(source) for target, source in copies])
    finally:
        policy.close()
    return {
        "benchmark": "weight_sync",
        "model": folder.name,
        "dtype": dtype,
        "parameters": sum(tensor.numel() for _, tensor in weights),
        "sync_seconds": round(sync, 4),
        "copy_seconds": round(copy, 4),
        "ratio": round(sync / copy, 2),
        "target_seconds": TARGET_SECONDS,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", nargs="?", type=Path, help="a model folder")
    parser.add_argument("--dtype", default="float32", choices=["float32", "bfloat16"])
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.model or save_smollm2_shape(Path(temporary) / "random-smollm2-135m")
        print(json.dumps(measure(folder, arguments.dtype)))


if __name__ == "__main__":
    main()
