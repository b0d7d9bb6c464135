"""Compares what a program produced with what a test expects: on the host, with plain values and bytes only.

Names of comparisons, as tasks and case files use them:

    exact       type-strict equality (1, 1.0 and True differ, lists and tuples differ)
    json        for data that was JSON: tuples count as lists, 2.0 as 2; True is not 1
    python      Python's `==`, for tests that were asserts
    tokens      standard output split at white space, every token equal
    float:TOL   as `exact` or `tokens`, but a float in the expected value may differ by TOL, absolute or relative
    unordered   lists, or lines of output, in any order
"""

import math
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

from rloo_verify.sandbox.inside.values import Opaque, same

_FLOAT = re.compile(rb"[+-]?(?:\d+\.\d*|\.\d+|\d+(?=[eE]))(?:[eE][+-]?\d+)?")
_NUMBER = re.compile(rb"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?")

ValueComparison = Callable[[Any, Any], bool]
OutputComparison = Callable[[bytes, bytes], bool]


def value_comparison(name: str) -> ValueComparison:
    """`(expected, found) -> bool` for returned values.

    Raises:
        ValueError: There is no such comparison.
    """
    if name.startswith("float:"):
        tolerance = _tolerance(name)
        return lambda expected, found: _near_values(expected, found, tolerance)
    known: dict[str, ValueComparison] = {"exact": same, "json": _same_json, "python": _equal, "unordered": _same_items}
    if name not in known:
        raise ValueError(f"no comparison of values is called {name!r}; use {', '.join(known)} or float:TOLERANCE")
    return known[name]


def output_comparison(name: str) -> OutputComparison:
    """`(expected, found) -> bool` for standard output.

    Raises:
        ValueError: There is no such comparison.
    """
    if name.startswith("float:"):
        tolerance = _tolerance(name)
        return lambda expected, found: _near_tokens(expected.split(), found.split(), tolerance)
    if name in ("tokens", "exact", "json"):
        return lambda expected, found: expected.split() == found.split()
    if name == "unordered":
        return lambda expected, found: _lines(expected) == _lines(found)
    raise ValueError(f"no comparison of output is called {name!r}; use tokens, unordered or float:TOLERANCE")


def near(expected: float, found: float, tolerance: float) -> bool:
    """Whether two finite numbers differ by at most the tolerance, absolute or relative to the expected one."""
    if not (math.isfinite(expected) and math.isfinite(found)):
        return False
    return abs(expected - found) <= tolerance * max(1.0, abs(expected))


def _tolerance(name: str) -> float:
    try:
        tolerance = float(name.removeprefix("float:"))
    except ValueError:
        tolerance = -1.0
    if not 0 <= tolerance < 1:
        raise ValueError(f"{name!r}: the tolerance must be a number from 0 to below 1, for instance float:1e-6")
    return tolerance


def _equal(expected: Any, found: Any) -> bool:
    return bool(expected == found)


def _same_items(expected: Any, found: Any) -> bool:
    """Equal lists or tuples up to order, type-strict."""
    if type(expected) is not type(found) or not isinstance(expected, list | tuple):
        return same(expected, found)
    left = list(found)
    for item in expected:
        index = next((i for i, other in enumerate(left) if same(item, other)), None)
        if index is None:
            return False
        del left[index]
    return not left


def _same_json(expected: Any, found: Any) -> bool:
    if isinstance(expected, bool) or isinstance(found, bool):
        return type(expected) is type(found) and bool(expected == found)
    if isinstance(expected, int | float) and isinstance(found, int | float):
        return expected == found
    if isinstance(expected, list | tuple) and isinstance(found, list | tuple):
        return len(expected) == len(found) and all(map(_same_json, expected, found))
    if isinstance(expected, dict) and isinstance(found, dict):
        # JSON has text keys only
        named = {str(key): value for key, value in found.items()}
        wanted = {str(key): value for key, value in expected.items()}
        return (
            len(named) == len(found)
            and named.keys() == wanted.keys()
            and all(_same_json(wanted[key], named[key]) for key in wanted)
        )
    return same(expected, found)


def _near_values(expected: Any, found: Any, tolerance: float) -> bool:
    if isinstance(found, Opaque):
        return False
    if type(expected) is float:
        if type(found) not in (int, float):
            return False
        if expected == found:
            return True
        try:
            return near(expected, float(found), tolerance)
        except OverflowError:
            return False
    if type(expected) is complex and type(found) is complex:
        return expected == found or near(0.0, abs(expected - found), tolerance * max(1.0, abs(expected)))
    if type(expected) is not type(found):
        return False
    if isinstance(expected, list | tuple):
        pairs = zip(expected, found, strict=False)
        return len(expected) == len(found) and all(_near_values(a, b, tolerance) for a, b in pairs)
    if isinstance(expected, dict):
        return expected.keys() == found.keys() and all(
            _near_values(v, found[k], tolerance) for k, v in expected.items()
        )
    return same(expected, found)


def _near_tokens(expected: list[bytes], found: list[bytes], tolerance: float) -> bool:
    if len(expected) != len(found):
        return False
    for want, got in zip(expected, found, strict=True):
        if want == got:
            continue
        if not _FLOAT.fullmatch(want) or len(got) > 400 or not _NUMBER.fullmatch(got):
            return False
        if not near(float(want), float(got), tolerance):
            return False
    return True


def _lines(output: bytes) -> Counter[tuple[bytes, ...]]:
    return Counter(tuple(line.split()) for line in output.splitlines() if line.strip())
