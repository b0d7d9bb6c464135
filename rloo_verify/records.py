"""Groups as JSON lines: what rollout files and sample files hold."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rloo_verify.advantages import advantages_by_number
from rloo_verify.types import Group


def group_records(groups: Sequence[Group], tokenizer: Any, **shared: Any) -> Iterator[str]:
    """One JSON line a completion; the prompt is the text of the tokens that the model saw, chat template included.

    Keys: those of `shared`, then prompt, problem, task, signal, sample_index, outcome, reason, detail, answer,
    reference, advantage (from raw rewards; None if unjudged), tokens, finish_reason, logprob_sum, policy_version, seed
    and text.
    """
    for group in groups:
        prompt = tokenizer.decode(group.problem.prompt_token_ids_T)
        for record in _records(group, {**shared, "prompt": prompt}):
            yield json.dumps(record, ensure_ascii=True, default=str)


def _records(group: Group, shared: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    advantages, _ = advantages_by_number([group])
    for number, (completion, verdict) in enumerate(zip(group.completions_G, group.verdicts_G, strict=True)):
        yield {
            **shared,
            "problem": group.problem.id,
            "task": group.problem.task,
            "signal": str(group.signal),
            "sample_index": completion.sample_index,
            "outcome": str(verdict.outcome),
            "reason": verdict.reason,
            "detail": verdict.detail,
            "answer": verdict.answer,
            "reference": group.problem.answer,
            "advantage": advantages.get(number),
            "tokens": len(completion.token_ids_T),
            "finish_reason": str(completion.finish_reason),
            "logprob_sum": sum(completion.logprobs_T),
            "policy_version": completion.policy_version,
            "seed": completion.seed,
            "text": completion.text,
        }
