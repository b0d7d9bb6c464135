"""The token ids that end a completion, found in one place so that every engine stops at the same ones."""

import contextlib
from pathlib import Path
from typing import Any

from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from rloo_verify.errors import ModelError


def end_token_ids(model: str | Path) -> tuple[int, ...]:
    """Every id that the model's files call an end of sequence, in ascending order.

    Models name them in up to three places, and the places disagree: `config.json` and `generation_config.json` hold an
    id or a list of ids, the tokenizer has one `eos_token`. A chat model may end its turn with any of them (Llama 3 has
    three), so the union counts. Sampling defaults in `generation_config.json` are not read.

    Args:
        model: A model folder or a hub id.

    Raises:
        ModelError: if the model has no readable config or tokenizer, or nothing names an end.
    """
    name = str(model)
    try:
        config = AutoConfig.from_pretrained(name)
        tokenizer = AutoTokenizer.from_pretrained(name)
    except (OSError, ValueError) as error:
        raise ModelError(f"The config or tokenizer of {name} cannot be read: {error}") from error
    found = _as_ids(getattr(config.get_text_config(), "eos_token_id", None))
    found |= _as_ids(getattr(config, "eos_token_id", None))
    found |= _as_ids(tokenizer.eos_token_id)
    with contextlib.suppress(OSError):  # many models have no generation_config.json
        found |= _as_ids(GenerationConfig.from_pretrained(name).eos_token_id)
    if not found:
        raise ModelError(f"{name} names no end-of-sequence token: set eos_token_id in its config.json.")
    return tuple(sorted(found))


def _as_ids(value: Any) -> set[int]:
    if value is None:
        return set()
    return {int(one) for one in value} if isinstance(value, list | tuple) else {int(value)}
