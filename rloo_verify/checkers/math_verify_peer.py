"""Math-Verify as a peer to measure against: the call that its README shows, first the reference, then the response.

A bare reference is put between dollar signs: it is often unreadable for Math-Verify otherwise.

Imports nothing of this project, so that `benchmarks/math_checker.py` can run it in another environment:

    python -P math_verify_peer.py < pairs.jsonl     one [gold, response] a line -> one [right, seconds] a line
"""

import json
import logging
import re
import sys
import time


def available() -> str | None:
    """Why Math-Verify cannot be used here; None where it can."""
    try:
        import math_verify  # type: ignore[import-not-found]  # noqa: F401
    except ImportError as error:
        return f"Math-Verify is not installed here ({error}); pip install 'math-verify[antlr4_13_2]'"
    logging.getLogger("math_verify").setLevel(logging.CRITICAL)
    return None


def judge(gold: str, response: str) -> bool:
    """Whether Math-Verify rewards a response, with its defaults."""
    from math_verify import parse, verify

    bare = re.search(r"\$|\\\(|\\\[|boxed", gold) is None
    return bool(verify(parse(f"${gold}$" if bare else gold), parse(response)))


def main() -> None:
    """Judge the pairs on standard input."""
    why_not = available()
    if why_not is not None:
        sys.exit(why_not)
    judge("$1$", "$1$")  # what is imported late is not billed to the first pair
    for line in sys.stdin:
        gold, response = json.loads(line)
        started = time.perf_counter()
        try:
            right = judge(gold, response)
        except Exception:  # noqa: BLE001 - a peer that raises gives no reward
            right = False
        print(json.dumps([right, time.perf_counter() - started]), flush=True)


if __name__ == "__main__":
    main()
