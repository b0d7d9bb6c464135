"""From one row to one Problem, by the column map alone: flat rows, verl rows, messages + ground_truth."""

import json
from collections.abc import Mapping
from typing import Any

from rloo_verify import gold
from rloo_verify.errors import TaskError
from rloo_verify.prompts import fill, placeholders
from rloo_verify.task_spec import TaskSpec, nearest
from rloo_verify.types import Problem

ROLES = ("system", "user", "assistant", "tool")


def pick(row: Mapping[str, Any], path: str) -> Any:
    """The value at a dotted path; JSON text on the way is decoded, numbers index lists.

    Args:
        row: A row with nested columns.
        path: A column, or `reward_model.ground_truth`. A column whose own name holds the dots wins.

    Raises:
        KeyError: There is nothing at the path; the message names the part that is missing and what is there instead.
    """
    if path in row:
        return row[path]
    value: Any = row
    done = ""
    for part in path.split("."):
        if isinstance(value, str):
            value = _decoded(value, done)
        if isinstance(value, list) and part.isdigit() and int(part) < len(value):
            value = value[int(part)]
        elif isinstance(value, Mapping) and part in value:
            value = value[part]
        else:
            raise KeyError(_missing(value, part, path, done))
        done = f"{done}.{part}" if done else part
    return value


def problem_from_row(row: Mapping[str, Any], spec: TaskSpec, *, task: str, problem_id: str, origin: str) -> Problem:
    """Builds one problem.

    Args:
        row: The row as read.
        spec: The task's spec; its column map, gold extractor and templates are used.
        task: Name of the task.
        problem_id: The problem's id.
        origin: Where the row comes from, for messages.

    Raises:
        TaskError: A column is missing, the question is empty or the answer cannot be read; names the row and the file.
    """
    try:
        return _problem(row, spec, task, problem_id)
    except (KeyError, ValueError) as error:
        raise TaskError(f"{problem_id} ({origin}): {error.args[0]}") from error


def _problem(row: Mapping[str, Any], spec: TaskSpec, task: str, problem_id: str) -> Problem:
    columns, prompt = spec.data.columns, spec.prompt
    values: dict[str, Any] = dict(row)
    values.update({name: pick(row, path) for name, path in columns.named.items()})
    if columns.messages:
        messages = _chat(pick(row, columns.messages))
        values["question"] = messages[-1]["content"]
    elif columns.question:
        values["question"] = str(_or_empty(pick(row, columns.question)))
    if "question" in values and (columns.question or columns.messages) and not values["question"].strip():
        raise ValueError("the question is empty")
    if not columns.messages:
        messages = [{"role": "system", "content": _filled(prompt.system, values)}] if prompt.system else []
        messages.append({"role": "user", "content": _filled(prompt.user or "{question}", values)})
    if prompt.plain is not None:
        plain = _filled(prompt.plain, values)
    else:
        plain = "\n\n".join(message["content"] for message in messages if message["role"] != "system")
    answer = gold.extract(pick(row, columns.answer), spec.data.gold) if columns.answer else None
    family = pick(row, columns.family) if columns.family else None
    return Problem(
        id=problem_id,
        task=task,
        messages=tuple(messages),
        plain=plain,
        answer=answer,
        row=values,
        family=None if family is None else str(family),
    )


def _filled(template: str, values: Mapping[str, Any]) -> str:
    names = placeholders(template)
    try:
        known = {name: pick(values, name) for name in names}
    except KeyError as error:
        hint = " (a brace that should be printed is written twice)"
        raise ValueError(f"the prompt template cannot be filled: {error.args[0]}{hint}") from error
    return fill(template, known)


def _chat(value: Any) -> list[dict[str, str]]:
    messages = _decoded(value, "messages") if isinstance(value, str) else value
    if not isinstance(messages, list | tuple) or not messages:
        raise ValueError("the messages column holds no list of chat messages")
    for message in messages:
        if not isinstance(message, Mapping) or message.get("role") not in ROLES:
            raise ValueError(f"a chat message needs a `role` among {', '.join(ROLES)} and a text `content`")
        if type(message.get("content")) is not str:
            raise ValueError(f"the content of a {message['role']} message is not text")
    if messages[-1]["role"] != "user":
        raise ValueError(f"the last message is from the {messages[-1]['role']}, not from the user")
    return [{"role": message["role"], "content": message["content"]} for message in messages]


def _decoded(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise ValueError(f"the column `{name}` is text that is not JSON, so nothing can be read inside it") from error


def _or_empty(value: Any) -> Any:
    return "" if value is None else value


def _missing(value: Any, part: str, path: str, done: str) -> str:
    inside = f" inside `{done}`" if done else ""
    of = f" of `{path}`" if "." in path else ""
    if not isinstance(value, Mapping):
        return f"no `{part}`{of}{inside}, which holds {type(value).__name__}"
    names = ", ".join(map(str, value)) or "none"
    return f"no column `{part}`{of}{inside}{nearest(part, map(str, value))}; the columns are: {names}"
