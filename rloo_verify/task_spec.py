"""What a task.toml may say: pydantic models in which an unknown key is an error that names the nearest known one."""

import difflib
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from rloo_verify.errors import TaskError
from rloo_verify.gold import Gold
from rloo_verify.prompts import placeholders

SPLITS = ("train", "validation", "test", "sample")


class _Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Columns(_Table):
    """`[data.columns]`: where in a row things are. A value is a column, or a dotted path into a nested one.

    Attributes:
        question: The question as text; `{question}` in templates.
        messages: The prompt as chat messages; then they are sent as they are. Excludes `question`.
        answer: What the gold extractor reads. Without it the problem has no reference and the checker uses the row.
        id: What names the row in problem ids instead of its index.
        family: What rows that are not independent of each other share; intervals resample families as a whole.

    Any other key gives a column, or a part of one, a name for templates and checkers: `nums = "metadata.numbers"`.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, str] = Field(init=False)

    question: str | None = None
    messages: str | None = None
    answer: str | None = None
    id: str | None = None
    family: str | None = None

    @property
    def named(self) -> dict[str, str]:
        """The columns that were given names of their own."""
        return self.__pydantic_extra__ or {}

    def replaced(self, overrides: Mapping[str, str]) -> "Columns":
        """This map with some entries replaced; `question` and `messages` replace each other."""
        merged = {**self.model_dump(exclude_none=True), **overrides}
        if ("messages" in overrides) != ("question" in overrides):
            merged.pop("question" if "messages" in overrides else "messages", None)
        return Columns.model_validate(merged)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.question and self.messages:
            raise ValueError("`question` and `messages` exclude each other: map one of them")
        for name in self.named:
            near = difflib.get_close_matches(name, type(self).model_fields, 1, 0.8)
            if near:
                raise ValueError(f"`{name}` is too near to `{near[0]}` to be another column's name")
        return self


class Data(_Table):
    """`[data]`: one source a split (see `rows.py`), and how rows are read."""

    train: str | None = None
    validation: str | None = None
    test: str | None = None
    sample: str | None = None
    columns: Columns = Columns()
    gold: Gold = "raw"
    dedupe: bool = False
    drop: list[str] = []
    options: dict[str, Any] = {}

    @property
    def splits(self) -> dict[str, str]:
        """The sources of the splits that exist."""
        return {name: getattr(self, name) for name in SPLITS if getattr(self, name) is not None}


class Prompt(_Table):
    """`[prompt]`: templates over the columns of a row.

    Attributes:
        system: System message; none where empty.
        user: User message.
        plain: The whole prompt for a model without a chat template; the user text where not given.
        template_kwargs: Further variables of the chat template, for instance `enable_thinking = false`.
    """

    system: str = ""
    user: str | None = None
    plain: str | None = None
    template_kwargs: dict[str, Any] = {}


class Check(_Table):
    """`[check]`: what judges.

    Attributes:
        checker: `math`, `exact`, `choice`, `code`, or `check.py:check` for a function in the task's folder.
        options: Keyword arguments of the checker.
        timeout_seconds: Longest time that one check may take.
        reference_form: Template of a right completion over the columns and `{answer}`; `tasks check` verifies with it.
    """

    checker: str = Field(min_length=1)
    options: dict[str, Any] = {}
    timeout_seconds: float | None = Field(default=None, gt=0)
    reference_form: str | None = None


class TaskSpec(_Table):
    """A whole task.toml."""

    summary: str = Field(min_length=1)
    source: str
    license: str
    version: int = 1
    data: Data
    prompt: Prompt = Prompt()
    check: Check

    @model_validator(mode="after")
    def _check_prompt(self) -> Self:
        columns, prompt = self.data.columns, self.prompt
        if columns.messages and (prompt.user or prompt.system):
            raise ValueError("with `data.columns.messages` the chat is the row's own: remove [prompt] user and system")
        if not columns.messages and not prompt.user:
            raise ValueError('[prompt] needs `user`, for instance user = "{question}"')
        hidden = {"answer", (columns.answer or "").split(".")[0]}
        for key in ("system", "user", "plain"):
            shown = hidden.intersection(name.split(".")[0] for name in placeholders(getattr(prompt, key) or ""))
            if shown:
                raise ValueError(f"[prompt] {key} would show the model the reference answer, {{{min(shown)}}}")
        return self


def load_spec(path: Path) -> TaskSpec:
    """Reads a task.toml.

    Raises:
        TaskError: The file cannot be read, is not TOML, or has unknown, missing or wrong keys.
    """
    try:
        text = path.read_text(encoding="utf-8")
        return TaskSpec.model_validate(tomllib.loads(text))
    except OSError as error:
        raise TaskError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise TaskError(f"{path} is not TOML: {error}") from error
    except ValidationError as error:
        raise TaskError(_explain(error, path, text)) from error


def nearest(name: str, known: Iterable[str]) -> str:
    """` (did you mean `x`?)` for the nearest known name, or nothing where none is near."""
    close = difflib.get_close_matches(name, list(known), 1, 0.5)
    return f" (did you mean `{close[0]}`?)" if close else ""


def _explain(error: ValidationError, path: Path, text: str) -> str:
    # a misspelt key is also a missing one: name the misspelling
    first = min(error.errors(), key=lambda fault: fault["type"] != "extra_forbidden")
    location = [str(part) for part in first["loc"]]
    key = ".".join(location)
    if first["type"] == "extra_forbidden":
        known = _fields_at(location[:-1])
        line = _line_of(location[-1], text)
        return f"{path}{line}: unknown key `{key}`{nearest(location[-1], known)}; known here: {', '.join(known)}"
    if first["type"] == "missing":
        return f"{path}: the key `{key}` is missing"
    message = str(first.get("ctx", {}).get("error", first["msg"]))
    line = _line_of(location[-1], text) if location else ""
    return f"{path}{line}: {key + ': ' if key else ''}{message}"


def _fields_at(location: list[str]) -> list[str]:
    model: type[BaseModel] = TaskSpec
    for part in location:
        field = model.model_fields[part].annotation
        assert isinstance(field, type)
        model = field
    return list(model.model_fields)


def _line_of(key: str, text: str) -> str:
    for number, line in enumerate(text.splitlines(), start=1):
        if re.match(rf"\s*(?:\[.*\b)?{re.escape(key)}\b", line):
            return f", line {number}"
    return ""
