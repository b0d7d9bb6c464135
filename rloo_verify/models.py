"""Finds and loads models and tokenizers: a hub id, a folder, or the built-in tiny policy."""

from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError

from rloo_verify.errors import ModelError

BUILTIN = Path(__file__).parent / "_models"
"""Folder of the models that ship inside the package."""


def model_path(name: str) -> str:
    """What `from_pretrained` takes for a model name: a built-in's folder, a local folder, or the hub id as it is.

    Raises:
        ModelError: if the name is a path that does not exist or a folder without a config.json.
    """
    if (BUILTIN / name / "config.json").is_file():
        return str(BUILTIN / name)
    path = Path(name).expanduser()
    if path.is_dir():
        if not (path / "config.json").is_file():
            raise ModelError(f"model.path = {name}: the folder has no config.json, so it is not a Hugging Face model")
        return str(path)
    if path.is_absolute() or name.startswith((".", "~")) or name.count("/") != 1:
        known = ", ".join(sorted(folder.name for folder in BUILTIN.iterdir())) if BUILTIN.is_dir() else "none"
        raise ModelError(f"model.path = {name}: no such folder, and no hub id; built-in models: {known}")
    return name


def _load(what: str, name: str, loader: Any, **options: Any) -> Any:
    try:
        return loader.from_pretrained(model_path(name), **options)
    except (OSError, ValueError, KeyError, RuntimeError, SafetensorError) as error:
        reason = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
        raise ModelError(f"model.path = {name}: cannot load the {what}: {reason}") from error


def load_tokenizer(name: str) -> Any:
    """The tokenizer of a model.

    Raises:
        ModelError: if it cannot be found or read.
    """
    from transformers import AutoTokenizer

    return _load("tokenizer", name, AutoTokenizer)


def load_model(name: str, dtype: torch.dtype, device: torch.device | str = "cpu") -> Any:
    """A causal language model in one floating-point type, in evaluation mode.

    Raises:
        ModelError: if it cannot be found or read, or its weights do not cover the model (transformers would fill in
            random ones).
    """
    from transformers import AutoModelForCausalLM

    model, found = _load(
        "model", name, AutoModelForCausalLM, dtype=dtype, output_loading_info=True, ignore_mismatched_sizes=True
    )
    faults = sorted(found["missing_keys"]) + sorted(key for key, *_ in found["mismatched_keys"])
    if faults:
        raise ModelError(
            f"model.path = {name}: the weights lack, or have in another shape, {len(faults)} parameters of the model, "
            f"such as {faults[0]}; the folder is incomplete, or its config.json belongs to another model"
        )
    return model.to(device).eval()


def context_length(name: str) -> int | None:
    """The longest sequence that a model was made for, in tokens; None where its config does not say.

    Raises:
        ModelError: if the config cannot be found or read.
    """
    from transformers import AutoConfig

    config = _load("config", name, AutoConfig)
    value = getattr(config.get_text_config(), "max_position_embeddings", None)
    return int(value) if value else None


def default_device() -> torch.device:
    """The first GPU, or the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def policy_dtype(setting: str) -> torch.dtype:
    """The type named by `model.dtype`; `auto` is bfloat16 on a GPU and float32 on a CPU."""
    if setting == "auto":
        return torch.bfloat16 if torch.cuda.is_available() else torch.float32
    return {"float32": torch.float32, "bfloat16": torch.bfloat16}[setting]


def quiet_libraries() -> None:
    """For a command line: progress bars and advice of the libraries do not mix with its own output."""
    from transformers.utils import logging as transformers_logging

    transformers_logging.set_verbosity_error()
    transformers_logging.disable_progress_bar()
