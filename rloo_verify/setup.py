"""Builds what a run needs from its config, cheapest things first, so that mistakes show before models are loaded."""

import contextlib
import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import torch

from rloo_verify.config import Config, ModelConfig, PolicyConfig, TaskConfig
from rloo_verify.errors import ConfigError, PolicyError, PromptTooLongError
from rloo_verify.learner import Learner
from rloo_verify.mixing import ProblemStream
from rloo_verify.models import context_length, default_device, load_model, load_tokenizer, model_path, policy_dtype
from rloo_verify.optimizer import check_optimizer
from rloo_verify.parallel import World
from rloo_verify.policy.base import Policy
from rloo_verify.policy.ends import end_token_ids
from rloo_verify.policy.transformers import TransformersPolicy
from rloo_verify.policy.vllm import VllmPolicy
from rloo_verify.policy.vllm_start import available as vllm_unavailable
from rloo_verify.prompts import render
from rloo_verify.rollout import Render, Sampler
from rloo_verify.sandbox.runner import require_sandbox
from rloo_verify.seeds import derive_seed
from rloo_verify.sync import PROBE_LENGTH, sync_weights
from rloo_verify.tasks import Task, find_task
from rloo_verify.track import check_installed
from rloo_verify.types import Problem
from rloo_verify.verify import Verifier

log = logging.getLogger(__name__)


def choose_engine(setting: str) -> tuple[str, str]:
    """The engine to use, and one sentence that says why.

    Raises:
        PolicyError: if vLLM is asked for and cannot be used.
    """
    reason = vllm_unavailable()
    if setting == "vllm" and reason:
        raise PolicyError(f"policy.engine = vllm: {reason}")
    if setting == "transformers":
        return "transformers", "engine: transformers, as the config says"
    if reason:
        return "transformers", f"engine: transformers ({reason})"
    return "vllm", "engine: vllm" + ("" if setting == "vllm" else " (auto)")


def open_policy(
    model: ModelConfig, policy: PolicyConfig, tokenizer: Any, max_length: int, *, own_workers: bool = False
) -> Policy:
    """Starts the engine of a model; with `own_workers`, vLLM's model in processes of its own.

    Raises:
        PolicyError: if the engine cannot be used or does not start.
        ModelError: if the model cannot be loaded.
    """
    max_length = max(max_length, PROBE_LENGTH)
    engine, why = choose_engine(policy.engine)
    log.info("%s", why)
    path, dtype = model_path(model.path), policy_dtype(model.dtype)
    if engine == "vllm":
        return VllmPolicy(
            path,
            dtype=str(dtype).removeprefix("torch."),
            max_model_len=max_length,
            gpu_memory_utilization=policy.gpu_memory_utilization,
            tensor_parallel_size=policy.tensor_parallel_size,
            own_workers=own_workers,
            sleep=policy.sleep,
        )
    loaded = load_model(model.path, dtype, default_device())
    return TransformersPolicy(
        loaded, tokenizer, end_token_ids(path), max_length=max_length, batch_size=policy.batch_size
    )


def check_context(model: str, max_length: int) -> None:
    """Refuses sequences that are longer than the model's context.

    Raises:
        ConfigError: naming both lengths.
    """
    limit = context_length(model)
    if limit is not None and max_length > limit:
        raise ConfigError(
            f"sample.max_prompt_tokens + sample.max_new_tokens = {max_length} tokens, but the context of {model} "
            f"holds {limit}; lower one of them"
        )


def renderer(tasks: Sequence[Task], tokenizer: Any, max_prompt_tokens: int | None) -> Render:
    """A function that renders problems of these tasks to token ids."""
    options = {task.name: task.spec.prompt.template_kwargs for task in tasks}
    return lambda problem: render(problem, tokenizer, max_prompt_tokens, template_kwargs=options.get(problem.task))


