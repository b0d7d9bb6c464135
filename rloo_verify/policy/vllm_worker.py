"""What runs inside vLLM's workers: weights in, layers compared. vLLM imports it by name as its worker extension.

vLLM mixes `WorkerExtension` into its own worker class, so `self.model_runner` and `self.reload_weights` are vLLM's.
Method names start with `rloo_` because vLLM refuses names that its worker already has.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch

from rloo_verify.policy.base import NamedTensors
from rloo_verify.policy.vllm_weights import SharedTensor


class WorkerExtension:
    """Methods that the policy calls on every worker through `collective_rpc`."""

    model_runner: Any
    reload_weights: Any

    def rloo_load_weights(self, weights: NamedTensors) -> None:
        """Loads Hugging Face weights in place from tensors of this process.

        `reload_weights` keeps the storage that CUDA graphs point to and repacks linear layers for the CPU. It does not
        repack an LM head that shares the embedding's parameter: on a CPU that head would silently keep the old matrix.
        """
        self.reload_weights(weights_iterator=iter(weights), is_checkpoint_format=True)
        head = _tied_cpu_head(self.model_runner.get_model())
        if head is not None:
            from vllm.model_executor.layers.utils import dispatch_cpu_unquantized_gemm

            dispatch_cpu_unquantized_gemm(head, remove_weight=False)

    def rloo_load_shared_weights(self, shared: list[SharedTensor]) -> None:
        """Loads Hugging Face weights from tensors of another process of this machine: CUDA tensors by CUDA IPC."""
        self.rloo_load_weights((name, rebuild(*args)) for name, rebuild, args in shared)

    def rloo_set_score_temperature(self, temperature: float) -> None:
        """Divides the model's logits by `temperature` until it is set to 1 again.

        vLLM computes prompt log-probs straight from the model's logits: neither the request's temperature nor
        `logprobs_mode` touches them. Scaling the logits at their source makes them exact at any temperature.
        """
        model = self.model_runner.get_model()
        model.__dict__.pop("compute_logits", None)
        if temperature == 1.0:
            return
        raw_logits = model.compute_logits

        def scaled_logits(*args: Any, **kwargs: Any) -> torch.Tensor | None:
            logits = raw_logits(*args, **kwargs)
            return None if logits is None else logits.float() / temperature

        model.__dict__["compute_logits"] = scaled_logits

    @torch.inference_mode()
    def rloo_differing_layers(self, weights: Mapping[str, torch.Tensor]) -> list[str]:
        """Hugging Face names of the parameters whose values here differ from `weights`."""
        model = self.model_runner.get_model()
        packed: Mapping[str, list[str]] = getattr(model, "packed_modules_mapping", {})
        different: list[str] = []
        for path, module in model.named_modules():
            parent, _, leaf = path.rpartition(".")
            prefix = f"{parent}." if parent else ""
            parts = [prefix + part for part in packed.get(leaf, [leaf])]
            if all(f"{part}.weight" in weights for part in parts):
                different += _differing_parts(module, parts, weights)
        head, embedding = _tied_cpu_head(model), weights.get("model.embed_tokens.weight")
        if head is not None and embedding is not None:
            tied = _differing_parts(head, ["lm_head"], {"lm_head.weight": embedding})
            different += [f"{name} (tied to model.embed_tokens.weight)" for name in tied]
        return different


def _tied_cpu_head(model: Any) -> Any | None:
    """The LM head if it shares the embedding's parameter and multiplies by a packed copy of it, else None."""
    head, embedding = getattr(model, "lm_head", None), getattr(getattr(model, "model", None), "embed_tokens", None)
    if head is None or embedding is None or not hasattr(head, "cpu_linear"):
        return None
    return head if head.weight is embedding.weight else None


def _differing_parts(module: Any, parts: list[str], weights: Mapping[str, torch.Tensor]) -> list[str]:
    """Compares one module of vLLM, which may stack several Hugging Face modules, and names what differs."""
    from vllm.model_executor.layers.linear import LinearBase
    from vllm.model_executor.layers.vocab_parallel_embedding import ParallelLMHead

    if isinstance(module, LinearBase):

        def multiply(inputs: torch.Tensor) -> torch.Tensor:
            output = module(inputs)
            product: torch.Tensor = output[0] if isinstance(output, tuple) else output
            return product

        return _differing_matrices(multiply, module.params_dtype, parts, weights)
    if isinstance(module, ParallelLMHead):
        return _differing_matrices(lambda x: module.quant_method.apply(module, x), module.weight.dtype, parts, weights)
    expected = weights[f"{parts[0]}.weight"]
    own = module.weight[: expected.shape[0]]
    return [] if torch.equal(own, expected.to(own)) else [f"{parts[0]}.weight"]


def _differing_matrices(
    multiply: Callable[[torch.Tensor], torch.Tensor],
    dtype: torch.dtype,
    parts: list[str],
    weights: Mapping[str, torch.Tensor],
) -> list[str]:
    """Compares the matrices and biases that a linear layer stacks, by what the layer computes.

    On a CPU vLLM keeps linear weights in a packed form alone. The identity as input brings the columns back, each a
    product with 1 and sums with 0, so exact but for the rounding of a bias; a row of zeros brings the bias.
    """
    matrices = [weights[f"{part}.weight"].to(dtype) for part in parts]
    zeros = [torch.zeros(matrix.shape[0], dtype=dtype, device=matrix.device) for matrix in matrices]
    biases = [weights.get(f"{part}.bias", zero).to(dtype) for part, zero in zip(parts, zeros, strict=True)]
    eye = torch.eye(matrices[0].shape[1], dtype=dtype, device=matrices[0].device)
    different: set[str] = set()
    for first in range(0, len(eye), 512):
        rows = slice(first, first + 512)
        output = multiply(torch.cat([eye.new_zeros(1, len(eye)), eye[rows]])).to(dtype)
        start = 0
        for part, matrix, bias in zip(parts, matrices, biases, strict=True):
            own = output[:, start : start + len(bias)]
            start += len(bias)
            if not torch.equal(own[0], bias):
                different.add(f"{part}.bias")
            elif not torch.allclose(own[1:], matrix[:, rows].T + bias, rtol=4 * torch.finfo(dtype).eps, atol=0):
                different.add(f"{part}.weight")
    return sorted(different)
