"""Seeds as a pure function of what they are for, so that no random state has to be saved or restored."""

import hashlib


def derive_seed(*parts: int | str) -> int:
    """A seed in [0, 2**62) from any sequence of integers and strings, the same on every machine.

    Completions use `derive_seed(run seed, step, problem id, sample index)`.
    """
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big") >> 2
