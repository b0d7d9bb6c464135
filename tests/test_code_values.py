"""Values that cross the border of a sandbox, and how they are compared: strictly, whatever a program sends."""

import math
from collections import Counter as Multiset
from collections import OrderedDict, defaultdict, namedtuple
from enum import IntEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rloo_verify.grading.compare import output_comparison, value_comparison
from rloo_verify.sandbox.inside.frames import Counter
from rloo_verify.sandbox.inside.values import MAX_DEPTH, Opaque, ValueFormatError, decode, encode, same

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.binary()
    | st.complex_numbers(allow_nan=False)
)
HASHABLE = st.booleans() | st.integers() | st.text() | st.tuples(st.integers(), st.text())
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner)
        | st.lists(inner).map(tuple)
        | st.dictionaries(HASHABLE, inner)
        | st.sets(HASHABLE)
        | st.frozensets(HASHABLE)
    ),
    max_leaves=20,
)


@given(VALUES)
def test_a_plain_value_arrives_as_it_was(value: Any) -> None:
    assert same(value, decode(encode(value)))


class Colour(IntEnum):
    RED = 1


class Liar(list):  # type: ignore[type-arg]
    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = None  # type: ignore[assignment]


Pair = namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("value", "arrives"),
    [
        (Pair(1, 2), (1, 2)),
        (Multiset("aab"), {"a": 2, "b": 1}),
        (defaultdict(list, {1: [2]}), {1: [2]}),
        (OrderedDict(a=1), {"a": 1}),
        (Colour.RED, 1),
        pytest.param(10**5000, 10**5000, id="5001 digits"),
        (int, int),
    ],
)
def test_subclasses_with_ordinary_equality_count_as_their_content(value: Any, arrives: Any) -> None:
    assert same(arrives, decode(encode(value)))


@pytest.mark.parametrize("value", [Liar([1]), object(), lambda: 1, iter([1]), type("A", (), {})])
def test_anything_else_is_opaque_and_equals_nothing(value: Any) -> None:
    found = decode(encode(value))
    assert isinstance(found, Opaque)
    assert found != found
    assert not same(found, found)


def test_a_structure_that_is_too_deep_or_holds_itself_is_opaque_inside() -> None:
    endless: list[Any] = []
    endless.append(endless)
    found = decode(encode(endless))
    for _ in range(MAX_DEPTH):
        found = found[0]
    assert isinstance(found[0] if isinstance(found, list) else found, Opaque)


@pytest.mark.parametrize(
    "data",
    [
        None,
        [],
        {},
        "n",
        ["x"],
        ["n", 1],
        ["i", 5],
        ["i", "g"],
        ["b", 1],
        ["s", 5],
        ["f", "one"],
        ["l", "ab"],
        ["d", [[1]]],
        ["d", [["n"]]],
        ["e", [["l", []]]],
        ["d", [[["l", []], ["n"]]]],
        ["y", "%"],
        ["k", "eval"],
        ["r", 0, "A"],
        ["c", "1"],
        [["n"]],
    ],
)
def test_what_is_not_in_the_format_is_refused(data: Any) -> None:
    with pytest.raises(ValueFormatError):
        decode(data)


def test_nesting_beyond_the_cap_is_refused() -> None:
    data: list[Any] = ["n"]
    for _ in range(100_000):
        data = ["l", [data]]
    with pytest.raises(ValueFormatError):
        decode(data)


@pytest.mark.parametrize(
    ("name", "expected", "found", "equal"),
    [
        ("exact", 1, True, False),
        ("exact", 1, 1.0, False),
        ("exact", [1], (1,), False),
        ("exact", {1: 2}, {True: 2}, False),
        ("exact", {1, 2}, {2, 1}, True),
        ("exact", 0.3, 0.1 + 0.2, False),
        ("exact", math.nan, math.nan, True),
        ("json", [1, 2], (1, 2), True),
        ("json", 1, True, False),
        ("json", 2, 2.0, True),
        ("json", {"1": 2}, {1: 2}, True),
        ("json", {"1": 2}, {1: 2, "1": 2}, False),
        ("python", 1, True, True),
        ("python", [1], (1,), False),
        ("float:1e-6", 10.0, 10, True),
        ("float:1e-6", 10.0, True, False),
        ("float:1e-6", 10, 10.0, False),
        ("float:1e-6", 1.0, 1.0 + 1e-9, True),
        ("float:1e-6", 1.0, 1.1, False),
        ("float:1e-6", 1.0, math.nan, False),
        ("float:1e-6", math.inf, math.inf, True),
        ("float:1e-6", math.inf, 1e308, False),
        ("float:1e-6", math.nan, math.nan, False),
        ("float:1e-6", 1.0, 10**400, False),
        ("unordered", [1, 2, 2], [2, 1, 2], True),
        ("unordered", [1, 2, 2], [2, 1, 1], False),
        ("unordered", [1], [True], False),
    ],
)
def test_a_comparison_of_values(name: str, expected: Any, found: Any, equal: bool) -> None:
    assert value_comparison(name)(expected, found) is equal


@pytest.mark.parametrize(
    ("name", "expected", "found", "equal"),
    [
        ("tokens", b"1 2\n", b"1\r\n2", True),
        ("tokens", b"YES", b"yes", False),
        ("tokens", b"6", b"6 6", False),
        ("float:1e-6", b"0.5", b"0.5000000001", True),
        ("float:1e-6", b"6", b"6.0", False),
        ("float:1e-6", b"6.0", b"6", True),
        ("float:1e-6", b"1.0", b"nan", False),
        ("float:1e-6", b"1.0", b"inf", False),
        ("float:1e-6", b"1.5", b"1_5e-1", False),
        ("float:1e-6", b"1e-07", b"0.0000001", True),
        ("float:1e-6", b"1.5 a", b"1.5", False),
        ("unordered", b"a 1\nb 2\n", b"b  2\na 1", True),
        ("unordered", b"a\na\nb", b"a\nb\nb", False),
    ],
)
def test_a_comparison_of_output(name: str, expected: bytes, found: bytes, equal: bool) -> None:
    assert output_comparison(name)(expected, found) is equal


@pytest.mark.parametrize("name", ["", "close", "float:", "float:2", "float:-1", "float:nan"])
def test_an_unknown_comparison_is_refused(name: str) -> None:
    for find in (value_comparison, output_comparison):
        with pytest.raises(ValueError, match=r"comparison|tolerance"):
            find(name)


@given(st.lists(st.binary(max_size=20)), st.lists(st.integers(1, 9)))
def test_messages_are_counted_however_a_stream_is_cut(bodies: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(len(body).to_bytes(4, "big") + body for body in bodies)
    counter = Counter()
    for cut in cuts:
        counter.feed(stream[:cut])
        stream = stream[cut:]
    counter.feed(stream)
    assert counter.complete == len(bodies)
