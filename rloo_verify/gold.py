r"""Gold extractors: how the reference answer is read out of the answer column.

`raw` takes the value as it is, `after_hashes` the text after the last `####` (GSM8K), `boxed` the content of the last
balanced `\boxed{}` (MATH solutions), `list` a list of references (JSON-encoded or not), `number` one number in its
plainest spelling (`"1,080"`, `"$1080"`, `1080.0` and `"01080"` all become `"1080"`).

This module imports nothing heavy: verifier workers load it.
"""

import json
import math
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal, get_args

Gold = Literal["raw", "after_hashes", "boxed", "list", "number"]

_BOX = re.compile(r"\\(?:boxed|fbox)\s*")
_NUMBER = re.compile(r"[-+]?(?:\d{1,3}(?:,\d{3})+|\d+)?(?:\.\d+)?")


def extract(value: Any, kind: Gold) -> Any:
    """Reads the reference answer out of the value of the answer column.

    Args:
        value: What the column holds.
        kind: Name of the extractor.

    Returns:
        The reference: a string for `after_hashes`, `boxed` and `number`, a list for `list`, anything for `raw`.

    Raises:
        ValueError: The value holds no reference of this kind; the message says what is missing, not where.
    """
    if value is None or (isinstance(value, str | list | tuple) and not len(value)):
        raise ValueError("the answer is empty")
    if isinstance(value, str) and not value.strip():
        raise ValueError("the answer is blank")
    return _EXTRACTORS[kind](value)


def last_boxed(text: str) -> str | None:
    r"""The content of the last `\boxed{...}` or `\fbox{...}` whose braces balance.

    `\boxed 5`, which MATH solutions use a few times, counts too: the box then holds the one word that follows.

    Args:
        text: A solution in LaTeX.

    Returns:
        The content without its braces, or None where there is no whole box.
    """
    for match in reversed(list(_BOX.finditer(text))):
        content = _boxed_at(text, match.end())
        if content is not None:
            return content
    return None


def _boxed_at(text: str, start: int) -> str | None:
    if not text.startswith("{", start):
        word = re.match(r"[^\s$.,{}]+", text[start:])
        return word.group() if word else None
    depth, position = 0, start
    while position < len(text):
        character = text[position]
        if character == "\\":  # \{ and \} are printed braces, not grouping
            position += 2
            continue
        depth += (character == "{") - (character == "}")
        if depth == 0:
            return text[start + 1 : position].strip()
        position += 1
    return None


def _raw(value: Any) -> Any:
    return value


def _after_hashes(value: Any) -> str:
    _, mark, answer = str(value).rpartition("####")
    if not mark:
        raise ValueError("the answer has no `####`")
    if not answer.strip():
        raise ValueError("nothing follows the last `####`")
    return answer.strip()


def _boxed(value: Any) -> str:
    content = last_boxed(str(value))
    if not content:
        raise ValueError("the answer has no balanced, non-empty \\boxed{}")
    return content


def _list(value: Any) -> list[Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except ValueError as error:
            raise ValueError("the answer is text that is not a JSON list") from error
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"the answer is {type(value).__name__}, not a list with elements")
    return list(value)


def _number(value: Any) -> str:
    if isinstance(value, bool) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"the answer {value!r} is not a number")
    text = str(value).strip().strip("$").strip()
    text = format(Decimal(text), "f") if isinstance(value, float) else text
    if not text or not _NUMBER.fullmatch(text) or not any(map(str.isdigit, text)):
        raise ValueError(f"the answer {text[:40]!r} is not a number")
    whole, _, fraction = text.replace(",", "").lstrip("+-").partition(".")
    plain = (whole.lstrip("0") or "0") + ("." + fraction.rstrip("0") if fraction.rstrip("0") else "")
    return "-" + plain if text.startswith("-") and plain != "0" else plain


_EXTRACTORS: dict[str, Callable[[Any], Any]] = {
    "raw": _raw,
    "after_hashes": _after_hashes,
    "boxed": _boxed,
    "list": _list,
    "number": _number,
}
assert set(_EXTRACTORS) == set(get_args(Gold))
