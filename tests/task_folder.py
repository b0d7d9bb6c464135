"""Writes small task folders for tests."""

import json
from pathlib import Path
from typing import Any

TOML = """
summary = "s"
source = "s"
license = "s"
[data]
train = "rows.jsonl"
{data}
[data.columns]
{columns}
[prompt]
{prompt}
[check]
checker = "exact"
"""


def write_task(
    folder: Path,
    *rows: Any,
    columns: str = 'question = "q"\nanswer = "a"',
    prompt: str = 'user = "{question}"',
    data: str = "",
) -> Path:
    """A task whose train split is `rows`, judged by the exact checker."""
    folder.mkdir(parents=True)
    (folder / "task.toml").write_text(TOML.format(columns=columns, prompt=prompt, data=data))
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder
