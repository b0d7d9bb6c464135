"""Draws the completions of an evaluation and judges each while the others are still being drawn."""

import contextlib
import functools
import threading
from collections.abc import Callable, Collection, Generator, Iterator, Sequence
from concurrent.futures import Future
from queue import SimpleQueue

from rloo_verify.config import ModelConfig, PolicyConfig
from rloo_verify.evaluation_settings import EvalSettings
from rloo_verify.models import load_tokenizer
from rloo_verify.policy.base import Request, Sampling
from rloo_verify.policy.drawn import Drawn, draw
from rloo_verify.samples import Sample, judged_sample
from rloo_verify.setup import open_policy
from rloo_verify.types import Outcome, Verdict
from rloo_verify.verify import Verifier

BATCH = PolicyConfig().batch_size
"""Sequences that the transformers engine draws at a time."""

GPU_MEMORY = 0.9
"""Share of a GPU for vLLM: no learner needs the rest."""

_Draw = Callable[[Sequence[Request], Sampling], Generator[Drawn, None, None]]


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
    keep: Callable[[Drawn, Verdict], None],
) -> None:
    """Draws and judges; starts nothing where nothing is to be drawn.

    Args:
        settings: What was asked for.
        engine: `openai`, `vllm` or `transformers`.
        requests: What to draw.
        done: Problem and number of the samples that are there already and are not judged again.
        keep: Given each answer with its verdict as soon as both are there, from one thread or another, one at a time.
            What could not be drawn is an ERROR `engine_error`.

    Raises:
        RlooVerifyError: if the engine or the verifier cannot start or go on, or `keep` raises it.
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
        judging = _Judging(verifier, keep)
        for drawn in answers:
            if (drawn.request.problem.id, drawn.request.sample_index) not in done:
                judging.add(drawn)
        judging.wait()


class _Judging:
    """Answers on their way through the verifier; each is kept by whatever thread learns its verdict.

    So a slow completion does not keep the verdicts before it from the disk.
    """

    def __init__(self, verifier: Verifier, keep: Callable[[Drawn, Verdict], None]) -> None:
        self._verifier, self._keep = verifier, keep
        self._lock = threading.Lock()
        self._ends: SimpleQueue[BaseException | None] = SimpleQueue()
        self._waiting = 0

    def add(self, drawn: Drawn) -> None:
        """Has one more answer judged; raises what went wrong with earlier ones."""
        if drawn.text is None:
            with self._lock:
                self._keep(drawn, Verdict(Outcome.ERROR, "engine_error", drawn.error))
        else:
            self._waiting += 1
            future = self._verifier.submit(drawn.request.problem, drawn.text)
            future.add_done_callback(functools.partial(self._finish, drawn))
        while not self._ends.empty():
            self._end()

    def wait(self) -> None:
        """Returns once every answer is kept."""
        while self._waiting:
            self._end()

    def _end(self) -> None:
        self._waiting -= 1
        if (error := self._ends.get()) is not None:
            raise error

    def _finish(self, drawn: Drawn, future: "Future[Verdict]") -> None:
        try:
            with self._lock:
                self._keep(drawn, future.result())
        except BaseException as error:  # noqa: BLE001 (raised again in the thread that draws)
            self._ends.put(error)
        else:
            self._ends.put(None)


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


def sample_of_drawn(drawn: Drawn, verdict: Verdict, prompt: str) -> Sample:
    """The sample of an answer and its verdict."""
    return judged_sample(
        drawn.request.problem,
        drawn.request.sample_index,
        verdict,
        prompt=prompt,
        tokens=drawn.tokens,
        finish_reason=drawn.finish_reason,
        logprob_sum=drawn.logprob_sum,
        policy_version=drawn.policy_version,
        seed=drawn.request.seed,
        text=drawn.text,
    )
