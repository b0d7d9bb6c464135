"""Grades saved generations: no model, the task's checker, and the same folder and rates as an evaluation."""

import json
from collections.abc import Sequence
from concurrent.futures import Future, as_completed
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.console import Console

from rloo_verify.agreement import Agreement, agreement
from rloo_verify.evaluate import Evaluation, evaluate_samples
from rloo_verify.evaluation_folder import EvaluationFolder
from rloo_verify.evaluation_progress import EvaluationProgress
from rloo_verify.formats import SavedFile
from rloo_verify.formats.saved import SavedAnswer
from rloo_verify.matching import marked, match
from rloo_verify.other_checker import checker_folder
from rloo_verify.report import write_evaluation_report
from rloo_verify.samples import judged_sample
from rloo_verify.sandbox.runner import require_sandbox
from rloo_verify.score_parts import Key, Part, parts_of
from rloo_verify.storage import write_atomically
from rloo_verify.tasks import Task
from rloo_verify.types import Outcome, Problem, Verdict
from rloo_verify.verify import Verifier

TIMEOUT_SECONDS = 5.0
"""CPU time of one check, where the task states none."""


@dataclass(frozen=True, slots=True)
class ScoreSettings:
    """What `rloo-verify score` was asked for.

    Attributes:
        file: The answers.
        task: The task whose checker judges.
        split: The split that they are about; None takes the references from the file where it has them.
        data: What replaces the split's source.
        mark: What stands before a final answer in this file; judged as if it were `####`.
        k: The k of each pass@k; None is 1 and the number of answers that every problem has.
        workers: Checker processes.
        sandbox: Where the programs of code tasks run: `auto`, `docker` or `bwrap`.
        out: The evaluation folder; with several models, one folder a model inside it.
        fresh: Delete what is there and start over.
        retry_errors: Judge again what an earlier command could not judge.
    """

    file: SavedFile
    task: Task
    out: Path
    split: str | None = None
    data: Path | None = None
    mark: str | None = None
    k: Sequence[int] | None = None
    workers: int = 2
    sandbox: str = "auto"
    fresh: bool = False
    retry_errors: bool = False


@dataclass(frozen=True, slots=True)
class Score:
    """The answers of one model, judged.

    Attributes:
        model: Who wrote them, where the file has the answers of several.
        folder: Their evaluation folder.
        evaluation: The rates.
        agreement: Earlier verdicts against these; None where the file has none.
    """

    model: str | None
    folder: Path
    evaluation: Evaluation
    agreement: Agreement | None

    def as_json(self) -> dict[str, Any]:
        """For `--json`."""
        agreed = None if self.agreement is None else self.agreement.as_json()
        return {"model": self.model, "folder": str(self.folder), **self.evaluation.as_json(), "agreement": agreed}


@dataclass(frozen=True, slots=True)
class Scores:
    """All that a file holds, judged.

    Attributes:
        references: Where the references come from.
        unanswered: Problems of the split without an answer in the file.
        scores: One for each model, in the order of the file.
    """

    references: str
    unanswered: int
    scores: list[Score]


def run_score(settings: ScoreSettings, console: Console) -> Scores:
    """Matches, judges and counts. What an earlier, interrupted command has judged is not judged again.

    Raises:
        RlooVerifyError: for everything that a user can mend.
    """
    file = _of_task(settings.file, settings.task)
    found = match(file, settings.task, split=settings.split, data=settings.data, mark=settings.mark)
    parts = parts_of(file, found, settings.out)
    ks = [part.ks(settings.k) for part in parts]
    with ExitStack() as stack:
        folders = [
            stack.enter_context(
                EvaluationFolder(part.folder(settings.out), _identity(settings, part), fresh=settings.fresh)
            )
            for part in parts
        ]
        _judge(settings, parts, folders, console)
        scores = [_finish(settings, *one) for one in zip(parts, folders, ks, strict=True)]
    return Scores(found.source, found.unanswered, scores)


def _of_task(file: SavedFile, task: Task) -> SavedFile:
    """The answers to this task, where a rollout file of several has some; else all: another task's checker judges."""
    mine = tuple(answer for answer in file.answers if answer.task == task.name)
    return replace(file, answers=mine) if mine else file


def _identity(settings: ScoreSettings, part: Part) -> dict[str, Any]:
    """All that a verdict depends on, for settings.json."""
    return {
        "command": "score",
        "file": settings.file.path.name,
        "format": settings.file.format,
        "task": settings.task.name,
        "model": part.model,
        "split": settings.split,
        "data": None if settings.data is None else str(settings.data),
        "mark": settings.mark,
        **part.fingerprint(settings.task),
    }


def _judge(
    settings: ScoreSettings, parts: Sequence[Part], folders: Sequence[EvaluationFolder], console: Console
) -> None:
    """Judges what is not judged yet, all models together, and adds each sample to its folder as it is done."""
    if settings.retry_errors:
        for folder in folders:
            folder.keep([sample for sample in folder.samples if sample.outcome is not Outcome.ERROR])
    done = [sample for folder in folders for sample in folder.samples]
    total = sum(len(part.answers) for part in parts)
    if len(done) == total:
        return
    if settings.task.spec.check.checker == "code":
        require_sandbox({"backend": settings.sandbox})
    with (
        checker_folder(settings.task) as checker,
        Verifier(
            {settings.task.name: checker},
            workers=settings.workers,
            timeout_seconds=TIMEOUT_SECONDS,
            sandbox={"backend": settings.sandbox},
        ) as verifier,
        EvaluationProgress(console, total, done) as progress,
    ):
        futures: dict[Future[Verdict], tuple[EvaluationFolder, Key, SavedAnswer, Problem]] = {}
        for part, folder in zip(parts, folders, strict=True):
            for key in part.left(folder.samples):
                answer, problem = part.answers[key]
                futures[_submit(verifier, answer, problem, settings.mark)] = (folder, key, answer, problem)
        for future in as_completed(futures):
            folder, key, answer, problem = futures[future]
            sample = judged_sample(
                problem,
                key[1],
                future.result(),
                prompt=answer.prompt,
                tokens=answer.tokens,
                finish_reason=answer.finish_reason,
                text=answer.text,
            )
            folder.append(sample)
            progress.show(sample)


def _submit(verifier: Verifier, answer: SavedAnswer, problem: Problem, mark: str | None) -> Future[Verdict]:
    if answer.text is not None:
        return verifier.submit(problem, marked(answer.text, mark))
    undrawn: Future[Verdict] = Future()
    undrawn.set_result(Verdict(Outcome.ERROR, str(answer.raw.get("reason")), str(answer.raw.get("detail") or "")))
    return undrawn


def _finish(settings: ScoreSettings, part: Part, folder: EvaluationFolder, ks: Sequence[int]) -> Score:
    """Counts one model's verdicts, and writes summary.json, agreement.json and report.html."""
    evaluation = evaluate_samples(folder.samples, ks)
    verdicts = {(sample.problem, sample.sample_index): sample for sample in folder.samples}
    agreed = agreement((answer.line, answer.label, verdicts[key]) for key, (answer, _) in part.answers.items())
    if agreed is not None:
        write_atomically(folder.path / "agreement.json", json.dumps(agreed.as_json(), indent=1, default=str) + "\n")
    about = {"task": settings.task.name, "model": part.model, "split": settings.split}
    folder.finish({**about, **evaluation.as_json()})
    write_evaluation_report(folder.path)
    return Score(part.model, folder.path, evaluation, agreed)
