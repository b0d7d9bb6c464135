#!/usr/bin/env python3
"""Writes docs/config.md from the models in rloo_verify/config.py, so that page and code cannot disagree.

python scripts/config_reference.py
"""

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from rloo_verify.config import REFUSED_SAMPLING, Config
from rloo_verify.configfile import load_config
from rloo_verify.errors import ConfigError
from rloo_verify.runlog import MAY_CHANGE

PAGE = Path(__file__).parents[1] / "docs" / "config.md"

SMALLEST = """\
[run]
name = "first"
steps = 50

[model]
path = "tiny-arithmetic"

[[tasks]]
name = "arithmetic"

[sample]
problems_per_step = 16
group_size = 8
max_new_tokens = 40
max_prompt_tokens = 16

[learner]
lr = 1e-4
"""

MISTAKES = [
    "--sample.top_p=0.95",
    "--sample.group_size=1",
    "--sample.group_sise=8",
    "--learner.micro_batch_tokens=32",
    "--eval.k=[1, 8]",
    "--learner.lr=0",
    "--policy.engine=sglang",
]
"""Overrides of `SMALLEST` whose error messages the page shows."""

PAGE_TEXT = """\
# Configuration

<!-- Written by scripts/config_reference.py from rloo_verify/config.py. Do not edit: change the model or the script. -->

A config is one TOML file. The smallest one states what has no default, and here the length of a prompt; this is
`first.toml`:

<!-- file: first.toml -->
```toml
{smallest}```

```sh
# --dry-run validates everything up to the first prompt and prints the whole config
rloo-verify train first.toml --dry-run --learner.lr 5e-5 --tasks.0.options.level 2 --eval.k "[1, 4]" --eval.n 4
```

- **Command line.** Any key can be set as `--table.key value`; entries of lists of tables are numbered
  (`--tasks.0.weight 2`). Values are TOML, and text where they are not. The config comes first: a file, or the name of
  a built-in one such as `quickstart`.
- **Resuming.** The same command goes on where the run stopped. What may differ from the run's saved config, because
  nothing learned depends on it: {may_change}.
  Any other difference is an error that lists the keys; `--fresh` starts over.
- **Strict.** Unknown keys, wrong types and broken rules are errors with file and line; nothing is guessed or ignored.

## Tables

{tables}
## Refused

Sampling keys that other trainers have, and why they are errors in `[sample]` (see
[the estimator's conditions](rloo.md#conditions)):

{refused}

What is said about mistakes, here of overrides of the file above:

```text
{mistakes}
```
"""


def tables(model: type[BaseModel] = Config, name: str = "") -> Iterator[tuple[str, type[BaseModel]]]:
    """Every table of the config by its dotted name, in the order of the model, outer tables first."""
    for key, field in model.model_fields.items():
        for part in (field.annotation, *get_args(field.annotation)):
            if isinstance(part, type) and issubclass(part, BaseModel):
                yield f"{name}{key}", part
                yield from tables(part, f"{name}{key}.")


def keys(model: type[BaseModel]) -> list[str]:
    """The keys of a table that are not tables themselves."""
    inner = {name for name, _ in tables(model)}
    return [key for key in model.model_fields if key not in inner]


def kind(schema: dict[str, Any]) -> str:
    """A value's type and limits in words, from its JSON schema."""
    if "anyOf" in schema:
        return " or ".join(kind(part) for part in schema["anyOf"] if part.get("type") != "null")
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if schema.get("type") == "array":
        items = schema.get("prefixItems") or [schema["items"]]
        count = f"{len(items)} x " if "prefixItems" in schema else ""
        return f"list of {count}{kind(items[0])}"
    if schema.get("type") == "object":
        inside = schema.get("additionalProperties")
        return f"table of {kind(inside)}" if isinstance(inside, dict) else "table"
    words = {"string": "text", "number": "number", "integer": "integer", "boolean": "`true` or `false`"}
    limits = {"exclusiveMinimum": ">", "minimum": ">=", "exclusiveMaximum": "<", "maximum": "<="}
    text = words[schema["type"]]
    text += "".join(f", {sign} {schema[limit]:g}" for limit, sign in limits.items() if limit in schema)
    return text + (f" that matches `{schema['pattern']}`" if "pattern" in schema else "")


def default(model: type[BaseModel], key: str) -> str:
    """A key's default as TOML; `required` or `absent` where it has none."""
    value = model.model_fields[key].get_default(call_default_factory=True)
    if value is PydanticUndefined:
        return "**required**"
    if value is None:
        return "absent"
    return f"`{json.dumps(value).replace('{}', '{ }')}`"


def table_text(name: str, model: type[BaseModel]) -> str:
    """One table: its heading, what it is, and a row a key."""
    listed = any(name == outer and "list" in str(Config.model_fields[name].annotation) for outer in Config.model_fields)
    title = f"[[{name}]]" if listed else f"[{name}]"
    about = " ".join((model.__doc__ or "").split()).partition(": ")[2]
    schemas = model.model_json_schema()["properties"]
    rows = []
    for key in keys(model):
        cells = [f"`{key}`", kind(schemas[key]), default(model, key), schemas[key]["description"]]
        rows.append(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |")
    head = ["| key | value | default | what it is |", "|---|---|---|---|"]
    return "\n".join([f"### `{title}`", "", about[:1].upper() + about[1:], "", *head, *rows, ""])


def messages() -> list[str]:
    """Each of `MISTAKES`, and below it what the loader says."""
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "first.toml"
        for override in MISTAKES:
            path.write_text(SMALLEST, encoding="utf-8")
            try:
                load_config(path, [override])
            except ConfigError as error:
                lines += [override, f"    {str(error).replace(f'{folder}/', '')}"]
    assert len(lines) == 2 * len(MISTAKES), "an override that should be refused is accepted"
    return lines


def render() -> str:
    """The whole page."""
    return PAGE_TEXT.format(
        smallest=SMALLEST,
        may_change=", ".join(f"`{key}`" if not key.endswith(".") else f"`[{key[:-1]}]`" for key in MAY_CHANGE),
        tables="\n".join(table_text(name, model) for name, model in tables()),
        refused="\n".join(f"- `{key}`: {why}." for key, why in REFUSED_SAMPLING.items()),
        mistakes="\n".join(messages()),
    )


if __name__ == "__main__":
    PAGE.write_text(render(), encoding="utf-8")
