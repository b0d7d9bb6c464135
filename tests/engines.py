"""Tiny models of the kinds that vLLM must take, and what a plain transformers forward says of them."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import character_tokenizer, save_tiny_model
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM, Qwen3Config, Qwen3ForCausalLM

from rloo_verify.policy.base import Request, Sampling
from rloo_verify.policy.vllm import VllmPolicy
from rloo_verify.types import Completion, Problem

CONTEXT = 256
PROMPT = tuple(character_tokenizer()("12+34=")["input_ids"])
KINDS = ["llama", "llama-tied", "qwen2", "qwen3-tied"]
END_IDS = (2, 20, 30)  # <eos> and two ordinary characters, so that random models end often


def save_qwen(folder: Path, generation: int, *, tied: bool) -> Path:
    """Writes a random two-layer Qwen2 (biases in the attention) or Qwen3 (norms of queries and keys)."""
    tokenizer = character_tokenizer()
    torch.manual_seed(generation)
    config_type, model_type = {2: (Qwen2Config, Qwen2ForCausalLM), 3: (Qwen3Config, Qwen3ForCausalLM)}[generation]
    config = config_type(
        vocab_size=len(tokenizer),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        head_dim=32,
        max_position_embeddings=CONTEXT,
        tie_word_embeddings=tied,
        initializer_range=0.2,
        pad_token_id=tokenizer.eos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    model = model_type(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if name.endswith(".bias") or "norm" in name:  # fresh ones are 0 and 1, which hides mistakes
                parameter.add_(0.2 * torch.randn_like(parameter))
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_llama_with_bad_defaults(folder: Path) -> Path:
    """An untied Llama whose files disagree on the ends, and whose sampling defaults would spoil every rollout."""
    save_tiny_model(folder)
    config = json.loads((folder / "config.json").read_text())
    config |= {"eos_token_id": [END_IDS[0], END_IDS[1]], "pad_token_id": END_IDS[0]}
    (folder / "config.json").write_text(json.dumps(config))
    defaults = {
        "eos_token_id": [END_IDS[0], END_IDS[2]],
        "do_sample": True,
        "repetition_penalty": 1.3,
        "top_k": 1,
        "temperature": 0.1,
    }
    (folder / "generation_config.json").write_text(json.dumps(defaults))
    return folder


def save_model(kind: str, folder: Path) -> Path:
    """Writes a model of one of the kinds that the tests name."""
    if kind == "llama":
        return save_llama_with_bad_defaults(folder)
    if kind == "qwen2":
        return save_qwen(folder, 2, tied=False)
    if kind == "qwen3-tied":
        return save_qwen(folder, 3, tied=True)
    return save_tiny_model(folder, tied=kind == "llama-tied")


@dataclass
class Engine:
    """A running policy, the folder that it started from, and whether starting it left the process as it was."""

    kind: str
    folder: Path
    policy: VllmPolicy
    process_untouched: bool = True

    def reference(self) -> Any:
        """The same weights in plain transformers, float32."""
        return AutoModelForCausalLM.from_pretrained(self.folder, dtype=torch.float32)

    def restore(self) -> None:
        """Puts the folder's weights back after a test that synced others."""
        if self.policy.version:
            self.policy.load_weights(list(self.reference().named_parameters()), 0)


def requests(count: int, *, prompt: Sequence[int] = PROMPT, first_seed: int = 0) -> list[Request]:
    """Requests for `count` samples of one problem, seeded in a row."""
    problem = Problem("tiny/train/0", "tiny", (), "", "", {}, tuple(prompt))
    return [Request(problem, index, first_seed + index) for index in range(count)]


def in_order(completions: Iterable[Completion]) -> list[Completion]:
    """Completions by sample index; engines yield them as they finish."""
    return sorted(completions, key=lambda completion: completion.sample_index)


@torch.no_grad()
def reference_logprobs(
    model: Any, completion: Completion, temperature: float, prompt: Sequence[int] = PROMPT
) -> torch.Tensor:
    """Log-probs of a completion's tokens by one plain forward."""
    own = torch.tensor(completion.token_ids_T)
    logits = model(torch.cat([torch.tensor(prompt), own])[None]).logits[0, len(prompt) - 1 : -1].float()
    return (logits / temperature).log_softmax(-1).gather(-1, own[:, None])[:, 0]


@torch.no_grad()
def perturb(model: Any, scale: float = 0.05) -> None:
    """Moves every parameter, as a very large optimizer step would."""
    for parameter in model.parameters():
        parameter.add_(scale * torch.randn_like(parameter))


def assert_same_logprobs(engine: Engine, model: torch.nn.Module, temperature: float, tolerance: float = 1e-4) -> None:
    """What the engine draws and what it scores must agree with a plain forward of `model`, in nats."""
    completions = list(engine.policy.generate(requests(6), Sampling(32, temperature)))
    scored = engine.policy.score([(PROMPT, completion.token_ids_T) for completion in completions], temperature)
    for completion, scores in zip(completions, scored, strict=True):
        expected = reference_logprobs(model, completion, temperature)
        assert torch.allclose(torch.tensor(completion.logprobs_T), expected, rtol=0, atol=tolerance)
        assert torch.allclose(torch.tensor(scores), expected, rtol=0, atol=tolerance)


def each(*kinds: str) -> pytest.MarkDecorator:
    """Runs a test with an engine of each of these kinds."""
    return pytest.mark.parametrize("running", kinds, indirect=True)