@dataclass
class Parts:
    """What a run is made of, built on first use. `close` ends what was started."""

    config: Config
    world: World = field(default_factory=World)

    @cached_property
    def tasks(self) -> list[tuple[Task, TaskConfig]]:
        """The tasks of the config."""
        return [
            (find_task(entry.name, options=entry.options, columns=entry.columns, gold=entry.gold), entry)
            for entry in self.config.tasks
        ]

    @cached_property
    def tokenizer(self) -> Any:
        """The model's tokenizer."""
        return load_tokenizer(self.config.model.path)

    @cached_property
    def render(self) -> Render:
        """Renders a problem to token ids."""
        limit = self.config.sample.max_prompt_tokens
        return renderer([task for task, _ in self.tasks], self.tokenizer, limit)

    @cached_property
    def stream(self) -> ProblemStream:
        """The training problems, every prompt's length checked."""
        problems = [self._fitting(task.problems(entry.split, data=entry.data)) for task, entry in self.tasks]
        return ProblemStream(
            problems,
            [entry.weight for _, entry in self.tasks],
            per_step=self.config.sample.problems_per_step,
            seed=self.config.run.seed,
        )

    def _fitting(self, problems: list[Problem]) -> list[Problem]:
        """The problems whose prompt is short enough; without `long_prompts = "skip"` a longer one is an error."""
        if self.config.sample.long_prompts == "error":
            for problem in problems:
                self.render(problem)
            return problems
        fitting = []
        for problem in problems:
            with contextlib.suppress(PromptTooLongError):
                self.render(problem)
                fitting.append(problem)
        skipped = len(problems) - len(fitting)
        log.info("%s: %d of %d prompts are too long and left out", problems[0].task, skipped, len(problems))
        if not fitting:
            raise ConfigError(f"{problems[0].task}: no prompt fits sample.max_prompt_tokens; raise it")
        return fitting

    @cached_property
    def held_out(self) -> list[Problem]:
        """The problems of the held-out evaluation; none if it is switched off."""
        settings = self.config.eval
        if not settings.problems:
            return []
        return [p for task, _ in self.tasks for p in task.problems(settings.split, limit=settings.problems)]

    @cached_property
    def learner(self) -> Learner:
        """The learner, in float32 on this process's GPU or the CPU; built by all processes together."""
        return self.world.together(self._build_learner)

    def _build_learner(self) -> Learner:
        config, device = self.config, default_device()
        lora = config.model.lora
        reference = None
        if config.learner.kl_beta > 0 and lora is None:
            reference = load_model(config.model.path, policy_dtype(config.model.dtype), device)
        model = load_model(config.model.path, torch.float32, device)
        torch.manual_seed(derive_seed(config.run.seed, "learner"))  # fresh adapters are random
        return Learner(
            model,
            config.learner,
            temperature=config.sample.temperature,
            lora=lora,
            reference=reference,
            max_logprob_gap=config.policy.max_logprob_gap,
            world=self.world,
        )

    @cached_property
    def policy(self) -> Policy:
        """The running engine."""
        config, several = self.config, self.world.size > 1
        return open_policy(config.model, config.policy, self.tokenizer, self.max_length, own_workers=several)

    @cached_property
    def sampler(self) -> Sampler:
        """Policy and verifier workers, ready to draw."""
        settings = self.config.verify
        folders = {task.name: task.folder for task, _ in self.tasks}
        verifier = Verifier(
            folders,
            workers=settings.workers,
            timeout_seconds=settings.timeout_seconds,
            sandbox=self.config.sandbox.model_dump(),
        )
        return Sampler(self.policy, verifier, self.render)

    @property
    def max_length(self) -> int:
        """Longest prompt plus completion, in tokens."""
        return self.config.sample.max_prompt_tokens + self.config.sample.max_new_tokens

    @property
    def max_sync_gap(self) -> float:
        """Largest |log-prob difference| of the probe after a sync, in nats."""
        exact = policy_dtype(self.config.model.dtype) == torch.float32
        return self.config.policy.max_sync_gap or (1e-3 if exact else 0.3)

    def sync(self) -> None:
        """Puts the learner's weights into the policy and proves that both agree.

        Raises:
            SyncError: if they do not; names the layers that differ.
        """
        vocabulary = min(len(self.tokenizer), self.learner.vocabulary_size)
        report = sync_weights(self.learner, self.policy, max_gap=self.max_sync_gap, vocabulary_size=vocabulary)
        log.debug("sync %d: probe gap %.2e nats in %.2f s", report.version, report.probe_gap, report.seconds)

    @contextlib.contextmanager
    def asleep(self) -> Iterator[None]:
        """Inside, the engine leaves its memory to the learner, if the config says so."""
        if not self.config.policy.sleep:
            yield
            return
        self.policy.sleep()
        yield
        self.policy.wake()

    def check(self) -> Problem:
        """Validates everything up to the first prompt without loading model weights; returns that prompt's problem.

        Raises:
            RlooVerifyError: naming the first thing that would stop the run.
        """
        choose_engine(self.config.policy.engine)
        check_installed(self.config.track.use)
        check_optimizer(self.config.learner)
        for task, _ in self.tasks:
            task.load_checker()
        if any(task.spec.check.checker == "code" for task, _ in self.tasks):
            require_sandbox(self.config.sandbox.model_dump())
        check_context(self.config.model.path, self.max_length)
        first = self.render(self.stream.for_step(1)[0])
        for problem in self.held_out:
            self.render(problem)
        return first

    def close(self) -> None:
        """Ends the verifier's workers and the engine, as far as they were started."""
        with contextlib.ExitStack() as stack:
            if "policy" in self.__dict__:
                stack.callback(self.policy.close)
            if "sampler" in self.__dict__:
                stack.callback(self.sampler.verifier.close)
