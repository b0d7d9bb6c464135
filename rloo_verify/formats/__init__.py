"""Reads files of saved generations, whoever wrote them.

| format | recognised by the keys |
|---|---|
| rloo-verify samples | `problem`, `sample_index`, `outcome`, `text` |
| human-eval samples | `task_id`, and `completion` or `solution` |
| lm-eval samples | `doc_id`, and `resps` or `filtered_resps` |
| verl rollouts | `input`, `output`, `score` |
| columns | a column map (`mapped.py`) |

Nothing is guessed: a file in no known format is refused, and so is a line that differs from the first.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rloo_verify.columns import pick
from rloo_verify.errors import FormatError
from rloo_verify.formats import human_eval, lm_eval, own, verl
from rloo_verify.formats.mapped import ColumnMap, at_position
from rloo_verify.formats.saved import SavedAnswer, outcome_of
from rloo_verify.rows import read_rows

FORMATS = (own, human_eval, lm_eval, verl)

_Reader = Callable[[Mapping[str, Any], int], Iterator[SavedAnswer]]


@dataclass(frozen=True, slots=True)
class SavedFile:
    """What a file of generations holds.

    Attributes:
        path: The file.
        format: Name of its format.
        answers: At least one, in the order of the file.
        variant: The lm-eval filter whose metrics are the earlier verdicts.
        variants: All filters of the file.
    """

    path: Path
    format: str
    answers: tuple[SavedAnswer, ...]
    variant: str | None = None
    variants: tuple[str, ...] = ()


def read_answers(
    path: Path,
    *,
    columns: Mapping[str, str] | None = None,
    label: str | None = None,
    by: str | None = None,
    variant: str | None = None,
) -> SavedFile:
    """Reads a file of generations.

    Args:
        path: A .jsonl, .json or .parquet file (JSON may be gzipped), or an evaluation folder.
        columns: A column map; else the format is recognised by the keys of the first line.
        label: Path of the column with the earlier verdict, where it is not the format's own.
        by: Path of the column that says who wrote an answer; `model` is a name of the column map, too.
        variant: The lm-eval filter whose metrics are the earlier verdicts; by default the first of the file.

    Raises:
        FormatError: The format is unknown, a line differs from the first, or the file holds no answers.
        TaskError: The file cannot be read, or is not JSON.
    """
    path = _file(path)
    rows = list(read_rows(str(path.resolve()), folder=Path(), split=""))
    if not rows:
        raise FormatError(f"{path} is empty: there is nothing to score")
    name, read = ("columns", ColumnMap(columns).answers) if columns else _recognised(path, rows[0])
    answers = []
    for line, row in enumerate(rows, start=1):
        try:
            answers += [_with_columns(answer, label, by) for answer in read(row, line)]
        except (KeyError, ValueError, TypeError) as error:
            raise FormatError(f"{path}, line {line} ({name}): {error.args[0]}") from error
    if not answers:
        raise FormatError(f"{path}: its {len(rows)} lines hold no answers")
    return _one_variant(SavedFile(path, name, tuple(answers)), variant)


def _file(path: Path) -> Path:
    if not path.is_dir():
        return path
    if not (path / "samples.jsonl").is_file():
        raise FormatError(f"{path} is a folder without samples.jsonl: name the file to score")
    return path / "samples.jsonl"


def _recognised(path: Path, first: Mapping[str, Any]) -> tuple[str, _Reader]:
    for known in FORMATS:
        if known.recognises(first):
            return known.NAME, _strict(known)
    names = ", ".join(known.NAME for known in FORMATS)
    raise FormatError(
        f"{path}, line 1 is in no known format ({names}); its keys are {', '.join(first) or 'none'}: name the columns"
        " with --columns text=COLUMN,problem=COLUMN (or question=COLUMN, answer=COLUMN)"
    )


def _strict(known: Any) -> _Reader:
    def read(row: Mapping[str, Any], line: int) -> Iterator[SavedAnswer]:
        if not known.recognises(row):
            raise ValueError(f"this line has other keys than the first: {', '.join(row) or 'none'}")
        yield from known.answers(row, line)

    return read


def _with_columns(answer: SavedAnswer, label: str | None, by: str | None) -> SavedAnswer:
    """The answer with its label and model read from the columns that were named."""
    if label is not None:
        answer = replace(answer, label=outcome_of(at_position(pick(answer.raw, label), answer.position)))
    if by is not None and not (by == "model" and answer.model is not None):
        answer = replace(answer, model=str(pick(answer.raw, by)))
    return answer


def _one_variant(file: SavedFile, wanted: str | None) -> SavedFile:
    """Keeps one of the filters under which lm-eval repeats every answer."""
    variants = tuple(dict.fromkeys(answer.variant for answer in file.answers if answer.variant is not None))
    if wanted is not None and wanted not in variants:
        raise FormatError(f"{file.path} has no filter {wanted!r}; its filters are: {', '.join(variants) or 'none'}")
    if not variants:
        return file
    chosen = wanted or variants[0]
    kept = tuple(answer for answer in file.answers if answer.variant == chosen)
    return replace(file, answers=kept, variant=chosen, variants=variants)
