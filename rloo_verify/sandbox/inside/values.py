"""The strict tagged encoding in which values cross the border of a sandbox. No pickle, no code, exact built-in types.

A value is a JSON array whose first item is its tag:

    ["n"]  None            ["i", "ff"]  int, hexadecimal     ["l", [...]]  list        ["d", [[key, value], ...]]  dict
    ["b", true]  bool      ["f", "0x1.8p+1"]  float          ["t", [...]]  tuple       ["c", real, imaginary]  complex
    ["s", "..."]  str      ["y", "base64"]  bytes            ["e", [...]]  set         ["z", [...]]  frozenset
    ["k", "int"]  a built-in type itself
    ["r", 3, "Node"]  a live object that stays inside; only sessions know it
    ["u", "module.Type"]  a value that cannot leave; equal to nothing

`encode` runs beside the untrusted program, which may forge whatever it likes: nothing here is secret, and to forge a
value is to know the answer. `decode` runs on the host and takes nothing on trust.
"""

import base64
import math
from collections import Counter, OrderedDict, defaultdict
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 60
MAX_NODES = 2_000_000

Encoded = list[Any]
ToReference = Callable[[Any], Encoded]
FromReference = Callable[[int, str], Any]

_CONTAINERS: dict[type, str] = {list: "l", tuple: "t", set: "e", frozenset: "z"}
_BASES: tuple[type, ...] = (bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict)
_ORDINARY = (Counter, OrderedDict, defaultdict)  # dicts whose own equality agrees with that of their content


_FROM_TAG: dict[str, Callable[[list[Any]], Any]] = {"l": list, "t": tuple, "e": set, "z": frozenset}


class Opaque:
    """A value that could not leave the sandbox. It equals nothing, itself included."""

    def __init__(self, type_name: str) -> None:
        self.type_name = type_name

    def __eq__(self, other: object) -> bool:
        return False

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"<a value of type {self.type_name}>"


class ValueFormatError(ValueError):
    """An encoded value is malformed, too deep or too large."""


def encode(value: Any, reference: ToReference | None = None) -> Encoded:
    """Encodes a value.

    A subclass of a built-in type counts as its content where it keeps the ordinary equality (named tuples,
    `defaultdict`, `IntEnum`), numpy scalars as the number that they hold; anything else is `u`, or what `reference`
    makes of it.

    Args:
        value: Anything.
        reference: Called with a value that has no encoding; returns the encoding to use.
    """
    return _encode(value, reference, MAX_DEPTH, [MAX_NODES])


def _encode(value: Any, reference: ToReference | None, depth: int, budget: list[int]) -> Encoded:
    budget[0] -= 1
    if depth < 0 or budget[0] < 0:
        return ["u", "a structure that is too deep or too large"]
    kind = type(value)
    if kind is type and value in _BASES:
        return ["k", value.__name__]
    if kind not in _BASES:
        base = _plain_base(kind)
        if base is None and kind.__module__ == "numpy" and hasattr(value, "item") and not getattr(value, "shape", 0):
            return _encode(value.item(), None, 0, budget)
        if base is None:
            return reference(value) if reference else ["u", f"{kind.__module__}.{kind.__qualname__}"]
        kind = base
    if value is None or kind is type(None):
        return ["n"]
    if kind in _CONTAINERS:
        items = kind.__iter__(value)
        return [_CONTAINERS[kind], [_encode(item, reference, depth - 1, budget) for item in items]]
    if kind is dict:
        pairs = [(k, v) for k, v in dict.items(value)]
        return ["d", [[_encode(part, reference, depth - 1, budget) for part in pair] for pair in pairs]]
    return _encode_scalar(value, kind)


