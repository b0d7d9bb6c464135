"""Saved answer -> Problem: what a file's answers are judged against.

The reference comes from the file where it has one, and else from the rows of the task's split, found by id or question.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rloo_verify import gold
from rloo_verify.columns import pick
from rloo_verify.errors import FormatError, TaskError
from rloo_verify.formats import SavedFile
from rloo_verify.formats.saved import SavedAnswer
from rloo_verify.tasks import Task
from rloo_verify.types import Problem

READS_NO_ROW = ("math", "exact", "choice")
"""Checkers that need the reference alone. Code tasks and a task's own checker may read other columns of the row."""

DEFAULT_SPLIT = "test"


@dataclass(frozen=True, slots=True)
class Matched:
    """The problems of a file's answers.

    Attributes:
        problems: One for each answer.
        source: Where the references come from, for people.
        unanswered: Problems of the split that no answer is about; 0 where the split was not read.
    """

    problems: tuple[Problem, ...]
    source: str
    unanswered: int = 0


def match(file: SavedFile, task: Task, *, split: str | None, data: str | Path | None, mark: str | None) -> Matched:
    """Finds the problem of every answer.

    Args:
        file: The answers.
        task: The task whose checker judges.
        split: The split that the answers are about; naming it, or `data`, takes the references from the task's rows.
        data: A file or hub source that replaces the split's own.
        mark: What stands before the final answer in the file's own references, see `marked`.

    Raises:
        FormatError: An answer matches no problem, or says nothing of its problem.
        TaskError: The task's rows cannot be read.
    """
    answers = file.answers
    complete = all(answer.row is not None or answer.reference is not None for answer in answers)
    needs_rows = task.spec.check.checker not in READS_NO_ROW and any(
        answer.row is None and answer.problem is not None for answer in answers
    )
    if split is None and data is None and complete and not needs_rows:
        own = tuple(_own_problem(file, answer, task, mark) for answer in answers)
        return Matched(own, f"the references of {file.path.name}")
    split = split or _split_of(answers, task) or DEFAULT_SPLIT
    rows = Rows(task, split, data)
    problems = tuple(rows.find(file, answer) for answer in answers)
    left = len(rows.problems) - len({problem.id for problem in problems})
    return Matched(problems, f"{task.name}/{split}" + ("" if data is None else f" ({data})"), left)


class Rows:
    """The problems of a split, found by id or by question."""

    def __init__(self, task: Task, split: str, data: str | Path | None) -> None:
        """Reads the split.

        Raises:
            TaskError: It cannot be read.
        """
        self.problems = task.problems(split, data=data)
        self._where = f"{task.name}/{split}"
        self._has_ids = task.spec.data.columns.id is not None
        self._by_id = _unique([(name, problem) for problem in self.problems for name in self._names(problem.id)])
        self._by_question = _unique([(_plain(_question(problem)), problem) for problem in self.problems])
        self._by_prompt: dict[str, Problem | None] = {}

    def find(self, file: SavedFile, answer: SavedAnswer) -> Problem:
        """The problem that an answer is about.

        Raises:
            FormatError: There is none, or the answer says nothing of its problem.
        """
        where = f"{file.path}, line {answer.line}"
        if answer.problem is None and answer.prompt is None:
            raise FormatError(
                f"{where} does not say what its problem is: map a column, problem=COLUMN or question=COLUMN"
            )
        named = None if answer.problem is None else self._named(answer.problem)
        asked = None if answer.prompt is None else self._asked(answer.prompt)
        if named is not None and asked is not None and not _same(named, asked):
            raise FormatError(
                f"{where}: its id {answer.problem!r} is that of {named.id}, but its question that of {asked.id}:"
                " these are not the rows that were answered; choose others with --split or --data"
            )
        found = named or asked
        if found is None:
            what = (
                f"the question {str(answer.prompt)[:60]!r}" if answer.problem is None else f"the id {answer.problem!r}"
            )
            raise FormatError(
                f"{where}: no problem of {self._where} has {what}; its {len(self.problems)} problems begin with"
                f" {self.problems[0].id}: choose other rows with --split or --data"
            )
        return found

    def _named(self, name: str) -> Problem | None:
        found = self._by_id.get(name)
        if found is None and self._has_ids and name.count("/") == 1:  # evalplus writes Mbpp/2 for MBPP's 2
            found = self._by_id.get(name.rpartition("/")[2])
        return found

    def _asked(self, prompt: str) -> Problem | None:
        return self._by_question.get(_plain(prompt)) or self._inside(prompt)

    def _names(self, problem_id: str) -> list[str]:
        """The whole id, and what the data set itself calls the row: its id or its index."""
        return [problem_id, problem_id.removeprefix(f"{self._where}/")]

    def _inside(self, prompt: str) -> Problem | None:
        """The problem whose question ends last in a prompt: earlier ones are examples; of two, the longer one."""
        if prompt not in self._by_prompt:
            text = _plain(prompt)
            ends = {
                question: (text.rfind(question) + len(question), len(question))
                for question in self._by_question
                if question and question in text
            }
            last = max(ends, key=lambda question: ends[question], default=None)
            self._by_prompt[prompt] = None if last is None else self._by_question[last]
        return self._by_prompt[prompt]


