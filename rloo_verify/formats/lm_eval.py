"""lm-evaluation-harness's `samples_<task>_<date>.jsonl` (`--log_samples`).

A line is one document under one filter: `doc_id`, `doc` (the row), `target`, `arguments` (the prompt), `resps` (one
list of answers a request), `filtered_resps`, `filter`, `metrics` (their names) and a key for each metric. The answers
of a document are the same under every filter; only the metrics differ.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from rloo_verify.formats.saved import SavedAnswer, outcome_of

NAME = "lm-eval samples"
METRICS = ("exact_match", "math_verify", "acc", "pass@1", "pass_at_1")
"""What older files, which do not list their `metrics`, are searched for."""


def recognises(row: Mapping[str, Any]) -> bool:
    """Whether a line has a document's id and responses."""
    return "doc_id" in row and ("resps" in row or "filtered_resps" in row)


def answers(row: Mapping[str, Any], line: int) -> Iterator[SavedAnswer]:
    """The answers of a line. A metric judges them together, so it is an earlier verdict only where there is one."""
    texts = _texts(row.get("resps") or row["filtered_resps"])
    for position, text in enumerate(texts):
        yield SavedAnswer(
            line=line,
            text=text,
            raw=row,
            problem=str(row["doc_id"]),
            prompt=_prompt(row.get("arguments")),
            row=row["doc"] if isinstance(row.get("doc"), Mapping) else None,
            reference=row.get("target"),
            extracted=False,
            label=_metric(row) if len(texts) == 1 else None,
            position=position,
            variant=row.get("filter"),
        )


def _texts(responses: Any) -> list[str]:
    flat: list[str] = []
    for response in responses if isinstance(responses, list) else [responses]:
        flat += response if isinstance(response, list) else [response]
    if not flat or not all(isinstance(text, str) for text in flat):
        raise ValueError(
            "`resps` holds log-likelihoods or nothing, not generated text; only generated text can be graded"
        )
    return flat


def _prompt(arguments: Any) -> str | None:
    """The first argument of the first request: `{"gen_args_0": {"arg_0": ...}}`; in old files `[[prompt, ...]]`."""
    try:
        prompt = arguments["gen_args_0"]["arg_0"] if isinstance(arguments, Mapping) else arguments[0][0]
    except (KeyError, IndexError, TypeError):
        return None
    return prompt if isinstance(prompt, str) else None


def _metric(row: Mapping[str, Any]) -> Any:
    for name in row.get("metrics") or METRICS:
        if isinstance(row.get(name), bool | int | float):
            return outcome_of(row[name])
    return None