def _encode_scalar(value: Any, kind: type) -> Encoded:
    if kind is bool:
        return ["b", value]
    if kind is int:
        return ["i", format(int.__index__(value), "x")]
    if kind is float:
        return ["f", float.hex(value)]
    if kind is complex:
        return ["c", float.hex(value.real), float.hex(value.imag)]
    if kind is str:
        return ["s", str.__str__(value)]
    return ["y", base64.b64encode(bytes(value)).decode("ascii")]


def _plain_base(kind: type) -> type | None:
    if kind is type(None):
        return kind
    for base in _BASES[1:]:
        if issubclass(kind, base):
            ordinary = getattr(kind, "__eq__", None) is getattr(base, "__eq__", None)
            return base if kind in _ORDINARY or ordinary else None
    return None


def decode(data: Any, reference: FromReference | None = None) -> Any:
    """Decodes an encoded value into exact built-in types, `Opaque` where it could not leave.

    Args:
        data: What `json.loads` made of the encoding.
        reference: Called with number and type name of a live object; None refuses live objects.

    Raises:
        ValueFormatError: The data is not in the format, too deep, too large, or has unhashable keys.
    """
    try:
        return _decode(data, reference, MAX_DEPTH + 1, [MAX_NODES])
    except (TypeError, LookupError, AttributeError, RecursionError, OverflowError) as error:
        raise ValueFormatError(f"malformed value: {error}") from None
    except ValueFormatError:
        raise
    except ValueError as error:
        raise ValueFormatError(f"malformed value: {error}") from None


def _decode(data: Any, reference: FromReference | None, depth: int, budget: list[int]) -> Any:
    budget[0] -= 1
    if type(data) is not list or not data or depth < 0 or budget[0] < 0:
        raise ValueFormatError("malformed, too deep or too large")
    tag = data[0]
    if tag == "n" and len(data) == 1:
        return None
    if tag == "c" and len(data) == 3:
        return complex(float.fromhex(data[1]), float.fromhex(data[2]))
    if tag == "r" and len(data) == 3 and reference is not None and type(data[1]) is int:
        return reference(data[1], str(data[2])[:200])
    if len(data) != 2:
        raise ValueFormatError(f"no value has the tag {tag!r} and {len(data) - 1} parts")
    return _decode_two(tag, data[1], reference, depth, budget)


def _decode_two(tag: Any, body: Any, reference: FromReference | None, depth: int, budget: list[int]) -> Any:
    if tag in _FROM_TAG:
        if type(body) is not list:
            raise ValueFormatError("a container without a list")
        items = [_decode(item, reference, depth - 1, budget) for item in body]
        return _FROM_TAG[tag](items)
    if tag == "d":
        return {_decode(k, reference, depth - 1, budget): _decode(v, reference, depth - 1, budget) for k, v in body}
    if tag == "b" and type(body) is bool:
        return body
    if type(body) is not str:
        raise ValueFormatError(f"the tag {tag!r} with a {type(body).__name__}")
    if tag == "i":
        return int(body, 16)
    if tag == "f":
        return float.fromhex(body)
    if tag == "s":
        return body
    if tag == "y":
        return base64.b64decode(body, validate=True)
    if tag == "k":
        return {kind.__name__: kind for kind in _BASES}[body]
    if tag == "u":
        return Opaque(body[:200])
    raise ValueFormatError(f"unknown tag {tag!r}")


def same(left: Any, right: Any) -> bool:
    """Type-strict equality of plain values: `1`, `1.0`, `True` differ, and so do lists and tuples; NaN equals NaN."""
    if type(left) is not type(right) or isinstance(left, Opaque):
        return False
    if isinstance(left, list | tuple):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, dict):
        if len(left) != len(right):
            return False
        keys = {(type(key), key): value for key, value in right.items()}
        return all((type(key), key) in keys and same(value, keys[type(key), key]) for key, value in left.items())
    if isinstance(left, set | frozenset):
        return {(type(item), item) for item in left} == {(type(item), item) for item in right}
    if isinstance(left, float) and math.isnan(left):
        return math.isnan(right)
    return bool(left == right)
