"""Draws the completions of an evaluation and judges each while the others are still being drawn."""

import contextlib
import functools
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future
from queue import SimpleQueue

from rloo_verify.config import ModelConfig, PolicyConfig
from rloo_verify.evaluation_settings import EvalSettings
from rloo_verify.models import load_tokenizer
from rloo_verify.policy.base import Request, Sampling
from rloo_verify.policy.drawn import Drawn, draw
from rloo_verify.samples import Sample
from rloo_verify.setup import open_policy
from rloo_verify.types import Outcome, Problem, Verdict
from rloo_verify.verify import Verifier

BATCH = PolicyConfig().batch_size
"""Sequences that the transformers engine draws at a time."""

GPU_MEMORY = 0.9
"""Share of a GPU for vLLM: no learner needs the rest."""

_Draw = Callable[[Sequence[Request], Sampling], Generator[Drawn, None, None]]
_Finished = SimpleQueue[tuple[Drawn, "Future[Verdict]"]]


def still_to_draw(requests: Sequence[Request], done: Collection[tuple[str, int]], engine: str) -> list[Request]:
    """The requests without a sample.

    The transformers engine's numbers depend, in their last bits, on what else is in the batch. There, whole batches
    are drawn again, so that a resumed evaluation gives the same completions as one that was never interrupted.
    """
    size = BATCH if engine == "transformers" else 1
    batches = [requests[start : start + size] for start in range(0, len(requests), size)]
    return [
        request
        for batch in batches
        if any((r.problem.id, r.sample_index) not in done for r in batch)
        for request in batch
    ]


def draw_and_judge(
    settings: EvalSettings,
    engine: str,
    requests: Sequence[Request],
    done: Collection[tuple[str, int]],
    show: Callable[[Problem], str],
) -> Iterator[Sample]:
    """Yields each sample as soon as it is judged; starts nothing where nothing is to be drawn.

    Args:
        settings: What was asked for.
        engine: `openai`, `vllm` or `transformers`.
        requests: What to draw.
        done: Problem and number of the samples that are there already and are not judged again.
        show: The text of a problem's prompt.

    Raises:
        RlooVerifyError: if the engine or the verifier cannot start or go on.
    """
    if not requests:
        return
    folders = {task.name: task.folder for task in settings.tasks}
    sampling = Sampling(settings.max_new_tokens, settings.temperature)
    with (
        _engine(settings, engine, requests) as draw_from_engine,
        Verifier(
            folders, workers=settings.workers, timeout_seconds=settings.timeout_seconds, sandbox=settings.sandbox
        ) as verifier,
        contextlib.closing(draw_from_engine(requests, sampling)) as answers,
    ):
        fresh = (drawn for drawn in answers if (drawn.request.problem.id, drawn.request.sample_index) not in done)
        for drawn, verdict in _judged(fresh, verifier):
            yield _sample(drawn, verdict, show(drawn.request.problem))


@contextlib.contextmanager
def _engine(settings: EvalSettings, engine: str, requests: Sequence[Request]) -> Iterator[_Draw]:
    if settings.server is not None:
        yield settings.server.connected().draw
        return
    longest = max(len(request.problem.prompt_token_ids_T) for request in requests)
    policy = open_policy(
        ModelConfig(path=settings.model),
        PolicyConfig.model_validate({"engine": engine, "gpu_memory_utilization": GPU_MEMORY}),
        load_tokenizer(settings.model),
        longest + settings.max_new_tokens,
    )
    with contextlib.closing(policy):
        yield lambda requests, sampling: draw(policy, requests, sampling)


def _judged(answers: Iterable[Drawn], verifier: Verifier) -> Iterator[tuple[Drawn, Verdict]]:
    """Each answer with its verdict, in the order in which the verdicts come; answers are judged while others are drawn.

    What could not be drawn is an ERROR `engine_error`.
    """
    finished: _Finished = SimpleQueue()
    waiting = 0
    for drawn in answers:
        if drawn.text is None:
            yield drawn, Verdict(Outcome.ERROR, "engine_error", drawn.error)
        else:
            future = verifier.submit(drawn.request.problem, drawn.text)
            future.add_done_callback(functools.partial(_put, finished, drawn))
            waiting += 1
        while not finished.empty():
            judged, done = finished.get()
            waiting -= 1
            yield judged, done.result()
    for _ in range(waiting):
        judged, done = finished.get()
        yield judged, done.result()


def _put(finished: _Finished, drawn: Drawn, future: Future[Verdict]) -> None:
    finished.put((drawn, future))


def _sample(drawn: Drawn, verdict: Verdict, prompt: str) -> Sample:
    problem = drawn.request.problem
    return Sample(
        prompt=prompt,
        problem=problem.id,
        task=problem.task,
        family=problem.family,
        sample_index=drawn.request.sample_index,
        outcome=verdict.outcome,
        reason=verdict.reason,
        detail=verdict.detail,
        answer=verdict.answer,
        reference=problem.answer,
        tokens=drawn.tokens,
        finish_reason=drawn.finish_reason,
        logprob_sum=drawn.logprob_sum,
        policy_version=drawn.policy_version,
        seed=drawn.request.seed,
        text=drawn.text,
    )
