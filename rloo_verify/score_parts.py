"""The answers of a file by who wrote them: each part gets an evaluation folder of its own."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rloo_verify.errors import ConfigError, FormatError
from rloo_verify.formats import SavedFile
from rloo_verify.formats.saved import SavedAnswer
from rloo_verify.matching import Matched
from rloo_verify.samples import Sample
from rloo_verify.tasks import Task
from rloo_verify.types import Problem

Key = tuple[str, int]
"""Problem and sample index."""


@dataclass(frozen=True, slots=True)
class Part:
    """One model's answers.

    Attributes:
        model: Who wrote them; None where the file does not say.
        answers: Each with its problem.
    """

    model: str | None
    answers: dict[Key, tuple[SavedAnswer, Problem]]

    def folder(self, out: Path) -> Path:
        """Its evaluation folder: `out`, or a folder of the model's name inside."""
        return out if self.model is None else out / re.sub(r"[^\w.=-]+", "-", self.model)

    def ks(self, wanted: Sequence[int] | None) -> list[int]:
        """The k of each pass@k: what is wanted, else 1 and the number of answers that every problem has.

        Raises:
            ConfigError: No problem has so many answers.
        """
        sizes = Counter(problem for problem, _ in self.answers).values()
        if wanted is not None and max(wanted) > max(sizes):
            raise ConfigError(f"--k {max(wanted)}: no problem has so many answers; the most is {max(sizes)}")
        return sorted({1, min(sizes)}) if wanted is None else list(wanted)

    def left(self, samples: Sequence[Sample]) -> list[Key]:
        """The answers that are not among the samples."""
        done = {(sample.problem, sample.sample_index) for sample in samples}
        return [key for key in self.answers if key not in done]

    def fingerprint(self, task: Task) -> dict[str, Any]:
        """What verdicts depend on beside the options of the command: checker, answers, references."""
        check = task.spec.check
        file, colon, _ = check.checker.partition(":")
        return {
            "checker": check.checker,
            "checker_file": _digest((task.folder / file).read_text(encoding="utf-8")) if colon else None,
            "options": check.options,
            "answers": _digest([(key, answer.text) for key, (answer, _) in self.answers.items()]),
            "references": _digest([(key, problem.answer) for key, (_, problem) in self.answers.items()]),
        }


def parts_of(file: SavedFile, found: Matched, out: Path) -> list[Part]:
    """The answers by model, in the order of the file.

    Args:
        file: The answers.
        found: The problem of each.
        out: Where their folders go.

    Raises:
        FormatError: Two models would have the same folder.
    """
    by_model: dict[str | None, dict[str, list[tuple[SavedAnswer, Problem]]]] = {}
    for answer, problem in zip(file.answers, found.problems, strict=True):
        by_model.setdefault(answer.model, {}).setdefault(problem.id, []).append((answer, problem))
    parts = [Part(model, _numbered(by_problem)) for model, by_problem in by_model.items()]
    folder, times = Counter(part.folder(out) for part in parts).most_common(1)[0]
    if times > 1:
        names = ", ".join(str(part.model) for part in parts if part.folder(out) == folder)
        raise FormatError(f"the answers of {names} would all go into {folder}; rename one of them")
    return parts


def _numbered(by_problem: dict[str, list[tuple[SavedAnswer, Problem]]]) -> dict[Key, tuple[SavedAnswer, Problem]]:
    """Every answer under its key: the file's own sample index where that tells the answers apart, else 0, 1, 2..."""
    answers = {}
    for problem_id, pairs in by_problem.items():
        own = [answer.sample_index for answer, _ in pairs if answer.sample_index is not None]
        numbers = own if len(set(own)) == len(pairs) else range(len(pairs))
        answers.update({(problem_id, number): pair for number, pair in zip(numbers, pairs, strict=True)})
    return answers


def _digest(values: Any) -> str:
    return hashlib.sha256(json.dumps(values, default=str).encode("ascii")).hexdigest()[:16]
