r"""Prompts: filling the templates of a task, and rendering a problem to the token ids that the model sees.

A template holds placeholders, `{question}` or the name of any column; `{{` and `}}` print braces, and braces that hold
no name (`\boxed{}`) are left alone. Values are inserted once and never read as templates themselves.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rloo_verify.errors import PromptTooLongError, TaskError
from rloo_verify.types import Problem

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([A-Za-z_][\w.]*)\}")


def placeholders(template: str) -> list[str]:
    """The names that a template refers to, in order of appearance."""
    return [match.group(1) for match in _PLACEHOLDER.finditer(template) if match.group(1)]


def fill(template: str, values: Mapping[str, Any]) -> str:
    """Fills a template.

    Args:
        template: Text with `{name}` placeholders.
        values: What the names stand for; text goes in as it is, lists and objects as JSON.

    Raises:
        KeyError: A placeholder has no value; the key is its name.
    """

    def replacement(match: re.Match[str]) -> str:
        name = match.group(1)
        if name is None:
            return match.group()[0]
        value = values[name]
        return json.dumps(value, ensure_ascii=False) if isinstance(value, list | dict) else str(value)

    return _PLACEHOLDER.sub(replacement, template)


def render(
    problem: Problem,
    tokenizer: Any,
    max_prompt_tokens: int | None = None,
    *,
    template_kwargs: Mapping[str, Any] | None = None,
) -> Problem:
    """Renders a problem to the token ids that the model will see.

    A tokenizer with a chat template always applies it, generation prompt included; the template writes the special
    tokens itself, so none are added. Any other tokenizer encodes `problem.plain` with its ordinary special tokens.

    Args:
        problem: A problem as a task gives it.
        tokenizer: A Hugging Face tokenizer.
        max_prompt_tokens: Longest prompt that may be used, in tokens; None for no limit.
        template_kwargs: Further variables of the chat template, `[prompt] template_kwargs` of the task.

    Returns:
        The problem with `prompt_token_ids_T` filled.

    Raises:
        PromptTooLongError: The prompt is longer than `max_prompt_tokens`.
        TaskError: The prompt is empty, or the chat template refuses the messages.
    """
    if tokenizer.chat_template:
        token_ids_T = _chat_token_ids(problem, tokenizer, template_kwargs or {})
    else:
        token_ids_T = list(tokenizer(problem.plain)["input_ids"])
        # some tokenizers close every text with EOS, after which no model goes on writing
        if len(token_ids_T) > 1 and token_ids_T[-1] == tokenizer.eos_token_id:
            token_ids_T.pop()
    if not token_ids_T:
        raise TaskError(f"{problem.id}: the prompt is empty after tokenization")
    if max_prompt_tokens is not None and len(token_ids_T) > max_prompt_tokens:
        raise PromptTooLongError(
            f"{problem.id}: the prompt is {len(token_ids_T)} tokens long, but max_prompt_tokens is {max_prompt_tokens};"
            " raise it, or leave this row out"
        )
    return replace(problem, prompt_token_ids_T=tuple(token_ids_T))


def _chat_token_ids(problem: Problem, tokenizer: Any, template_kwargs: Mapping[str, Any]) -> list[int]:
    from jinja2 import TemplateError

    messages = [dict(message) for message in problem.messages]
    try:
        # return_dict=False: from transformers 5 on, the default is a BatchEncoding and not the ids
        ids = tokenizer.apply_chat_template(
            messages, add_generation_prompt=True, tokenize=True, return_dict=False, **template_kwargs
        )
    except TemplateError as error:
        raise TaskError(f"{problem.id}: the model's chat template refuses these messages: {error}") from error
    return list(ids)
