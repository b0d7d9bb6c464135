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

MAX_DEPTH = 60
MAX_NODES = 2_000_000

_CONTAINERS = {list: "l", tuple: "t", set: "e", frozenset: "z"}
_BASES = (bool, int, float, complex, str, bytes, list, tuple, set, frozenset, dict)
_ORDINARY = (Counter, OrderedDict, defaultdict)  # dicts whose own equality agrees with that of their content


class Opaque:
    """A value that could not leave the sandbox. It equals nothing, itself included."""

    def __init__(self, type_name):
        self.type_name = type_name

    def __eq__(self, other):
        return False

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self):
        return f"<a value of type {self.type_name}>"


class Reference:
    """A live object that stays inside a session; `number` names it there."""

    def __init__(self, number, type_name):
        self.number = number
        self.type_name = type_name

    def __repr__(self):
        return f"<object {self.number} of type {self.type_name}>"


class ValueFormatError(ValueError):
    """An encoded value is malformed, too deep or too large."""


def encode(value, reference=None):
    """Encodes a value.

    A subclass of a built-in type counts as its content where it keeps the ordinary equality (named tuples,
    `defaultdict`, `IntEnum`), numpy scalars as the number that they hold; anything else is `u`, or what `reference`
    makes of it.

    Args:
        value: Anything.
        reference: Called with a value that has no encoding; returns the encoding to use.
    """
    return _encode(value, reference, MAX_DEPTH, [MAX_NODES])


def _encode(value, reference, depth, budget):
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
        return [_CONTAINERS[kind], [_encode(item, reference, depth - 1, budget) for item in kind.__iter__(value)]]
    if kind is dict:
        items = dict.items(value)
        return ["d", [[_encode(k, reference, depth - 1, budget), _encode(v, reference, depth - 1, budget)]
                      for k, v in items]]  # fmt: skip
    return _encode_scalar(value, kind)


def _encode_scalar(value, kind):
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


def _plain_base(kind):
    if kind is type(None):
        return kind
    for base in _BASES[1:]:
        if issubclass(kind, base):
            return base if kind in _ORDINARY or kind.__eq__ is base.__eq__ else None
    return None


def decode(data, reference=None):
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


def _decode(data, reference, depth, budget):
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


def _decode_two(tag, body, reference, depth, budget):
    if tag in ("l", "t", "e", "z"):
        if type(body) is not list:
            raise ValueFormatError("a container without a list")
        items = [_decode(item, reference, depth - 1, budget) for item in body]
        return {"l": list, "t": tuple, "e": set, "z": frozenset}[tag](items)
    if tag == "d":
        return {_decode(k, reference, depth - 1, budget): _decode(v, reference, depth - 1, budget) for k, v in body}
    if type(body) is not (bool if tag == "b" else str):
        raise ValueFormatError(f"the tag {tag!r} with a {type(body).__name__}")
    if tag == "b":
        return body
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


def is_plain(value):
    """Whether a value can cross the border whole."""
    return not _holds_opaque(encode(value))


def _holds_opaque(data):
    if data[0] in ("l", "t", "e", "z"):
        return any(_holds_opaque(item) for item in data[1])
    if data[0] == "d":
        return any(_holds_opaque(part) for pair in data[1] for part in pair)
    return data[0] in ("u", "r")


def same(left, right):
    """Type-strict equality of plain values: `1`, `1.0` and `True` differ, and so do lists and tuples. NaN equals NaN."""
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
