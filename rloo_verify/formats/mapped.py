"""Any lines, by a column map: `text=response,problem=id` and so on.

Values are columns or dotted paths. A text column that holds a list gives several answers a line, and the label column
then may hold a list, too. A path that begins with `*` gives one answer for every column in which the rest of it is
found, written by the model of that column's name: `text=*.solution,label=*.is_correct`.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from rloo_verify.columns import pick
from rloo_verify.errors import FormatError
from rloo_verify.formats.saved import SavedAnswer, outcome_of, text_of
from rloo_verify.task_spec import nearest

NAMES = ("text", "problem", "question", "answer", "label", "model", "family", "tokens", "finish_reason")
_EACH = "*."


@dataclass(frozen=True, slots=True)
class ColumnMap:
    """Where in a line things are.

    Attributes:
        columns: Any of `NAMES` to a path; `text` is there.
    """

    columns: Mapping[str, str]

    def __post_init__(self) -> None:
        unknown = [name for name in self.columns if name not in NAMES]
        if unknown:
            raise FormatError(
                f"--columns has no `{unknown[0]}`{nearest(unknown[0], NAMES)}; it takes {', '.join(NAMES)}"
            )
        if "text" not in self.columns:
            raise FormatError("--columns must say where the answers are: text=COLUMN")

    def answers(self, row: Mapping[str, Any], line: int) -> Iterator[SavedAnswer]:
        """The answers of a line.

        Raises:
            KeyError: A column is missing.
            ValueError: A column holds what it must not.
        """
        if not self.columns["text"].startswith(_EACH):
            yield from _answers(self.columns, row, line)
            return
        rest = self.columns["text"].removeprefix(_EACH)
        names = [name for name, value in row.items() if isinstance(value, Mapping) and _has(value, rest)]
        if not names:
            raise KeyError(f"no column holds `{rest}`; the columns are: {', '.join(row)}")
        for name in names:
            columns = {key: path.replace(_EACH, f"{name}.", 1) for key, path in self.columns.items()}
            for answer in _answers(columns, row, line):
                yield answer if answer.model is not None else replace(answer, model=name)


def _answers(columns: Mapping[str, str], row: Mapping[str, Any], line: int) -> Iterator[SavedAnswer]:
    found = {name: pick(row, path) for name, path in columns.items()}
    several = isinstance(found["text"], list | tuple)
    for position, text in enumerate(found["text"] if several else [found["text"]]):
        label = at_position(found.get("label"), position)
        yield SavedAnswer(
            line=line,
            text=text_of(text, columns["text"]),
            raw=row,
            problem=_name(found.get("problem")),
            prompt=text_of(found["question"], columns["question"]) if "question" in found else None,
            reference=found.get("answer"),
            extracted=False,
            label=outcome_of(label),
            model=_name(found.get("model")),
            family=_name(found.get("family")),
            position=position,
            tokens=found.get("tokens"),
            finish_reason=_name(found.get("finish_reason")),
        )


def at_position(value: Any, position: int) -> Any:
    """The element of a list of labels, or the one label.

    Raises:
        ValueError: The list is too short.
    """
    if not isinstance(value, list | tuple):
        return value
    if position >= len(value):
        raise ValueError(f"there are {len(value)} labels for more answers")
    return value[position]


def _name(value: Any) -> str | None:
    return None if value is None else str(value)


def _has(value: Mapping[str, Any], path: str) -> bool:
    try:
        pick(value, path)
    except (KeyError, ValueError):
        return False
    return True