def marked(text: str, mark: str | None) -> str:
    """The text with the last `mark` written as `####`, which checkers and gold extractors know."""
    if mark is None:
        return text
    before, found, after = text.rpartition(mark)
    return f"{before}\n#### {after.strip()}" if found else text


def _own_problem(file: SavedFile, answer: SavedAnswer, task: Task, mark: str | None) -> Problem:
    """The problem as the file itself describes it."""
    problem_id = _own_id(answer, task)
    if answer.row is not None:
        try:
            return task.problem(answer.row, problem_id, f"{file.path}, line {answer.line}")
        except TaskError:
            if answer.reference is None:
                raise
    reference = answer.reference if answer.extracted else _extracted(file, answer, task, mark)
    return Problem(
        id=problem_id,
        task=task.name,
        messages=(),
        plain=answer.prompt or "",
        answer=reference,
        row=answer.row or {},
        family=answer.family,
    )


def _own_id(answer: SavedAnswer, task: Task) -> str:
    """An id as the task's rows would have it where that is known; else a digest of the prompt, equal in every file."""
    columns = task.spec.data.columns
    if answer.row is not None:
        try:
            name = str(pick(answer.row, columns.id)) if columns.id else answer.problem
        except (KeyError, ValueError):
            name = answer.problem
        return f"{task.name}/{DEFAULT_SPLIT}/{name}"
    if answer.problem is not None:
        return answer.problem
    if answer.prompt is not None:
        text = f"{answer.prompt}\0{answer.reference}"
        return f"{task.name}/{hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:12]}"
    return f"{task.name}/line/{answer.line}"


def _extracted(file: SavedFile, answer: SavedAnswer, task: Task, mark: str | None) -> Any:
    reference = marked(answer.reference, mark) if isinstance(answer.reference, str) else answer.reference
    kind = "after_hashes" if mark is not None else task.spec.data.gold
    try:
        return gold.extract(reference, kind)
    except ValueError as error:
        raise FormatError(
            f"{file.path}, line {answer.line}: the reference {str(answer.reference)[:60]!r} cannot be read as"
            f" `{kind}` ({error}); say how with --gold"
        ) from error


def _split_of(answers: Sequence[SavedAnswer], task: Task) -> str | None:
    """The split that ids of the form `task/split/row` name, where they all name the same."""
    splits = {
        answer.problem.split("/")[1]
        for answer in answers
        if answer.problem is not None and answer.problem.startswith(f"{task.name}/") and answer.problem.count("/") > 1
    }
    return splits.pop() if len(splits) == 1 else None


def _unique(pairs: Sequence[tuple[str, Problem]]) -> dict[str, Problem]:
    """The problems by name, without names that two different problems have."""
    found: dict[str, Problem] = {}
    twice: set[str] = set()
    for name, problem in pairs:
        other = found.setdefault(name, problem)
        if not _same(other, problem):
            twice.add(name)
    return {name: problem for name, problem in found.items() if name not in twice}


def _same(a: Problem, b: Problem) -> bool:
    """Whether two problems are one, perhaps twice in the data."""
    return a.id == b.id or (a.answer, a.messages) == (b.answer, b.messages)


def _question(problem: Problem) -> str:
    return str(problem.row.get("question") or problem.plain)


def _plain(text: str) -> str:
    return " ".join(text.split())
