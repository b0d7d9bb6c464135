"""The tiny policy writes its working, then `>` and the result: what follows the last `>` goes on with the program."""

from collections.abc import Mapping
from typing import Any

from rloo_verify.checkers import code
from rloo_verify.types import Verdict


def check(completion: str, answer: Any, row: Mapping[str, Any], **options: Any) -> Verdict:
    """Judges the completed program in a sandbox."""
    return code.check(completion.rpartition(">")[2], answer, row, **options)


def reference(row: Mapping[str, Any]) -> str:
    """A completion that must pass: the sum as an expression."""
    return str(row["question"])


check.warm_up = code.warm_up  # type: ignore[attr-defined]
check.timeout_seconds = 100.0  # type: ignore[attr-defined]
