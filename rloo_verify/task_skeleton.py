"""`tasks new`: writes a task folder that works at once and says where to change it."""

import json
import re
from pathlib import Path

from rloo_verify.errors import TaskError
from rloo_verify.tasks import list_tasks

_TOML = r'''summary = "One line for `rloo-verify tasks list`"
source = "where the rows come from"
license = "their licence"
version = 1

[data]
# A source is hf:repo:config:split, a .jsonl, .json or .parquet file in this folder, or py:generate.py:rows.
# train = "hf:owner/name:default:train"
# test = "hf:owner/name:default:test"
train = "data/sample.jsonl"
test = "data/sample.jsonl"
sample = "data/sample.jsonl"
gold = "raw"  # or after_hashes, boxed, list, number: how the answer column is read

[data.columns]
question = "question"
answer = "answer"
# Chat messages instead of a question, and nested columns: messages = "prompt", answer = "reward_model.ground_truth"

[prompt]
# {question} or any column. `plain` is what a model without a chat template sees; the user text where it is absent.
user = """
{question}

Please reason step by step, and put your final answer within \\boxed{}."""

[check]
checker = "math"  # or exact, choice, or check.py:check for the function in check.py
'''

_CHECK = '''"""A checker of your own. Switch it on with `checker = "check.py:check"` under [check] in task.toml.

It runs in a worker process that is killed at its time limit. Return True or False, or a Verdict. Raise where you cannot
judge: the answer then counts as ERROR and leaves its group, and is not taught as wrong. Never `eval` a completion.
"""

# from collections.abc import Mapping
# from typing import Any
#
#
# def check(completion: str, answer: Any, row: Mapping[str, Any]) -> bool:
#     """Says whether the completion is right."""
#     lines = completion.strip().splitlines()
#     return bool(lines) and lines[-1].strip() == str(answer)
#
#
# def reference(row: Mapping[str, Any]) -> str | None:
#     """A completion that must pass; `tasks check` verifies it for every row."""
#     return str(row["answer"])
'''

_ROWS = [
    {"question": "What is 12 + 30?", "answer": "42"},
    {"question": "What is half of 7? Give a fraction.", "answer": "7/2"},
]
_CASES = [
    {"answer": "42", "completion": "12 + 30 is \\boxed{42}.", "expect": "pass", "why": "the plain case"},
    {"answer": "42", "completion": "\\boxed{43}", "expect": "fail", "why": "off by one"},
    {"answer": "42", "completion": "", "expect": "fail", "why": "an empty answer"},
    {"row": _ROWS[1], "completion": "\\boxed{3.5}", "expect": "pass", "why": "a whole row; another spelling"},
]

_README = """# {name}

What the task is, where its rows come from, their licence, and how an answer is scored.

In this folder:

    rloo-verify tasks check .
    rloo-verify tasks show . -n 2
"""


def write_skeleton(name: str, parent: Path) -> Path:
    """Writes `parent/name` with task.toml, sample rows, cases, a README and a commented-out check.py.

    Args:
        name: Lower-case letters, digits, `_` and `-`, a letter first.
        parent: The folder to put it in; made where it does not exist.

    Returns:
        The new folder.

    Raises:
        TaskError: The name cannot be used or is taken, or the folder cannot be written.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise TaskError(f"`{name}` cannot name a task: use lower-case letters, digits, `_` and `-`, a letter first")
    folder = parent / name
    taken = folder if folder.exists() else list_tasks().get(name)
    if taken is not None:
        raise TaskError(f"there is already a task `{name}`, {taken}; choose another name")
    files = {
        "task.toml": _TOML,
        "data/sample.jsonl": "".join(json.dumps(row) + "\n" for row in _ROWS),
        "cases.jsonl": "".join(json.dumps(case) + "\n" for case in _CASES),
        "check.py": _CHECK,
        "README.md": _README.format(name=name),
    }
    try:
        (folder / "data").mkdir(parents=True)
        for file, text in files.items():
            (folder / file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise TaskError(f"{folder} cannot be written: {error.strerror}") from error
    return folder
