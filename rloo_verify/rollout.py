"""Draws completions and verifies each while the others are still being drawn."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass

from rloo_verify.errors import VerifyError
from rloo_verify.policy.base import Policy, Request, Sampling
from rloo_verify.seeds import derive_seed
from rloo_verify.types import Completion, Group, Outcome, Problem, Signal, Verdict
from rloo_verify.verify import Verifier

Render = Callable[[Problem], Problem]
"""Fills `Problem.prompt_token_ids_T`."""


@dataclass(frozen=True, slots=True)
class Rollout:
    """The groups of a step and where the time went.

    Attributes:
        groups: In the order of the problems, whatever order the completions finished in.
        sample_seconds: From the first request to the last completion.
        verify_wait_seconds: From the last completion to the last verdict; what verification adds to the step.
    """

    groups: list[Group]
    sample_seconds: float
    verify_wait_seconds: float


@dataclass(frozen=True, slots=True)
class Sampler:
    """Everything that turns problems into judged groups."""

    policy: Policy
    verifier: Verifier
    render: Render

    def draw(self, problems: Sequence[Problem], n: int, sampling: Sampling, *seed_parts: int | str) -> Rollout:
        """Draws and judges `n` completions of each problem.

        Args:
            problems: Problems, each a group of its own. One that comes again (at the turn of an epoch, or where a task
                has fewer problems than a step) goes on counting its samples, so its draws are new ones.
            n: Completions of each.
            sampling: How tokens are drawn.
            seed_parts: What this drawing is for, `(run seed, step)`; a completion's seed adds problem and sample index.

        Raises:
            PolicyError: if the engine breaks.
            VerifyError: if the verifier pool cannot go on.
        """
        rendered = [self.render(problem) for problem in problems]
        by_id = {problem.id: problem for problem in rendered}
        earlier: Counter[str] = Counter()
        samples_P = []  # the sample indices of each group
        for problem in rendered:
            samples_P.append(range(earlier[problem.id], earlier[problem.id] + n))
            earlier[problem.id] += n
        requests = [
            Request(problem, i, derive_seed(*seed_parts, problem.id, i))
            for problem, samples in zip(rendered, samples_P, strict=True)
            for i in samples
        ]
        started = time.perf_counter()
        completions: dict[tuple[str, int], Completion] = {}
        verdicts: dict[tuple[str, int], Future[Verdict]] = {}
        for completion in self.policy.generate(requests, sampling):
            key = (completion.problem_id, completion.sample_index)
            completions[key] = completion
            verdicts[key] = self.verifier.submit(by_id[completion.problem_id], completion.text)
        sampled = time.perf_counter()
        groups = [
            Group(
                problem,
                [completions[problem.id, i] for i in samples],
                [verdicts[problem.id, i].result() for i in samples],
            )
            for problem, samples in zip(rendered, samples_P, strict=True)
        ]
        return Rollout(groups, sampled - started, time.perf_counter() - sampled)

    def draw_until_mixed(
        self,
        problems: Sequence[Problem],
        n: int,
        sampling: Sampling,
        more: Callable[[int, int], Sequence[Problem]],
        bound: int,
        *seed_parts: int | str,
    ) -> Rollout:
        """`draw`, then further problems until as many groups are mixed as problems were given, or a bound is reached.

        Every drawn group is returned and counted, with signal or without. Running out is not an error.

        Args:
            problems: The problems of the step.
            n: Completions of each.
            sampling: How tokens are drawn.
            more: `(round, count) -> problems`; problems that were drawn already are left out.
            bound: Most problems drawn, the first ones included.
            seed_parts: As for `draw`.
        """
        total = self.draw(problems, n, sampling, *seed_parts)
        for round_number in range(1, bound + 1):
            missing = len(problems) - sum(group.signal is Signal.MIXED for group in total.groups)
            count = min(missing, bound - len(total.groups))
            if count <= 0:
                break
            drawn = {group.problem.id for group in total.groups}
            fresh = [problem for problem in more(round_number, count) if problem.id not in drawn]
            if not fresh:
                continue
            part = self.draw(fresh, n, sampling, *seed_parts)
            total = Rollout(
                [*total.groups, *part.groups],
                total.sample_seconds + part.sample_seconds,
                total.verify_wait_seconds + part.verify_wait_seconds,
            )
        return total


def error_share(groups: Sequence[Group]) -> float:
    """Share of completions whose verdict is ERROR."""
    verdicts = [verdict for group in groups for verdict in group.verdicts_G]
    return sum(verdict.outcome is Outcome.ERROR for verdict in verdicts) / max(1, len(verdicts))


def too_many_errors(groups: Sequence[Group], limit: float, where: str) -> VerifyError:
    """The error that stops a run whose checker or sandbox is broken.

    Args:
        groups: Groups with a larger share of ERROR verdicts than `limit`.
        limit: `verify.max_error_share`.
        where: File that holds the completions and verdicts.
    """
    first = next(v for group in groups for v in group.verdicts_G if v.outcome is Outcome.ERROR)
    return VerifyError(
        f"{error_share(groups):.0%} of the completions could not be judged, above verify.max_error_share = "
        f"{limit:.0%}; the first reason: {first.reason} ({first.detail}); all are in {where}"
    )
