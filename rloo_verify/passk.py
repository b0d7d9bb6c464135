"""pass@k: the probability that at least one of k completions passes."""

import math


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased estimate of pass@k from n judged completions of which c pass: 1 - C(n-c, k) / C(n, k).

    Chen et al., 2021, "Evaluating Large Language Models Trained on Code", eq. 1, as a product that neither overflows
    nor cancels.

    Raises:
        ValueError: unless 0 <= c <= n and 1 <= k <= n.
    """
    if not 0 <= c <= n or not 1 <= k <= n:
        raise ValueError(f"pass@k needs 0 <= c <= n and 1 <= k <= n, not n = {n}, c = {c}, k = {k}")
    if n - c < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / i for i in range(n - c + 1, n + 1))
