"""Arithmetic problems of six levels, made from hashes alone, so every machine and Python version makes the same ones.

A problem belongs to the test split when the hash of its operands says so, whatever the level, the seed and the order
of the operands: neither `12+34` nor `34+12` is ever in train when one of them is in test.
"""

import itertools
from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

LEVELS = {
    1: "one-digit addition",
    2: "two-digit addition",
    3: "three-digit addition",
    4: "three-digit addition and subtraction, never below zero",
    5: "two-digit multiplication",
    6: "three terms of one or two digits with +, - and *, may be negative",
}
DEFAULT_COUNTS = {"train": 20_000, "test": 500}
TEST_SHARE = 5  # one problem in five


def rows(split: str, *, level: int = 3, count: int | None = None, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yields distinct problems of one level.

    Args:
        split: `train` or `test`; they share no problem.
        level: 1 to 6, see `LEVELS`.
        count: How many; 20,000 for train and 500 for test where None. Fewer where the level has fewer distinct ones.
        seed: Which problems and in which order; does not move a problem from one split to the other.

    Raises:
        ValueError: There is no such split or level, or `count` is below 1.
    """
    if split not in DEFAULT_COUNTS:
        raise ValueError(f"arithmetic has the splits train and test, not {split!r}")
    if level not in LEVELS:
        raise ValueError(f"level must be 1 to 6, not {level!r}")
    count = DEFAULT_COUNTS[split] if count is None else count
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    seen: set[str] = set()
    for terms, operators in _candidates(level, seed, count):
        question = terms[0] + "".join(operator + term for operator, term in zip(operators, terms[1:], strict=True))
        if question in seen or _is_test(terms, operators) != (split == "test"):
            continue
        seen.add(question)
        yield {"question": question, "answer": str(_value(terms, operators)), "level": level}
        if len(seen) == count:
            return


def _candidates(level: int, seed: int, count: int) -> Iterator[tuple[list[str], str]]:
    if level in (1, 2, 5):  # small enough to list in full
        numbers = range(10) if level == 1 else range(10, 100)
        pairs = list(itertools.product(numbers, numbers))
        pairs.sort(key=lambda pair: _hash(seed, level, *pair))
        yield from (([str(a), str(b)], "*" if level == 5 else "+") for a, b in pairs)
        return
    # One draw in five is a test problem, and repeats are rare until most of the level is used up.
    for draw in range(50 * count + 1000):
        bits = _hash(seed, level, draw)
        a, b, c, operator = bits % 1_000_003, bits >> 20, bits >> 40, bits >> 56
        if level == 6:
            terms = [str(1 + number % 99) for number in (a, b, c)]
            yield terms, "+-*"[operator % 3] + "+-*"[(operator >> 4) % 3]
            continue
        first, second = 100 + a % 900, 100 + b % 900
        minus = level == 4 and operator % 2 == 1
        first, second = (max(first, second), min(first, second)) if minus else (first, second)
        yield [str(first), str(second)], "-" if minus else "+"


def _value(terms: list[str], operators: str) -> int:
    total, product, sign = 0, int(terms[0]), 1
    for operator, term in zip(operators, terms[1:], strict=True):
        if operator == "*":
            product *= int(term)
        else:
            total += sign * product
            product, sign = int(term), 1 if operator == "+" else -1
    return total + sign * product


def _is_test(terms: list[str], operators: str) -> bool:
    # sorted: the commuted problem, which is as good as the same one, stays in the same split
    return _hash("split", operators, *sorted(terms)) % TEST_SHARE == 0


def _hash(*parts: object) -> int:
    return int.from_bytes(blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest(), "big")
