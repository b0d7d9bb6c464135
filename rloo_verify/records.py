"""Groups as JSON lines: what rollout files and sample files of a training run hold."""

import json
from collections.abc import Iterator, Sequence
from typing import Any

from rloo_verify.advantages import advantages_by_number
from rloo_verify.samples import sample_of
from rloo_verify.types import Group


def group_records(groups: Sequence[Group], tokenizer: Any, **shared: Any) -> Iterator[str]:
    """One JSON line a completion: the fields of a `Sample`, and how the learner sees it.

    The prompt is the text of the tokens that the model saw, chat template included. Keys: those of `shared`, those of
    `Sample`, then signal and advantage (from raw rewards; None if unjudged).
    """
    for group in groups:
        prompt = tokenizer.decode(group.problem.prompt_token_ids_T)
        advantages, _ = advantages_by_number([group])
        for number, (completion, verdict) in enumerate(zip(group.completions_G, group.verdicts_G, strict=True)):
            sample = sample_of(group.problem, completion, verdict, prompt)
            learned = {"signal": str(group.signal), "advantage": advantages.get(number)}
            yield json.dumps({**shared, **sample.as_json(), **learned}, ensure_ascii=True, default=str)
