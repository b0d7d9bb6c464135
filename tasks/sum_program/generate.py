"""Three-digit sums as one-line programs, made from hashes alone; train and test share none."""

from collections.abc import Iterator
from hashlib import blake2b
from typing import Any

DEFAULT_COUNTS = {"train": 2_000, "test": 200}
TEST_SHARE = 5  # one problem in five


def rows(split: str, *, count: int | None = None, seed: int = 0) -> Iterator[dict[str, Any]]:
    """Yields distinct problems.

    Args:
        split: `train` or `test`.
        count: How many; 2,000 for train and 200 for test where None.
        seed: Which problems, and in which order.

    Raises:
        ValueError: There is no such split, or `count` is below 1.
    """
    if split not in DEFAULT_COUNTS:
        raise ValueError(f"sum_program has the splits train and test, not {split!r}")
    count = DEFAULT_COUNTS[split] if count is None else count
    if count < 1:
        raise ValueError(f"count must be at least 1, not {count}")
    seen: set[tuple[int, int]] = set()
    draw = 0
    while len(seen) < count:
        bits = _hash(seed, draw)
        a, b = 100 + bits % 900, 100 + (bits >> 32) % 900
        draw += 1
        if (a, b) in seen or (_hash("split", *sorted((a, b))) % TEST_SHARE == 0) != (split == "test"):
            continue
        seen.add((a, b))
        yield {
            "question": f"{a}+{b}",
            "prompt": "def total():\n    return ",
            "entry_point": "total",
            "tests": [f"assert total() == {a + b}"],
        }


def _hash(*parts: object) -> int:
    return int.from_bytes(blake2b("/".join(map(str, parts)).encode(), digest_size=8).digest(), "big")
