"""The loop: sample -> verify -> update -> sync, once a step. It reads top to bottom."""

import contextlib
import functools
import logging
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from rloo_verify.checkpoint import load_checkpoint, save_checkpoint
from rloo_verify.config import Config
from rloo_verify.errors import RunError
from rloo_verify.evaluate import evaluate_groups
from rloo_verify.interrupt import StopRequest
from rloo_verify.metrics import step_metrics
from rloo_verify.models import policy_dtype
from rloo_verify.parallel import World
from rloo_verify.policy.base import Sampling
from rloo_verify.progress import Progress
from rloo_verify.records import group_records
from rloo_verify.report import write_report
from rloo_verify.rollout import Rollout, error_share, too_many_errors
from rloo_verify.runlog import RunFolder
from rloo_verify.setup import Parts
from rloo_verify.summary import write_summary
from rloo_verify.track import Trackers

log = logging.getLogger(__name__)


def train(config: Config, progress: Progress, *, fresh: bool = False, world: World | None = None) -> dict[str, Any]:
    """Runs or resumes a training run and returns its summary (also written to summary.json).

    Args:
        config: The resolved config.
        progress: Shows the steps to people.
        fresh: Start over instead of resuming.
        world: The processes that learn together, of which this one leads; this one alone if None.

    Raises:
        RlooVerifyError: for everything that a user can mend.
        KeyboardInterrupt: after Ctrl-C, once the current step is finished and saved.
    """
    parts = Parts(config, world or World())
    parts.check()
    with RunFolder(config, fresh=fresh) as run, contextlib.closing(parts), StopRequest() as stop, progress:
        if (summary := run.finished(config.run.steps)) is not None:
            progress.finished(run.path, config.run.steps)
            return summary
        with contextlib.closing(Trackers(config.track.use, run.path, config.model_dump(mode="json"))) as trackers:
            return Trainer(config, parts, run, progress, trackers).run_all(stop)


@dataclass
class Trainer:
    """One process's part in a run."""

    config: Config
    parts: Parts
    run: RunFolder
    progress: Progress
    trackers: Trackers
    seconds: dict[str, float] = field(default_factory=dict)

    def run_all(self, stop: StopRequest) -> dict[str, Any]:
        """Resumes, trains to the last step, evaluates, and writes summary and report."""
        config, saving = self.config, self.config.save
        done = load_checkpoint(self.run.checkpoints, self.parts.learner)
        if done > config.run.steps:
            raise RunError(f"{self.run.path} has done {done} steps; run.steps = {config.run.steps} cannot undo them")
        self.run.forget_after(done)
        self.parts.sync()
        self.progress.start(config, self.run.metrics(), done)
        self.evaluate(done)
        for step in range(done + 1, config.run.steps + 1):
            self.step(step)
            last = step == config.run.steps
            if last or stop.requested or step % saving.every == 0:
                learner, tokenizer, dtype = self.parts.learner, self.parts.tokenizer, policy_dtype(config.model.dtype)
                save_checkpoint(self.run.checkpoints, step, learner, tokenizer, dtype, saving.keep)
            if stop.requested and not last:
                raise KeyboardInterrupt
            self.evaluate(step)
        return self.publish()

    def publish(self) -> dict[str, Any]:
        """Writes summary.json and report.html as of now."""
        write_report(self.run)
        return write_summary(self.run)

    def step(self, step: int) -> None:
        """Draws, verifies, learns, syncs, and writes one row and one rollout file."""
        self.seconds = {}
        rollout = self.draw(step)
        with self.phase("learn"), self.parts.asleep():
            update = self.parts.learner.step(rollout.groups)
        if update.updated or self.config.policy.sleep:  # after a sleep the probe proves the weights in any case
            with self.phase("sync"):
                self.parts.sync()
        self.run.write_rollouts(step, group_records(rollout.groups, self.parts.tokenizer, step=step))
        row = step_metrics(step, rollout.groups, update, self.seconds)
        self.run.append_metrics(row)
        self.progress.step(row)
        self.trackers.log(step, row)

    def draw(self, step: int) -> Rollout:
        """The judged groups of a step; stops the run if too many could not be judged."""
        sample, stream, seed = self.config.sample, self.parts.stream, self.config.run.seed
        sampling = Sampling(sample.max_new_tokens, sample.temperature)
        problems, sampler = stream.for_step(step), self.parts.sampler
        if sample.no_signal == "refill":
            bound, more = int(len(problems) * sample.refill_factor), functools.partial(stream.refill, step)
            rollout = sampler.draw_until_mixed(problems, sample.group_size, sampling, more, bound, seed, step)
        else:
            rollout = sampler.draw(problems, sample.group_size, sampling, seed, step)
        self.seconds |= {"sample": rollout.sample_seconds, "verify_wait": rollout.verify_wait_seconds}
        limit = self.config.verify.max_error_share
        if error_share(rollout.groups) > limit:
            self.run.write_rollouts(step, group_records(rollout.groups, self.parts.tokenizer, step=step))
            raise too_many_errors(rollout.groups, limit, f"{self.run.path}/rollouts/step-{step:06d}.jsonl")
        return rollout

    def evaluate(self, step: int) -> None:
        """Measures held-out pass rates before, every `eval.every` steps and after, unless done before a restart."""
        settings, sample = self.config.eval, self.config.sample
        due = step in (0, self.config.run.steps) or (settings.every and step % settings.every == 0)
        if not due or not self.parts.held_out or step in {row["step"] for row in self.run.evaluations()}:
            return
        started = time.perf_counter()
        sampling = Sampling(sample.max_new_tokens, sample.temperature)
        seeds = (self.config.run.seed, "eval")
        groups = self.parts.sampler.draw(self.parts.held_out, settings.n, sampling, *seeds).groups
        result = evaluate_groups(groups, settings.k).as_json()
        seconds = time.perf_counter() - started
        records = group_records(groups, self.parts.tokenizer, step=step)
        self.run.write_evaluation(step, {**result, "seconds": seconds}, records)
        self.progress.evaluation(step, result)
        self.trackers.log(step, result, prefix="eval.")
        if step < self.config.run.steps:  # the last one is followed by the end of the run
            self.publish()

    @contextlib.contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Adds the wall time of a block to the step's seconds."""
        started = time.perf_counter()
        yield
        self.seconds[name] = self.seconds.get(name, 0.0) + time.perf_counter() - started
